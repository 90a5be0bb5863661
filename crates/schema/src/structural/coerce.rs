//! Makes the metadata of embedded resources what Kubernetes would make of it, and checks it.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/objectmeta/algorithm.go`,
//! `pkg/apiserver/schema/objectmeta/coerce.go`.

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Value};

use super::compile::{Schema, SchemaNode};
use super::object_meta::{self, Malformed, ObjectMeta};
use crate::field::{Error, Path};
use crate::names;

/// What to do about metadata of embedded resources that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coercion {
    /// Refuse the object: for what a user sends.
    Strict,
    /// Drop the field: for what has been stored.
    Dropping,
}

impl Coercion {
    pub(crate) fn malformed(self) -> Malformed {
        match self {
            Self::Strict => Malformed::Refuse,
            Self::Dropping => Malformed::Drop,
        }
    }
}

impl Schema {
    /// Coerces embedded resources, not the object itself. Says which fields of their metadata were unknown.
    pub fn coerce(&self, object: &mut Map<String, Value>, coercion: Coercion) -> Result<Vec<String>, Error> {
        if !self.root.has_embedded {
            return Ok(Vec::new());
        }
        let mut coercer = Coercer { coercion, unknown: Vec::new() };
        coercer.object(object, &self.root, self.root.is_embedded, &Path::NIL)?;
        // Kubernetes goes through maps in any order and sorts in the end, too.
        coercer.unknown.sort_unstable();
        Ok(coercer.unknown)
    }

    /// What is wrong with the metadata of embedded resources.
    pub fn validate_embedded(&self, object: &Map<String, Value>, path: &Path<'_>) -> Vec<Error> {
        let mut errors = Vec::new();
        if self.root.has_embedded {
            check_fields(object, &self.root, path, &mut errors);
        }
        errors
    }
}

/// Coerces a value, and the metadata of itself if it is a resource.
pub(super) fn coerce_value(
    value: &mut Value,
    node: &SchemaNode,
    is_resource: bool,
    coercion: Coercion,
    path: &Path<'_>,
) -> Result<(), Error> {
    let mut coercer = Coercer { coercion, unknown: Vec::new() };
    match value {
        Value::Object(fields) => coercer.object(fields, node, is_resource, path),
        other => coercer.value(other, Some(node), path),
    }
}

/// Checks the metadata of a value and of what is embedded in it.
pub(super) fn check_value(
    value: &Value,
    node: &SchemaNode,
    is_resource: bool,
    path: &Path<'_>,
) -> Vec<Error> {
    let mut errors = Vec::new();
    match value {
        Value::Object(fields) => {
            if is_resource {
                check_resource(fields, path, &mut errors);
            }
            check_below(fields, node, path, &mut errors);
        }
        other => check(other, Some(node), path, &mut errors),
    }
    errors
}

struct Coercer {
    coercion: Coercion,
    unknown: Vec<String>,
}

impl Coercer {
    fn value(&mut self, value: &mut Value, node: Option<&SchemaNode>, path: &Path<'_>) -> Result<(), Error> {
        checkpoint();
        let Some(node) = node else { return Ok(()) };
        match value {
            Value::Object(fields) => self.object(fields, node, node.is_embedded, path),
            Value::Array(items) => {
                let Some(node) = node.items.as_deref() else { return Ok(()) };
                items
                    .iter_mut()
                    .enumerate()
                    .try_for_each(|(i, item)| self.value(item, Some(node), &path.index(i)))
            }
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        fields: &mut Map<String, Value>,
        node: &SchemaNode,
        is_resource: bool,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        // Most schemas embed nothing, and nothing below has to be visited.
        if !is_resource && !node.has_embedded {
            return Ok(());
        }
        if is_resource {
            self.resource(fields, path)?;
        }
        for (name, value) in fields.iter_mut() {
            if let Some(property) = node.property(name) {
                self.value(value, Some(property), &path.child(name))?;
            } else {
                self.value(value, node.additional.schema(), &path.key(name))?;
            }
        }
        Ok(())
    }

    fn resource(&mut self, fields: &mut Map<String, Value>, path: &Path<'_>) -> Result<(), Error> {
        for name in ["apiVersion", "kind"] {
            match fields.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.coercion == Coercion::Dropping => {
                    fields.remove(name);
                }
                Some(other) => return Err(Error::invalid(&path.child(name), other, "must be a string")),
            }
        }
        let Some(metadata) = fields.get("metadata") else { return Ok(()) };
        let mut unknown = Vec::new();
        let read = ObjectMeta::read(metadata, self.coercion.malformed(), &mut unknown);
        let at = path.child("metadata");
        match read {
            Ok(read) => {
                self.unknown.extend(unknown.iter().map(|name| format!("{at}.{name}")));
                fields.insert("metadata".to_owned(), Value::Object(read.fields));
            }
            Err(error) if self.coercion == Coercion::Strict => {
                return Err(Error::invalid(&at, metadata, error));
            }
            // What is stored stays as it is: dropping all metadata would lose more than leaving it.
            Err(_) => {}
        }
        Ok(())
    }
}

fn check(value: &Value, node: Option<&SchemaNode>, path: &Path<'_>, errors: &mut Vec<Error>) {
    checkpoint();
    let Some(node) = node.filter(|node| node.has_embedded) else { return };
    match value {
        Value::Object(fields) => check_fields(fields, node, path, errors),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(item, node.items.as_deref(), &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn check_fields(fields: &Map<String, Value>, node: &SchemaNode, path: &Path<'_>, errors: &mut Vec<Error>) {
    if node.is_embedded {
        check_resource(fields, path, errors);
    }
    check_below(fields, node, path, errors);
}

fn check_below(fields: &Map<String, Value>, node: &SchemaNode, path: &Path<'_>, errors: &mut Vec<Error>) {
    for (name, value) in fields {
        if let Some(property) = node.property(name) {
            check(value, Some(property), &path.child(name), errors);
        } else {
            check(value, node.additional.schema(), &path.key(name), errors);
        }
    }
}

fn check_resource(fields: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<Error>) {
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            errors.push(Error::required(&path.child(name), ""));
        }
    }
    if let Some(version) = fields.get("apiVersion") {
        let problem = match version.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) if text.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {text}"))
            }
            Some(_) => None,
        };
        errors.extend(problem.map(|problem| Error::invalid(&path.child("apiVersion"), version, problem)));
    }
    if let Some(kind) = fields.get("kind") {
        let problem = match kind.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) => {
                // Kinds are capitalized; otherwise they are labels of DNS.
                let problems = names::old_label(&text.to_lowercase());
                (!problems.is_empty()).then(|| {
                    format!("may have mixed case, but should otherwise match: {}", problems.join(","))
                })
            }
        };
        errors.extend(problem.map(|problem| Error::invalid(&path.child("kind"), kind, problem)));
    }
    let Some(metadata) = fields.get("metadata") else { return };
    let at = path.child("metadata");
    match ObjectMeta::read(metadata, Malformed::Refuse, &mut Vec::new()) {
        Err(error) => errors.push(Error::invalid(&at, metadata, error)),
        Ok(mut meta) => {
            if meta.text("name").is_empty() {
                // An embedded resource need not be named.
                meta.fields.insert("name".to_owned(), Value::from("fakename"));
            }
            let is_namespaced = !meta.text("namespace").is_empty();
            errors.extend(object_meta::check(&meta, is_namespaced, &names::path_segment, &at));
        }
    }
}
