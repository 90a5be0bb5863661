//! Lists that are sets hold nothing twice, lists that are maps have no key twice.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/listtype/validation.go`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;

use serde_json::{Map, Value};

use super::compile::{ListType, Schema, SchemaNode};
use crate::field::{Error, Path};

impl Schema {
    /// Duplicates.
    pub fn validate_lists(&self, object: &Map<String, Value>, path: &Path<'_>) -> Vec<Error> {
        let mut errors = Vec::new();
        fields(object, &self.root, path, &mut errors);
        errors
    }
}

fn check(value: &Value, node: &SchemaNode, path: &Path<'_>, errors: &mut Vec<Error>) {
    if !node.has_unique_lists {
        return;
    }
    match value {
        Value::Object(object) => fields(object, node, path, errors),
        Value::Array(items) => list(items, node, path, errors),
        _ => {}
    }
}

fn fields(object: &Map<String, Value>, node: &SchemaNode, path: &Path<'_>, errors: &mut Vec<Error>) {
    if !node.has_unique_lists {
        return;
    }
    // Kubernetes visits every field with this schema, named ones too: both may not be declared together, so
    // that it does not matter.
    if let Some(other) = node.additional.schema() {
        for (name, value) in object {
            check(value, other, &path.key(name), errors);
        }
    }
    for (name, value) in object {
        if let Some(property) = node.property(name) {
            check(value, property, &path.child(name), errors);
        }
    }
}

fn list(items: &[Value], node: &SchemaNode, path: &Path<'_>, errors: &mut Vec<Error>) {
    match &node.list {
        ListType::Atomic => {}
        ListType::Set => {
            errors.extend(repeated(items).map(|index| Error::duplicate(&path.index(index), &items[index])));
        }
        ListType::Map(keys) => map(items, keys, path, errors),
    }
    if let Some(node) = node.items.as_deref() {
        for (index, item) in items.iter().enumerate() {
            check(item, node, &path.index(index), errors);
        }
    }
}

fn map(items: &[Value], keys: &[Box<str>], path: &Path<'_>, errors: &mut Vec<Error>) {
    let is_item = |item: &Value| matches!(item, Value::Null | Value::Object(_));
    if let Some(index) = items.iter().position(|item| !is_item(item)) {
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&path.index(index), &items[index], detail));
        return;
    }
    if items.len() < 2 {
        return;
    }
    let duplicate = |index: usize| Error::duplicate(&path.index(index), identity(&items[index], keys));
    if let [key] = keys {
        let values: Vec<_> = items.iter().map(|item| item.get(&**key)).collect();
        errors.extend(repeated(&values).map(duplicate));
    } else {
        // Several keys are compared as they are written, and a whole number is written without a fraction.
        let value = |item, key: &str| Value::get(item, key).map(without_fraction);
        let values: Vec<Vec<_>> =
            items.iter().map(|item| keys.iter().map(|key| value(item, key)).collect()).collect();
        errors.extend(repeated(&values).map(duplicate));
    }
}

/// The value, or the integer that a whole number is written as.
fn without_fraction(value: &Value) -> Cow<'_, Value> {
    /// Beyond, not every integer is a number.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() <= LIMIT) {
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        Some(number) => Cow::Owned(Value::from(number as i64)),
        None => Cow::Borrowed(value),
    }
}

/// Those of the keys that the item has.
fn identity(item: &Value, keys: &[Box<str>]) -> Value {
    let fields = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(fields.collect())
}

/// Where a value stands for the second time.
fn repeated<T: Hash + Eq>(values: &[T]) -> impl Iterator<Item = usize> {
    let mut seen: HashMap<&T, usize> = HashMap::with_capacity(values.len());
    values.iter().enumerate().filter_map(move |(index, value)| {
        let times = seen.entry(value).or_default();
        *times += 1;
        // Told once, at its second place, however often it is there.
        (*times == 2).then_some(index)
    })
}
