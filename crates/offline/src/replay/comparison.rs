//! Compares the result of a replay with the recording.

use ferroplane_recorder::{RecordedRun, Replayed};
use serde_json::Value;

/// How many differences are listed before they are only counted.
const LISTED: usize = 20;
/// How much of a value is shown.
const SHOWN: usize = 120;

/// The result of replaying a run.
pub fn describe(number: usize, take: &RecordedRun, replayed: &Replayed, is_redacted: bool) -> String {
    if replayed.is_same {
        let requests = match replayed.compared {
            0 if is_redacted => "; requests are not compared, because they held secrets".to_owned(),
            // Functions that are run again are given what the replay gives them: there is nothing to compare.
            0 => String::new(),
            1 => ", and so is 1 request".to_owned(),
            count => format!(", and so are {count} requests"),
        };
        return format!("run {number}: the result is the same, byte for byte{requests}\n");
    }
    let mut text = format!("run {number}: the result differs\n");
    for step in &replayed.unlike {
        text += &format!("  the request to step `{step}` differs\n");
    }
    // The engine took another turn than was recorded. The outcomes are of different runs then, and comparing them says nothing.
    if let Some(astray) = &replayed.astray {
        return text + &format!("  {astray}\n");
    }
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    text + &differences(&read(&take.outcome), &read(&replayed.outcome))
}

/// Each field that differs, in a few lines.
pub(super) fn differences(recorded: &Value, now: &Value) -> String {
    let mut found = Vec::new();
    compare("", recorded, now, &mut found);
    let mut text = String::new();
    for (path, recorded, now) in found.iter().take(LISTED) {
        text += &format!("  {path}\n    recorded: {recorded}\n    now:      {now}\n");
    }
    if found.len() > LISTED {
        text += &format!("  … and {} more\n", found.len() - LISTED);
    }
    text
}

fn compare(path: &str, recorded: &Value, now: &Value, found: &mut Vec<(String, String, String)>) {
    match (recorded, now) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let get =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                compare(&path, &get(one), &get(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                let get = |list: &[Value]| list.get(index).cloned().unwrap_or_default();
                compare(&format!("{path}[{index}]"), &get(one), &get(other), found);
            }
        }
        (one, other) if one != other => found.push((path.to_owned(), shortened(one), shortened(other))),
        _ => {}
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_their_path() {
        let mut found = Vec::new();
        compare("", &json!({"a": [1, {"b": 2}], "c": 1}), &json!({"a": [1, {"b": 3}, 4]}), &mut found);
        let found: Vec<_> = found.iter().map(|(path, one, other)| format!("{path} {one} {other}")).collect();
        assert_eq!(found, ["a[1].b 2 3", "a[2] null 4", "c 1 null"]);
    }
}
