//! Fills values of an object into a status that a user wrote down: `${spec.region}`. Performs no I/O.

use ferroplane_api::Object;
use serde_json::Value;

/// The template with values of the object in place of paths. A field that is nothing but a path keeps the type of the value, and is
/// left out if there is none.
pub(super) fn fill(template: &Object, object: &Object) -> Object {
    let filled = template.iter().filter_map(|(key, value)| Some((key.clone(), fill_value(value, object)?)));
    filled.collect()
}

fn fill_value(template: &Value, object: &Object) -> Option<Value> {
    match template {
        Value::Object(fields) => Some(Value::Object(fill(fields, object))),
        Value::Array(items) => Some(items.iter().filter_map(|item| fill_value(item, object)).collect()),
        Value::String(text) => fill_text(text, object),
        other => Some(other.clone()),
    }
}

fn fill_text(text: &str, object: &Object) -> Option<Value> {
    let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    if let Some(path) = whole.filter(|path| !path.contains('}')) {
        return find(object, path).cloned();
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, (path, after))) =
        rest.split_once("${").and_then(|(before, tail)| Some((before, tail.split_once('}')?)))
    {
        filled += before;
        match find(object, path) {
            Some(Value::String(text)) => filled += text,
            Some(value) => filled += &value.to_string(),
            None => {}
        }
        rest = after;
    }
    Some((filled + rest).into())
}

/// The value at a path such as `metadata.labels[app.kubernetes.io/name]`.
fn find<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut keys = keys(path).into_iter();
    let first = object.get(keys.next()?)?;
    keys.try_fold(first, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

/// Keys are between dots; a key with dots of its own is in brackets.
fn keys(path: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        let (key, after) = match rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some(bracketed) => bracketed,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        keys.push(key);
        rest = after.strip_prefix('.').unwrap_or(after);
        // Two dots, or a bracket without its end: there is no such field.
        if key.is_empty() {
            break;
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(template: &Value) -> Value {
        let object = json!({
            "metadata": {"name": "db", "labels": {"a.b/c": "blue"}},
            "spec": {"size": 20, "zones": ["a", "b"]},
        });
        Value::Object(fill(template.as_object().unwrap(), object.as_object().unwrap()))
    }

    #[test]
    fn values_of_the_object_are_filled_in() {
        let template = json!({
            "id": "db:${metadata.name}/${spec.size}", "size": "${spec.size}", "zone": "${spec.zones[1]}",
            "colour": "${metadata.labels[a.b/c]}", "nested": [{"plain": true, "name": "${metadata.name}"}],
        });
        let expected = json!({
            "id": "db:db/20", "size": 20, "zone": "b", "colour": "blue", "nested": [{"plain": true, "name": "db"}],
        });
        assert_eq!(filled(&template), expected);
    }

    #[test]
    fn field_whose_value_is_missing_is_left_out() {
        assert_eq!(filled(&json!({"a": "${spec.none}", "b": "x${spec.none}y"})), json!({"b": "xy"}));
    }

    #[test]
    fn text_that_is_no_path_stays() {
        for text in ["${", "${spec", "$spec", "}"] {
            assert_eq!(filled(&json!({"a": text})), json!({"a": text}));
        }
        assert_eq!(filled(&json!({"a": "${}", "b": "${..}", "c": "${[x}"})), json!({}));
    }
}
