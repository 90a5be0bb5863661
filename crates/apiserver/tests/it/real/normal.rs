//! Answers without what differs between any two runs, and what two of them differ in.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::exchange::Answer;
use super::script::Step;

/// Headers that clients look at.
const HEADERS: [&str; 8] = [
    "content-type",
    "warning",
    "retry-after",
    "cache-control",
    "location",
    "vary",
    "allow",
    "www-authenticate",
];

/// What an answer says: JSON, YAML, the events of a watch, or text.
pub(super) fn body(answer: &Answer) -> Value {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let content_type =
        answer.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.starts_with("application/yaml") {
        return json!({"yaml": serde_saphyr::from_str::<Value>(&text).unwrap_or(json!(text))});
    }
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        let is_event = value.get("type").is_some() && value.get("object").is_some();
        return match is_event {
            true if is_progress(&value) => Value::Array(Vec::new()),
            true => Value::Array(vec![value]),
            false => value,
        };
    }
    let events: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match events {
        Ok(events) if !events.is_empty() => {
            Value::Array(events.into_iter().filter(|event| !is_progress(event)).collect())
        }
        _ => Value::String(text),
    }
}

/// When to tell how far a watch has come is up to the server.
fn is_progress(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && !event.to_string().contains("k8s.io/initial-events-end")
}

/// What of an answer is compared.
pub(super) fn answer(step: &Step, answer: &Answer, mut body: Value) -> Value {
    let mut headers = Map::new();
    for name in HEADERS {
        let values = answer
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let values: Vec<_> = values.collect();
        if !values.is_empty() {
            headers.insert(name.to_owned(), values.join(" | ").into());
        }
    }
    if !step.picks.is_empty() {
        let picked = step.picks.iter().map(|pick| (pick.clone(), pick_from(&body, pick)));
        body = Value::Object(picked.collect());
    }
    strip(&mut body, step.shows_managed);
    json!({"code": answer.code, "headers": headers, "body": body})
}

/// What is at a pointer, in which `*` is everything in a list or an object.
fn pick_from(value: &Value, pointer: &str) -> Value {
    let Some(rest) = pointer.strip_prefix('/') else { return value.clone() };
    let (name, rest) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    match (name, value) {
        ("*", Value::Array(items)) => items.iter().map(|item| pick_from(item, rest)).collect(),
        ("*", Value::Object(fields)) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), pick_from(value, rest))).collect())
        }
        _ => value.pointer(&format!("/{name}")).map_or(Value::Null, |value| pick_from(value, rest)),
    }
}

/// Hides times, ages, tokens and the like.
fn strip(value: &mut Value, shows_managed: bool) {
    match value {
        Value::Object(fields) => {
            if !shows_managed && fields.contains_key("managedFields") {
                fields.remove("managedFields");
            }
            if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                // Entries of the same second stand in the order of their managers.
                entries.sort_by_key(|entry| {
                    format!("{}{}{}", entry["manager"], entry["operation"], entry["subresource"])
                });
            }
            let is_list =
                fields.contains_key("items") || fields.contains_key("rows") && fields["kind"] == "Table";
            for item in fields.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
                // Ours say in lists, too, what they are.
                if let Some(item) = item.as_object_mut() {
                    item.remove("kind");
                    item.remove("apiVersion");
                }
            }
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                // How far the whole server has come depends on what else it does.
                if is_list && metadata.get("resourceVersion").is_some_and(|version| version != "") {
                    metadata.insert("resourceVersion".to_owned(), "<now>".into());
                }
                hide_generated(metadata);
            }
            for (name, value) in fields {
                match (name.as_str(), value.as_str()) {
                    ("continue", Some(token)) if !token.is_empty() => *value = "<continue>".into(),
                    ("token", Some(token)) => *value = claims(token).unwrap_or_else(|| token.into()),
                    ("hash" | "kid", Some(_)) => *value = "<some>".into(),
                    // Those below are given to who asks for them.
                    ("nodePort" | "healthCheckNodePort", None) if value.as_i64() >= Some(30086) => {
                        *value = "<port>".into();
                    }
                    _ => strip(value, shows_managed),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, shows_managed)),
        Value::String(text) if is_recent(text) => {
            let shown = if text.contains('.') { "<moment>" } else { "<time>" };
            shown.clone_into(text);
        }
        Value::String(text) if is_age(text) => "<age>".clone_into(text),
        _ => {}
    }
}

/// A name that the server has made keeps its beginning and its length.
fn hide_generated(metadata: &mut Map<String, Value>) {
    let base = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let ending = name.len().checked_sub(5).and_then(|at| name.get(at..)).unwrap_or_default();
    let is_made =
        ending.len() == 5 && ending.chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter));
    if !base.is_empty() && is_made {
        metadata.insert("name".to_owned(), format!("{}<5>", &name[..name.len() - 5]).into());
    }
}

/// What a token says, without when.
fn claims(token: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let mut claims: Value = serde_json::from_slice(&bytes).ok()?;
    for name in ["exp", "iat", "nbf", "jti"] {
        if claims.get(name).is_some() {
            claims[name] = "<some>".into();
        }
    }
    let lifetime = claims["kubernetes.io"]["warnafter"].is_number();
    if lifetime {
        claims["kubernetes.io"]["warnafter"] = "<some>".into();
    }
    Some(claims)
}

/// Times of the script itself are older.
fn is_recent(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes.len(), 20..=30)
        && &text[4..5] == "-"
        && bytes[10] == b'T'
        && text.ends_with('Z')
        && text > "2025"
}

fn is_age(text: &str) -> bool {
    let digits = text.strip_suffix('s').unwrap_or_default();
    !digits.is_empty() && digits.len() < 3 && digits.chars().all(|digit| digit.is_ascii_digit())
}

/// What was seen in a chapter, and gets names: identifiers and addresses in the order in which they are seen, resource
/// versions in their own.
#[derive(Debug, Default)]
pub(super) struct Names {
    uids: Vec<String>,
    /// Of services.
    addresses: Vec<String>,
    versions: BTreeSet<u64>,
}

impl Names {
    pub(super) fn collect(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value.as_str()) {
                        ("uid", Some(uid))
                            if uid.len() == 36 && !self.uids.iter().any(|known| known == uid) =>
                        {
                            self.uids.push(uid.to_owned());
                        }
                        ("clusterIP", Some(address))
                            if address.starts_with("10.")
                                && !self.addresses.iter().any(|known| known == address) =>
                        {
                            self.addresses.push(address.to_owned());
                        }
                        ("resourceVersion", Some(version)) => self.versions.extend(version.parse::<u64>()),
                        _ => self.collect(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    pub(super) fn hide(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value.as_str()) {
                        ("resourceVersion", Some(version)) => {
                            if let Ok(version) = version.parse::<u64>() {
                                let rank = self.versions.range(..version).count();
                                *value = format!("v{rank}").into();
                            }
                        }
                        _ => self.hide(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::String(text) => self.hide_in(text),
            _ => {}
        }
    }

    fn hide_in(&self, text: &mut String) {
        for (index, uid) in self.uids.iter().enumerate() {
            if text.contains(uid.as_str()) {
                *text = text.replace(uid.as_str(), &format!("uid{index}"));
            }
        }
        // Some begin as others do.
        let mut addresses: Vec<_> = self.addresses.iter().enumerate().collect();
        addresses.sort_by_key(|(_, address)| std::cmp::Reverse(address.len()));
        for (index, address) in addresses {
            if text.contains(address.as_str()) {
                *text = text.replace(address.as_str(), &format!("address{index}"));
            }
        }
        if !text.contains("ResourceVersion") {
            return;
        }
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        for word in &mut words {
            let digits = word.trim_matches(|letter: char| !letter.is_ascii_digit()).to_owned();
            if let Some(version) = digits.parse().ok().filter(|version| self.versions.contains(version)) {
                *word = word.replace(&digits, &format!("v{}", self.versions.range(..version).count()));
            }
        }
        *text = words.join(" ");
    }
}

/// Removes what is at a pointer, in which `*` is everything in a list or an object.
pub(super) fn remove(value: &mut Value, pointer: &str) {
    let Some(rest) = pointer.strip_prefix('/') else { return };
    let (name, rest) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let name = name.replace("~1", "/");
    match value {
        Value::Object(fields) if rest.is_empty() => {
            fields.retain(|field, _| *field != name && name != "*");
        }
        Value::Object(fields) => {
            let matching = fields.iter_mut().filter(|(field, _)| **field == name || name == "*");
            matching.for_each(|(_, value)| remove(value, rest));
        }
        Value::Array(items) => {
            let matching = |index: usize| name == "*" || name.parse() == Ok(index);
            for (_, item) in items.iter_mut().enumerate().filter(|(index, _)| matching(*index)) {
                if rest.is_empty() {
                    *item = Value::Null;
                } else {
                    remove(item, rest);
                }
            }
        }
        _ => {}
    }
}

/// Where two values differ.
pub(super) fn differences(path: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    if ours == theirs {
        return Vec::new();
    }
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            let part = |key: &String| differences(&format!("{path}/{key}"), &ours[key], &theirs[key]);
            keys.into_iter().flat_map(part).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .flat_map(|(index, (one, other))| differences(&format!("{path}/{index}"), one, other))
                .collect()
        }
        _ => vec![format!("    {path}\n      ours:   {ours}\n      theirs: {theirs}")],
    }
}
