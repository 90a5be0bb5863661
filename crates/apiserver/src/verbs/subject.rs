//! Which object something was done to.

use serde_json::{Map, Value};

use super::write::metadata_text;

/// What identifies an object, and one state of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Zero for objects that have none.
    pub(crate) generation: i64,
}

impl Subject {
    pub(crate) fn of(object: &Map<String, Value>) -> Self {
        let generation = object.get("metadata").and_then(|metadata| metadata.get("generation"));
        Self {
            name: metadata_text(object, "name").to_owned(),
            uid: metadata_text(object, "uid").to_owned(),
            generation: generation.and_then(Value::as_i64).unwrap_or_default(),
        }
    }
}
