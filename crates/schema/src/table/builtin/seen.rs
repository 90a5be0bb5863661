//! An object as cells read it: missing fields are empty.
//!
//! Our own design: reads JSON where Kubernetes has typed objects.

use serde_json::{Map, Value};

use crate::table::age::{self, Instant};

/// An object, and when it is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'o> {
    pub(super) object: &'o Value,
    pub(super) now: Instant,
}

impl<'o> Seen<'o> {
    /// A part of the object as if it were one of its own.
    pub(super) fn part(&self, object: &'o Value) -> Self {
        Self { object, ..*self }
    }

    pub(super) fn value(&self, pointer: &str) -> Option<&'o Value> {
        self.object.pointer(pointer).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, pointer: &str) -> bool {
        self.value(pointer).is_some()
    }

    pub(super) fn text(&self, pointer: &str) -> &'o str {
        self.value(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// A text that is there, or something else in its place.
    pub(super) fn text_or(&self, pointer: &str, otherwise: &'static str) -> &'o str {
        self.value(pointer).and_then(Value::as_str).unwrap_or(otherwise)
    }

    /// A text that is not empty, or something else in its place.
    pub(super) fn filled_or(&self, pointer: &str, otherwise: &'static str) -> &'o str {
        match self.text(pointer) {
            "" => otherwise,
            text => text,
        }
    }

    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.value(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(super) fn is(&self, pointer: &str) -> bool {
        self.value(pointer).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A text or a number, as it is written.
    pub(super) fn either_or(&self, pointer: &str, otherwise: &str) -> String {
        match self.value(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => otherwise.to_owned(),
        }
    }

    pub(super) fn list(&self, pointer: &str) -> &'o [Value] {
        self.value(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn items(&self, pointer: &str) -> impl DoubleEndedIterator<Item = Self> {
        let seen = *self;
        self.list(pointer).iter().map(move |item| seen.part(item))
    }

    pub(super) fn count(&self, pointer: &str) -> i64 {
        let length = match self.value(pointer) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(entries)) => entries.len(),
            _ => 0,
        };
        i64::try_from(length).unwrap_or(i64::MAX)
    }

    pub(super) fn map(&self, pointer: &str) -> Option<&'o Map<String, Value>> {
        self.value(pointer).and_then(Value::as_object)
    }

    /// The texts of a list, with something between them.
    pub(super) fn joined(&self, pointer: &str, between: &str) -> String {
        let texts: Vec<_> = self.list(pointer).iter().filter_map(Value::as_str).collect();
        texts.join(between)
    }

    /// A text of each item of a list, with commas between them.
    pub(super) fn each(&self, pointer: &str, field: &str) -> String {
        let texts: Vec<_> = self.items(pointer).map(|item| item.text(field)).collect();
        texts.join(",")
    }

    pub(super) fn age(&self, pointer: &str) -> String {
        age::age(self.text(pointer), self.now)
    }

    /// The status of the condition of a type; empty if there is none.
    pub(super) fn condition(&self, kind: &str) -> &'o str {
        let mut conditions = self.items("/status/conditions");
        conditions.find(|it| it.text("/type") == kind).map(|it| it.text("/status")).unwrap_or_default()
    }

    pub(super) fn is_going(&self) -> bool {
        self.has("/metadata/deletionTimestamp")
    }

    pub(super) fn annotation(&self, name: &str) -> &'o str {
        self.map("/metadata/annotations")
            .and_then(|annotations| annotations.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Labels as `key=value`, or `<none>`.
    pub(super) fn labels(&self, pointer: &str) -> String {
        let pairs = self.map(pointer).into_iter().flatten();
        let pairs: Vec<_> =
            pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        or_none(pairs.join(","))
    }

    /// A label selector as one would write it on a command line; empty if it selects nothing or everything.
    pub(super) fn selector(&self, pointer: &str) -> String {
        let Some(selector) = self.value(pointer) else { return String::new() };
        let selector = self.part(selector);
        let labels = selector.map("/matchLabels").into_iter().flatten();
        let labels = labels
            .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())));
        let expressions = selector.items("/matchExpressions").map(|it| (it.text("/key"), it.expression()));
        let mut requirements: Vec<_> = labels.chain(expressions).collect();
        // Labels and expressions together, as Go's selector sorts them when it is built.
        requirements.sort_by_key(|(key, _)| *key);
        let texts: Vec<_> = requirements.into_iter().map(|(_, text)| text).collect();
        texts.join(",")
    }

    fn expression(&self) -> String {
        let key = self.text("/key");
        let mut values: Vec<_> = self.list("/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.text("/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    }
}

pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// The first three of some texts, and how many more there are.
pub(super) fn first_three(texts: &[String]) -> String {
    let shown = texts[..texts.len().min(3)].join(",");
    match texts.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}
