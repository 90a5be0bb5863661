//! Finds changes of a definition that affect existing objects.

use ferroplane_api::Object;
use serde_json::{Map, Value};

/// Fields of a definition that do not affect existing objects through its schema: defaults of compositions, and descriptions.
const HARMLESS: [&str; 6] = [
    "defaultCompositionRef",
    "enforcedCompositionRef",
    "defaultCompositionUpdatePolicy",
    "defaultCompositionRevisionSelector",
    "metadata",
    "connectionSecretKeys",
];

/// The effect of a change of a definition on existing objects, if it may have any: a new field without a default has none.
pub fn harmful_schema_change(before: &Object, after: &Object) -> Option<String> {
    let spec = |definition: &Object| {
        let mut spec = definition.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        spec.retain(|field, _| !HARMLESS.contains(&field.as_str()));
        spec
    };
    harm(&Value::Object(spec(before)), &Value::Object(spec(after)), &mut Vec::new())
}

fn harm(before: &Value, after: &Value, path: &mut Vec<String>) -> Option<String> {
    if before == after {
        return None;
    }
    let here = |path: &[String]| format!("spec.{}", path.join("."));
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let is_schema = path.last().is_some_and(|field| field == "properties");
            harm_of_fields(before, after, is_schema, path)
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let items = before.iter().zip(after).enumerate();
            items.into_iter().find_map(|(index, (before, after))| {
                path.push(index.to_string());
                let harm = harm(before, after, path);
                path.pop();
                harm
            })
        }
        _ => Some(here(path)),
    }
}

fn harm_of_fields(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    are_properties: bool,
    path: &mut Vec<String>,
) -> Option<String> {
    let added = after.keys().filter(|field| !before.contains_key(*field));
    before.keys().chain(added).find_map(|field| {
        path.push(field.clone());
        let harm = match (before.get(field), after.get(field)) {
            // No object has the field yet.
            (None, Some(added)) if are_properties && !has_default(added) => None,
            _ if !are_properties && field == "description" => None,
            (Some(before), Some(after)) => harm(before, after, path),
            _ => Some(format!("spec.{}", path.join("."))),
        };
        path.pop();
        harm
    })
}

fn has_default(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("default") || fields.values().any(has_default),
        Value::Array(items) => items.iter().any(has_default),
        _ => false,
    }
}
