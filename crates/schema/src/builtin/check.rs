//! What is wrong with an object as far as its fields and their types tell.
//!
//! Our own design: Kubernetes finds these mistakes while it decodes into its types, which here are tables.

use std::fmt;

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Value};

use super::location::FieldLocation;
use super::read::Reader;
use super::table::{FieldType, Form, Type, TypeField};
use crate::field::{Error, ErrorKind, Path};
use crate::structural::strict_json;

/// More than these are not told.
const MAX_FINDINGS: usize = 1000;

/// Something wrong with a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Where: a path with indices, like `spec.containers[0].name`.
    pub field: String,
    pub cause: Cause,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The kind has no such field.
    Unknown,
    /// The value is not of the type of the field.
    Type {
        /// The actual type, in the words of JSON.
        found: &'static str,
        /// The type as Kubernetes calls it.
        wanted: String,
        /// What a server says.
        words: String,
    },
    /// The value is missing, or not allowed.
    Value(Error),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Unknown => f.write_str(&strict_json::unknown_field(&self.field)),
            Cause::Type { words, .. } => f.write_str(words),
            Cause::Value(error) => error.fmt(f),
        }
    }
}

pub(super) fn check(of: &'static Type, object: &Value) -> Vec<Finding> {
    let mut reader = Reader::thorough();
    let whole = |words: String| {
        let cause = Cause::Type { found: "object", wanted: of.go_name(), words };
        vec![Finding { field: String::new(), cause }]
    };
    if let Err(words) = reader.structure(of, object, &FieldLocation::ROOT) {
        return whole(words);
    }
    // A thorough reader continues after errors, so that the limit shows only here.
    if reader.is_exhausted() {
        return whole("object has too many parts".to_owned());
    }
    let unknown = reader.unknown.into_iter().map(|field| Finding { field, cause: Cause::Unknown });
    let mismatches = reader.mismatches.into_iter().map(|mismatch| {
        let cause = Cause::Type { found: mismatch.found, wanted: mismatch.wanted, words: mismatch.words };
        Finding { field: mismatch.path, cause }
    });
    let mut findings: Vec<_> = unknown.chain(mismatches).collect();
    let mut walk = FieldChecker { findings: &mut findings };
    if let Value::Object(fields) = object {
        walk.structure(of, fields, &Path::NIL);
    }
    findings
}

/// Looks for what is required or listed. Nothing is said here about values of other types.
struct FieldChecker<'w> {
    findings: &'w mut Vec<Finding>,
}

impl FieldChecker<'_> {
    fn structure(&mut self, of: &'static Type, given: &Map<String, Value>, path: &Path<'_>) {
        for field in of.fields() {
            let here = path.child(field.name);
            match given.get(field.name) {
                None | Some(Value::Null) if field.is_required => self.add(Error::required(&here, "")),
                None | Some(Value::Null) => {}
                Some(value) => self.field(field, value, &here),
            }
        }
    }

    fn field(&mut self, field: &'static TypeField, value: &Value, path: &Path<'_>) {
        match (field.allowed(), value) {
            (Some(allowed), Value::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    self.listed(allowed, item, &path.index(index));
                }
            }
            (Some(allowed), Value::Object(map)) => {
                for (key, item) in map {
                    self.listed(allowed, item, &path.key(key));
                }
            }
            // What is empty is not said, unless the field can tell the difference.
            (Some(_), Value::String(text)) if text.is_empty() && !field.is_pointer => {}
            (Some(allowed), item) => self.listed(allowed, item, path),
            (None, value) => self.value(&field.shape, value, path),
        }
    }

    fn listed(&mut self, allowed: &[&str], value: &Value, path: &Path<'_>) {
        if let Value::String(text) = value
            && !allowed.contains(&text.as_str())
        {
            self.add(Error::not_supported(path, text, allowed.iter().filter(|value| !value.is_empty())));
        }
    }

    /// The types decide how deep this goes; the one that contains itself was read before, to its limit.
    fn value(&mut self, shape: &'static FieldType, value: &Value, path: &Path<'_>) {
        checkpoint();
        match (&shape.form, value) {
            (Form::Struct(reference), Value::Object(given)) => {
                self.structure(reference.get(), given, path);
            }
            (Form::List { item, .. }, Value::Array(list)) => {
                for (index, value) in list.iter().enumerate() {
                    self.value(item, value, &path.index(index));
                }
            }
            (Form::Map(item), Value::Object(map)) => {
                for (key, value) in map {
                    self.value(item, value, &path.key(key));
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, error: Error) {
        debug_assert!(matches!(error.kind, ErrorKind::Required | ErrorKind::NotSupported));
        if self.findings.len() >= MAX_FINDINGS {
            return;
        }
        self.findings.push(Finding { field: error.field.clone(), cause: Cause::Value(error) });
    }
}
