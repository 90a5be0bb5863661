//! Plays generated sequences on a real server, and records what it answers.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::generate::{self, steps};
use super::names::Names;
use super::remote::{Answer, Remote};
use crate::dice::Dice;

/// Plays some sequences for each of the definitions with these numbers. A definition that the server refuses is an error.
pub(crate) fn play(remote: &Remote, numbers: &[u64], sequences: u64) -> Vec<Result<Value, String>> {
    let definitions: Vec<_> =
        numbers.iter().map(|number| generate::definition(&mut Dice::new(*number), *number)).collect();
    let made: Vec<_> = definitions.iter().map(|definition| define(remote, definition)).collect();
    let played = numbers.iter().zip(&definitions).zip(made).map(|((number, definition), made)| {
        made?;
        wait_until_served(remote, definition);
        let sequences = (0..sequences).map(|index| {
            let mut dice = Dice::new(number.wrapping_mul(31).wrapping_add(index + 1));
            play_sequence(remote, &mut dice, definition, &format!("x{index}"))
        });
        Ok(json!({"definition": definition, "sequences": sequences.collect::<Vec<_>>()}))
    });
    let played: Vec<_> = played.collect();
    for definition in definitions.iter().filter(|definition| definition["builtin"] != true) {
        let path = format!("{DEFINITIONS}/{}", text(definition, "/metadata/name"));
        remote.ask("DELETE", &path, "application/json", "");
    }
    played
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn define(remote: &Remote, definition: &Value) -> Result<(), String> {
    if definition["builtin"] == true {
        return Ok(());
    }
    let answer = remote.ask("POST", DEFINITIONS, "application/json", &definition.to_string());
    if answer.code == 201 { Ok(()) } else { Err(answer.body["message"].to_string()) }
}

fn wait_until_served(remote: &Remote, definition: &Value) {
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        let path = collection(definition, version["name"].as_str().unwrap());
        while remote.ask("GET", &path, "application/json", "").code != 200 {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn play_sequence(remote: &Remote, dice: &mut Dice, definition: &Value, name: &str) -> Value {
    let mut names = Names::default();
    let mut live = None;
    let mut played = Vec::new();
    for _ in 0..3 + dice.below(7) {
        let mut step = steps::next(dice, definition, name, live.as_ref());
        let answer = send(remote, definition, name, &names, &step);
        if answer.code == 0 {
            super::say(&format!("the real server hung up ({}) at {step}", answer.body));
            break;
        }
        let now = now(&mut names, &answer);
        let mut body = answer.body;
        names.hide(&mut body);
        let is_success = answer.code < 300;
        step["time"] = now.into();
        step["answer"] = json!({"code": answer.code, "body": body});
        if !answer.warnings.is_empty() {
            step["answer"]["warnings"] = answer.warnings.into();
        }
        if is_success && step["dryRun"] != true {
            live = current(remote, definition, name, &mut names);
            if step["verb"] == "delete" {
                step["left"] = live.clone().unwrap_or_default();
            }
        }
        played.push(step);
    }
    clear(remote, definition, name);
    played.into()
}

/// Removes the object, so that its definition can be removed.
fn clear(remote: &Remote, definition: &Value, name: &str) {
    let path = format!("{}/{name}", collection(definition, "v1"));
    remote.ask("PATCH", &path, "application/merge-patch+json", r#"{"metadata":{"finalizers":null}}"#);
    remote.ask("DELETE", &path, "application/json", "");
}

/// When the server wrote: the newest time in its answer, because the header may be a second late.
fn now(names: &mut Names, answer: &Answer) -> String {
    fn newest(value: &Value) -> Option<&str> {
        match value {
            Value::Object(fields) => fields
                .iter()
                .filter_map(|(key, value)| match key.as_str() {
                    "time" | "creationTimestamp" | "deletionTimestamp" => value.as_str(),
                    _ => newest(value),
                })
                .max(),
            Value::Array(items) => items.iter().filter_map(newest).max(),
            _ => None,
        }
    }
    let found = newest(&answer.body["metadata"]).map(str::to_owned);
    names.hide_time(&found.unwrap_or_else(|| rfc3339(&answer.date)))
}

/// From the form of HTTP, `Sun, 15 Nov 2026 15:12:42 GMT`.
fn rfc3339(date: &str) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(&date[8..11]).unwrap() / 3 + 1;
    format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25])
}

fn current(remote: &Remote, definition: &Value, name: &str, names: &mut Names) -> Option<Value> {
    let path = format!("{}/{name}", collection(definition, "v1"));
    let answer = remote.ask("GET", &path, "application/json", "");
    let mut body = answer.body;
    names.hide(&mut body);
    (answer.code == 200).then_some(body)
}

fn send(remote: &Remote, definition: &Value, name: &str, names: &Names, step: &Value) -> Answer {
    let collection = collection(definition, text(step, "/version"));
    let object = match text(step, "/part") {
        "" => format!("{collection}/{name}"),
        part => format!("{collection}/{name}/{part}"),
    };
    let (method, path, content_type) = match text(step, "/verb") {
        "create" => ("POST", collection, "application/json"),
        "update" => ("PUT", object, "application/json"),
        "merge" => ("PATCH", object, "application/merge-patch+json"),
        "json" => ("PATCH", object, "application/json-patch+json"),
        "strategic" => ("PATCH", object, "application/strategic-merge-patch+json"),
        "apply" => ("PATCH", object, "application/apply-patch+yaml"),
        _ => ("DELETE", object, "application/json"),
    };
    let mut query = Vec::new();
    for (key, name) in [("manager", "fieldManager"), ("validation", "fieldValidation")] {
        if let Some(value) = step[key].as_str() {
            query.push(format!("{name}={value}"));
        }
    }
    if step["force"] == true {
        query.push("force=true".to_owned());
    }
    if step["dryRun"] == true {
        query.push("dryRun=All".to_owned());
    }
    remote.ask(method, &format!("{path}?{}", query.join("&")), content_type, &names.show(text(step, "/body")))
}

/// The path of the resources.
fn collection(definition: &Value, version: &str) -> String {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let namespace = if definition["spec"]["scope"] == "Cluster" { "" } else { "namespaces/default/" };
    let group = if group.is_empty() { "api".to_owned() } else { format!("apis/{group}") };
    format!("/{group}/{version}/{namespace}{plural}")
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
