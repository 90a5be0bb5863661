//! The metadata of an object: read as Kubernetes reads it into its own type, and written as it writes that.
//!
//! Unknown fields fall away, nulls become absent, times become UTC. What does not fit is an error, or dropped.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/objectmeta/coerce.go`.

mod read;
pub(crate) mod time;

use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::meta::{self, NameCheck};
use read::FieldSets;
pub(crate) use read::go_type;

/// `ObjectMeta`, with only fields that it has and without empty ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectMeta {
    pub fields: Map<String, Value>,
}

/// What to do about fields that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    Refuse,
    Drop,
}

/// What is wrong with the metadata of a new object.
pub(crate) fn check(
    metadata: &ObjectMeta,
    is_namespaced: bool,
    name_check: NameCheck<'_>,
    path: &Path<'_>,
) -> Vec<Error> {
    meta::validate_with(&metadata.fields, is_namespaced, name_check, path)
}

/// What is wrong with the metadata of an object that replaces an old one.
pub(crate) fn check_update(metadata: &ObjectMeta, old: &ObjectMeta, path: &Path<'_>) -> Vec<Error> {
    meta::validate_update(&metadata.fields, &old.fields, path)
}

impl ObjectMeta {
    /// Reads metadata. Unknown fields are reported as paths within it.
    pub(crate) fn read(
        json: &Value,
        malformed: Malformed,
        unknown: &mut Vec<String>,
    ) -> Result<Self, String> {
        Self::read_with(json, FieldSets::Copied, malformed, unknown)
    }

    /// Reads metadata to check it: what does not fit is left out, and sets of managed fields are empty.
    pub(crate) fn read_for_checks(json: &Value) -> Self {
        let read = Self::read_with(json, FieldSets::Left, Malformed::Drop, &mut Vec::new());
        read.unwrap_or_default()
    }

    fn read_with(
        json: &Value,
        sets: FieldSets,
        malformed: Malformed,
        unknown: &mut Vec<String>,
    ) -> Result<Self, String> {
        let before = unknown.len();
        match read::read(json, sets, unknown) {
            Ok(fields) => Ok(Self { fields }),
            Err(error) if malformed == Malformed::Refuse => Err(error),
            Err(_) => {
                unknown.truncate(before);
                Self::salvage(json, sets, unknown)
            }
        }
    }

    /// Reads field by field, leaving out those that cannot be read.
    fn salvage(json: &Value, sets: FieldSets, unknown: &mut Vec<String>) -> Result<Self, String> {
        let Value::Object(fields) = json else {
            return Err(format!("invalid metadata: expected object, got {}", read::go_type(json)));
        };
        let mut salvaged = Map::new();
        for (name, value) in fields {
            // One object per field, so that the reader decides about each alone: so does
            // `GetObjectMetaWithOptions`.
            let single = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
            let before = unknown.len();
            match read::read(&single, sets, unknown) {
                Ok(read) => salvaged.extend(read),
                Err(_) => unknown.truncate(before),
            }
        }
        Ok(Self { fields: salvaged })
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Entries of a map of texts.
    pub(crate) fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &str)> {
        let map = self.fields.get(name).and_then(Value::as_object);
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }
}
