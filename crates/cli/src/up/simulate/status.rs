//! The parts that statuses are made of. Performs no I/O.

use ferroplane_api::Object;
use serde_json::{Value, json};

/// How an object is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase<'a> {
    /// It is being made.
    Creating,
    Ready,
    /// It cannot be made, for this reason.
    Failed(&'a str),
}

/// The status of an object, to be changed.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) fields: Object,
    /// In RFC 3339.
    now: &'a str,
}

/// What a condition says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Says<'a> {
    pub(super) kind: &'a str,
    pub(super) is_true: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Says<'a> {
    pub(super) const fn new(kind: &'a str, is_true: bool, reason: &'a str, message: &'a str) -> Self {
        Self { kind, is_true, reason, message }
    }
}

impl<'a> Draft<'a> {
    /// Begins with what is there: fields that are not simulated stay.
    pub(super) fn of(object: &Object, now: &'a str) -> Self {
        let fields = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        Self { fields, now }
    }

    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.fields.insert(field.to_owned(), value.into());
    }

    /// A count. Kubernetes leaves most of those out that are zero.
    pub(super) fn count(&mut self, field: &str, count: i64) {
        if count == 0 {
            self.fields.remove(field);
        } else {
            self.set(field, count);
        }
    }

    /// The time at which something happened for the first time.
    pub(super) fn set_time(&mut self, field: &str) {
        let now = self.now;
        self.fields.entry(field).or_insert_with(|| now.into());
    }

    /// A field that is written once, and then left as it is.
    pub(super) fn set_once(&mut self, field: &str, value: impl FnOnce() -> Value) {
        self.fields.entry(field).or_insert_with(value);
    }

    /// Whether there is a condition of this type.
    pub(super) fn has_condition(&self, kind: &str) -> bool {
        self.conditions().any(|condition| condition["type"] == kind)
    }

    /// Whether there is one, and it is true.
    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.conditions().any(|condition| condition["type"] == kind && condition["status"] == "True")
    }

    /// Whether there is one, with this reason.
    pub(super) fn has_reason(&self, kind: &str, reason: &str) -> bool {
        self.conditions().any(|condition| condition["type"] == kind && condition["reason"] == reason)
    }

    /// When a condition last said something new: now, if this is new.
    pub(super) fn updated(&self, says: Says<'_>, now: &str) -> Value {
        let status = if says.is_true { "True" } else { "False" };
        let is_same = |it: &&Value| {
            it["type"] == says.kind
                && it["status"] == status
                && it["reason"] == says.reason
                && it["message"].as_str().unwrap_or_default() == says.message
        };
        let since = self.conditions().find(is_same).and_then(|same| same.get("lastUpdateTime").cloned());
        since.unwrap_or_else(|| now.into())
    }

    pub(super) fn remove_condition(&mut self, kind: &str) {
        if let Some(Value::Array(conditions)) = self.fields.get_mut("conditions") {
            conditions.retain(|condition| condition["type"] != kind);
            // Kubernetes leaves an empty list out.
            if conditions.is_empty() {
                self.fields.remove("conditions");
            }
        }
    }

    fn conditions(&self) -> impl Iterator<Item = &Value> {
        self.fields.get("conditions").and_then(Value::as_array).into_iter().flatten()
    }

    /// Put a condition among the others, with more fields if its kind has more. One that says nothing new changes nothing.
    pub(super) fn condition(&mut self, says: Says<'_>, more: &[(&str, Value)]) {
        let Says { kind, is_true, reason, message } = says;
        let status = if is_true { "True" } else { "False" };
        let mut condition = json!({"type": kind, "status": status});
        if !reason.is_empty() {
            condition["reason"] = reason.into();
        }
        if !message.is_empty() {
            condition["message"] = message.into();
        }
        for (field, value) in more {
            condition[*field] = value.clone();
        }
        let conditions = self.fields.entry("conditions").or_insert_with(|| json!([]));
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let conditions = conditions.as_array_mut().expect("it was just made one");
        let present = conditions.iter().position(|present| present["type"] == kind);
        // As Kubernetes has it: the time is that of the last change of True and False, not of the words.
        let since = present.map(|position| &conditions[position]).filter(|it| it["status"] == status);
        condition["lastTransitionTime"] = since
            .and_then(|since| since.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| self.now.into());
        match present {
            Some(position) => conditions[position] = condition,
            None => conditions.push(condition),
        }
    }
}

/// Put the fields of one object over those of another, at any depth. Lists are replaced.
pub(super) fn merge(into: &mut Object, fields: Object) {
    for (key, value) in fields {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(present)), Value::Object(value)) => merge(present, value),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}
