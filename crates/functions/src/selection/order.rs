//! Puts objects in the order of one of their fields.

use std::cmp::Ordering;

use serde_json::Value;

use super::JsonObject;
use crate::fieldpath::Path;

/// How a message names what cannot be sorted by. The originals do not agree.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Naming {
    /// As in `slice`.
    Kind,
    /// As in `[]interface {}`.
    Type,
}

/// Put the objects in the order of the field at this path. One without the field goes where zero or the empty
/// text would. Those that are equal keep their order.
pub(super) fn sort(objects: &mut Vec<&JsonObject>, path: &str, naming: Naming) -> Result<(), String> {
    if objects.is_empty() {
        return Ok(());
    }
    let path = Path::parse(path).map_err(|error| error.to_string())?;
    let mut keyed = Vec::with_capacity(objects.len());
    let mut kind = None;
    for object in &*objects {
        let key = key(object, &path)?;
        if let Some(key) = key {
            expect_same(kind.get_or_insert(name_of_type(key)), name_of_type(key))?;
        }
        keyed.push((key, *object));
    }
    // A single object is never compared, so that even a field that cannot be sorted by is no mistake:
    // `sort.Slice` behaves like that.
    if let Some(key) = keyed.iter().find_map(|(key, _)| *key).filter(|_| keyed.len() > 1) {
        expect_sortable(key, naming)?;
        keyed.sort_by(|(one, _), (other, _)| compare(*one, *other));
        *objects = keyed.into_iter().map(|(_, object)| object).collect();
    }
    Ok(())
}

/// What to sort the object by. Nothing if the field is not there, or null.
fn key<'a>(object: &'a JsonObject, path: &Path) -> Result<Option<&'a Value>, String> {
    match path.get(object) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_null())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn expect_same(one: &str, other: &str) -> Result<(), String> {
    if one == other {
        return Ok(());
    }
    Err(format!("cannot sort values of different types {one:?} and {other:?}"))
}

/// The types as the messages of the original name them, which users may look for.
fn name_of_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn expect_sortable(value: &Value, naming: Naming) -> Result<(), String> {
    let name = match (value, naming) {
        (Value::Number(_) | Value::String(_), _) => return Ok(()),
        (Value::Array(_), Naming::Kind) => "slice",
        (Value::Object(_), Naming::Kind) => "map",
        _ => name_of_type(value),
    };
    Err(format!("unsupported type {name:?} for sorting"))
}

fn compare(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    if [one, other].into_iter().flatten().any(Value::is_string) {
        return text(one).cmp(text(other));
    }
    number(one).total_cmp(&number(other))
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn number(value: Option<&Value>) -> f64 {
    // Adding zero makes zero of minus zero, which would otherwise come before it.
    value.and_then(Value::as_f64).unwrap_or_default() + 0.0
}
