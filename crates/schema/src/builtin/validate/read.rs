//! Parts of objects that were read by their tables, so that only absence has to be thought of; and checks that many need.
//!
//! Our own design: reads parts of values that Kubernetes has as typed fields.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use crate::field::{Error, Path};
use crate::names;

pub(super) fn text<'f>(fields: &'f JsonObject, name: &str) -> &'f str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn integer(fields: &JsonObject, name: &str) -> Option<i64> {
    fields.get(name).and_then(Value::as_i64)
}

pub(super) fn object<'f>(fields: &'f JsonObject, name: &str) -> Option<&'f JsonObject> {
    fields.get(name).and_then(Value::as_object)
}

pub(super) fn has(fields: &JsonObject, name: &str) -> bool {
    fields.get(name).is_some_and(|value| !value.is_null())
}

pub(super) fn list<'f>(fields: &'f JsonObject, name: &str) -> &'f [Value] {
    fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The objects of a list, with their places.
pub(super) fn objects<'f>(
    fields: &'f JsonObject,
    name: &str,
) -> impl Iterator<Item = (usize, &'f JsonObject)> {
    list(fields, name).iter().enumerate().filter_map(|(index, item)| Some((index, item.as_object()?)))
}

/// The texts of a map.
pub(super) fn pairs<'f>(fields: &'f JsonObject, name: &str) -> impl Iterator<Item = (&'f str, &'f str)> {
    let pairs = object(fields, name).into_iter().flatten();
    pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

pub(super) fn non_negative(fields: &JsonObject, name: &str, path: &Path<'_>) -> Option<Error> {
    let number = integer(fields, name).filter(|number| *number < 0)?;
    Some(Error::invalid(&path.child(name), number, "must be greater than or equal to 0"))
}

/// What is wrong with a text, by a rule that says what is wrong with it.
pub(super) fn by_rule(
    text: &str,
    rule: fn(&str) -> Vec<String>,
    path: &Path<'_>,
) -> impl Iterator<Item = Error> {
    rule(text).into_iter().map(move |problem| Error::invalid(path, text, problem))
}

/// A name that is there, and a label of DNS.
pub(super) fn required_label(fields: &JsonObject, name: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    let value = text(fields, name);
    let path = path.child(name);
    if value.is_empty() {
        errors.push(Error::required(&path, ""));
    } else {
        errors.extend(by_rule(value, names::label, &path));
    }
}

/// One of a list of texts.
pub(super) fn one_of(fields: &JsonObject, name: &str, allowed: &[&str], path: &Path<'_>) -> Option<Error> {
    let value = text(fields, name);
    (!allowed.contains(&value)).then(|| Error::not_supported(&path.child(name), value, allowed))
}

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

pub(super) fn port_number(number: i64, path: &Path<'_>) -> Option<Error> {
    (!(1..=65535).contains(&number)).then(|| Error::invalid(path, number, PORT_RANGE))
}

/// A port by number or by name.
pub(super) fn port(port: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    match port {
        Value::String(name) => errors.extend(by_rule(name, port_name, path)),
        other => errors.extend(port_number(other.as_i64().unwrap_or_default(), path)),
    }
}

/// What keeps a text from being the name of a port.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        || name.is_empty()
    {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}
