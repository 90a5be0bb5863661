//! Performs a script on a server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use super::exchange::{Answer, Server};
use super::normal::{self, Names};
use super::script::Step;

/// How often something is asked until it is as it should be.
const ATTEMPTS: usize = 500;

/// The answers to all steps, without what differs between any two runs.
pub(super) async fn play(server: &impl Server, steps: &[Step]) -> Vec<Value> {
    let mut saved = BTreeMap::new();
    let mut answers = Vec::new();
    for step in steps {
        if let Some(version) = &step.forgets {
            server.forget(&fill(version, &saved)).await;
        }
        let answer = ask(server, step, &saved).await;
        let body = if step.method == "HEAD" { Value::Null } else { normal::body(&answer) };
        for (name, pointer) in &step.saves {
            let value = body.pointer(pointer).unwrap_or(&Value::Null);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            saved.insert(name.clone(), text);
        }
        answers.push(normal::answer(step, &answer, body));
    }
    let mut names = Names::default();
    for answer in &answers {
        names.collect(answer);
    }
    for answer in &mut answers {
        names.hide(answer);
    }
    answers
}

async fn ask(server: &impl Server, step: &Step, saved: &BTreeMap<String, String>) -> Answer {
    for _ in 0..ATTEMPTS {
        let answer = server.ask(request(server, step, saved)).await;
        let Some((pointer, wanted)) = &step.until else { return answer };
        let found = match pointer.as_str() {
            "code" => answer.code.to_string(),
            pointer => normal::body(&answer).pointer(pointer).map(ToString::to_string).unwrap_or_default(),
        };
        if found == *wanted {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{}: it does not happen", step.title)
}

fn request(server: &impl Server, step: &Step, saved: &BTreeMap<String, String>) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(step.method.as_str()).uri(fill(&step.path, saved));
    let token = match step.user.as_deref() {
        None => Some(server.master()),
        Some("nobody") => None,
        Some(user) => Some(fill(user, saved)),
    };
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if !step.headers.iter().any(|(name, _)| name == "user-agent") {
        request = request.header("user-agent", "script/1");
    }
    for (name, value) in &step.headers {
        request = request.header(name, fill(value, saved));
    }
    let body = fill(&step.body, saved);
    let body = if step.is_hex { unhex(&body) } else { body.into_bytes() };
    request.body(Full::new(body.into())).unwrap()
}

/// Replaces `{{name}}` by what was saved, and `{{x*3}}` by `xxx`.
fn fill(text: &str, saved: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, (inside, behind))) =
        rest.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        filled.push_str(before);
        match inside.rsplit_once('*').and_then(|(text, count)| Some((text, count.parse().ok()?))) {
            Some((text, count)) => filled.push_str(&text.repeat(count)),
            None => {
                filled.push_str(saved.get(inside).unwrap_or_else(|| panic!("nothing is saved as {inside}")));
            }
        }
        rest = behind;
    }
    filled + rest
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}
