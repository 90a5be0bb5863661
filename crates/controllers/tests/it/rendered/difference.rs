//! Says where two values differ.

use serde_json::Value;

/// Both are the same.
pub(super) fn assert_same(what: &str, plane: &Value, rendered: &Value) {
    let mut found = Vec::new();
    compare("", plane, rendered, true, &mut found);
    assert!(
        found.is_empty(),
        "{what}: the plane and `render` differ:\n{}\nplane: {plane:#}\nrender: {rendered:#}",
        found.join("\n")
    );
}

/// Everything that is rendered is on the plane. An API server adds what `render` cannot know.
pub(super) fn assert_contains(what: &str, plane: &Value, rendered: &Value) {
    let mut found = Vec::new();
    compare("", plane, rendered, false, &mut found);
    assert!(
        found.is_empty(),
        "{what}: the plane and `render` differ:\n{}\nplane: {plane:#}\nrender: {rendered:#}",
        found.join("\n")
    );
}

fn compare(path: &str, plane: &Value, rendered: &Value, is_strict: bool, found: &mut Vec<String>) {
    match (plane, rendered) {
        (Value::Object(one), Value::Object(other)) => {
            let more = one.keys().filter(|key| is_strict && !other.contains_key(*key));
            for key in other.keys().chain(more) {
                let get =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                compare(&format!("{path}.{key}"), &get(one), &get(other), is_strict, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, is_strict, found);
            }
        }
        (one, other) if one != other => found.push(format!("  {path}: plane {one}, render {other}")),
        _ => {}
    }
}
