//! Prepares and validates a custom resource: everything of its schema in the order of Kubernetes.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/strategy.go`,
//! `pkg/registry/customresource/validator.go`.

use ferroplane_golang::fmt;
use serde_json::{Map, Value};

use super::coerce::Coercion;
use super::compile::Schema;
use super::object_meta::{self, ObjectMeta};
use crate::field::{Error, ErrorKind, Path};
use crate::names;

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub struct CustomResource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub is_namespaced: bool,
    /// Nothing is pruned: only old definitions say so.
    pub preserves_unknown_fields: bool,
    pub scale: Option<Scale>,
    pub schema: Schema,
}

/// Where the numbers of replicas are, as simple JSON paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// Why an object cannot be taken at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Unacceptable(pub String);

impl CustomResource {
    /// Prunes, coerces and defaults an object. Says which fields were unknown.
    pub fn admit(
        &self,
        object: &mut Map<String, Value>,
        coercion: Coercion,
    ) -> Result<Vec<String>, Unacceptable> {
        let unknown = self.fit(object, coercion)?;
        self.schema.default(object);
        Ok(unknown)
    }

    /// Prunes and coerces an object. Says which fields were unknown.
    pub fn fit(
        &self,
        object: &mut Map<String, Value>,
        coercion: Coercion,
    ) -> Result<Vec<String>, Unacceptable> {
        for name in ["kind", "apiVersion"] {
            nested_text(object, &[name]).map_err(Unacceptable)?;
        }
        let mut unknown = Vec::new();
        let metadata = match object.get("metadata") {
            None => None,
            // Read before pruning, which leaves metadata alone, and put back afterwards in the form of Go's
            // type: unknown fields gone, times normalised.
            Some(metadata) => {
                let mut paths = Vec::new();
                let read =
                    ObjectMeta::read(metadata, coercion.malformed(), &mut paths).map_err(Unacceptable)?;
                unknown.extend(paths.into_iter().map(|path| format!("metadata.{path}")));
                Some(read)
            }
        };
        if !self.preserves_unknown_fields {
            // Pruned before nulls are dropped, and both before defaults: a null that is pruned must not
            // become a default.
            unknown.extend(self.schema.prune(object));
            self.schema.drop_nulls(object);
        }
        unknown
            .extend(self.schema.coerce(object, coercion).map_err(|error| Unacceptable(error.to_string()))?);
        if let Some(metadata) = metadata {
            object.insert("metadata".to_owned(), Value::Object(metadata.fields));
        }
        Ok(unknown)
    }

    /// What is wrong with a new object.
    pub fn validate(&self, object: &Value) -> Vec<Error> {
        let Some(fields) = object.as_object() else { return vec![not_an_object(object)] };
        let mut errors = self.check_type(fields);
        // An object that claims another type is not held against this schema; its lists and rules are still checked, as upstream does.
        if errors.is_empty() {
            self.check_new(object, fields, &mut errors);
        }
        errors.extend(self.schema.validate_embedded(fields, &Path::NIL));
        errors.extend(self.schema.validate_lists(fields, &Path::NIL));
        self.check_rules(object, None, &mut errors);
        errors
    }

    /// What is wrong with a new object, apart from the rules that it breaks.
    pub fn validate_shape(&self, object: &Value) -> Vec<Error> {
        let Some(fields) = object.as_object() else { return vec![not_an_object(object)] };
        let mut errors = self.check_type(fields);
        if errors.is_empty() {
            self.check_new(object, fields, &mut errors);
            errors.extend(self.schema.validate_embedded(fields, &Path::NIL));
            errors.extend(self.schema.validate_lists(fields, &Path::NIL));
        }
        errors
    }

    /// What is checked only in an object of this kind.
    fn check_new(&self, object: &Value, fields: &Map<String, Value>, errors: &mut Vec<Error>) {
        let name_check = |name: &str, is_prefix: bool| {
            if is_prefix {
                names::subdomain(&names::mask_trailing_dash(name))
            } else {
                names::subdomain(name)
            }
        };
        errors.extend(object_meta::check(
            &metadata(fields),
            self.is_namespaced,
            &name_check,
            &Path::new("metadata"),
        ));
        errors.extend(self.schema.validate(object, &Path::NIL));
        self.check_scale(fields, errors);
    }

    /// Rules are tried only if the object is what they take it for.
    fn check_rules(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
        if self.schema.rules.is_none() {
            return;
        }
        match blocking(errors) {
            Some(error) => errors.push(error),
            None => errors.extend(self.schema.validate_rules(object, old, &Path::NIL)),
        }
    }

    /// What is wrong with an object that replaces an old one.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<Error> {
        let (Some(fields), Some(old_fields)) = (object.as_object(), old.as_object()) else {
            return vec![not_an_object(object)];
        };
        let mut errors = self.check_type(fields);
        if errors.is_empty() {
            errors.extend(object_meta::check_update(
                &metadata(fields),
                &metadata(old_fields),
                &Path::new("metadata"),
            ));
            errors.extend(self.schema.validate_update(object, old, &Path::NIL));
            self.check_scale(fields, &mut errors);
        }
        errors.extend(self.schema.validate_embedded(fields, &Path::NIL));
        // Duplicates that were there before are tolerated, all or nothing: lists are not correlated for this.
        if self.schema.validate_lists(old_fields, &Path::NIL).is_empty() {
            errors.extend(self.schema.validate_lists(fields, &Path::NIL));
        }
        self.check_rules(object, Some(old), &mut errors);
        errors
    }

    /// What is wrong with an object of which the status replaces an old one.
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<Error> {
        let (Some(fields), Some(old_fields)) = (object.as_object(), old.as_object()) else {
            return vec![not_an_object(object)];
        };
        let mut errors = self.check_type(fields);
        if errors.is_empty() {
            self.check_new_status(fields, old_fields, &mut errors);
        }
        let lists = self.schema.validate_lists(fields, &Path::NIL);
        if !lists.is_empty() && self.schema.validate_lists(old_fields, &Path::NIL).is_empty() {
            errors.extend(lists);
        }
        self.check_rules(object, Some(old), &mut errors);
        errors
    }

    /// What is checked only in an object of this kind.
    fn check_new_status(
        &self,
        fields: &Map<String, Value>,
        old_fields: &Map<String, Value>,
        errors: &mut Vec<Error>,
    ) {
        errors.extend(object_meta::check_update(
            &metadata(fields),
            &metadata(old_fields),
            &Path::new("metadata"),
        ));
        if let (Some(status), Some(schema)) = (fields.get("status"), self.schema.property("status")) {
            let path = Path::new("status");
            errors.extend(match old_fields.get("status") {
                Some(old) => schema.validate_update(status, old, &path),
                // No status and none that is null are the same, so that nothing has changed.
                None if status.is_null() => Vec::new(),
                None => schema.validate(status, &path),
            });
        }
        self.check_scale_status(fields, errors);
    }

    fn check_type(&self, fields: &Map<String, Value>) -> Vec<Error> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let version = format!("{}/{}", self.group, self.version);
        let mut errors = Vec::new();
        for (name, wanted) in [("kind", &self.kind), ("apiVersion", &version)] {
            if text(name) != wanted {
                errors.push(Error::invalid(&Path::new(name), text(name), format!("must be {wanted}")));
            }
        }
        errors
    }

    fn check_scale(&self, fields: &Map<String, Value>, errors: &mut Vec<Error>) {
        let Some(scale) = &self.scale else { return };
        check_replicas(fields, &scale.spec_replicas, errors);
        self.check_scale_status(fields, errors);
    }

    fn check_scale_status(&self, fields: &Map<String, Value>, errors: &mut Vec<Error>) {
        let Some(scale) = &self.scale else { return };
        check_replicas(fields, &scale.status_replicas, errors);
        if let Some(selector) = &scale.label_selector
            && let Err(problem) = nested_text(fields, &steps(selector))
        {
            errors.push(Error::invalid(&Path::new(selector), "", problem));
        }
    }
}

/// Whether rules are not worth trying after these errors, and what to say then.
pub(crate) fn blocking(errors: &[Error]) -> Option<Error> {
    let is_blocking = |error: &Error| {
        matches!(
            error.kind,
            // The kinds of errors after which a rule could see a value that its types exclude
            // (`hasBlockingErr` in strategy.go).
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    };
    errors.iter().any(is_blocking).then(|| {
        Error::invalid(
            &Path::NIL,
            Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to \
             complete validation",
        )
    })
}

fn not_an_object(value: &Value) -> Error {
    Error::invalid(&Path::new(""), value, "must be an object")
}

fn metadata(fields: &Map<String, Value>) -> ObjectMeta {
    let metadata = fields.get("metadata").unwrap_or(&Value::Null);
    ObjectMeta::read_for_checks(metadata)
}

fn steps(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

/// What is at the end of the steps, if anything.
fn nested<'v>(fields: &'v Map<String, Value>, steps: &[&str]) -> Result<Option<&'v Value>, String> {
    let Some((last, outer)) = steps.split_last() else { return Ok(None) };
    let mut here = fields;
    for (index, step) in outer.iter().enumerate() {
        here = match here.get(*step) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(fields)) => fields,
            Some(other) => return Err(wrong_type(&steps[..index + 2], other, "map[string]interface{}")),
        };
    }
    Ok(here.get(*last))
}

fn nested_text(fields: &Map<String, Value>, steps: &[&str]) -> Result<(), String> {
    match nested(fields, steps)? {
        None | Some(Value::String(_)) => Ok(()),
        Some(other) => Err(wrong_type(steps, other, "string")),
    }
}

fn wrong_type(steps: &[&str], value: &Value, wanted: &str) -> String {
    let found = object_meta::go_type(value);
    format!(
        ".{} accessor error: {} is of the type {found}, expected {wanted}",
        steps.join("."),
        fmt::plain(value)
    )
}

fn check_replicas(fields: &Map<String, Value>, path: &str, errors: &mut Vec<Error>) {
    let at = Path::new(path);
    let replicas = match nested(fields, &steps(path)) {
        Ok(None) => 0,
        Ok(Some(value)) if value.is_i64() => value.as_i64().unwrap_or_default(),
        Ok(Some(other)) => {
            errors.push(Error::invalid(&at, 0, wrong_type(&steps(path), other, "int64")));
            return;
        }
        Err(problem) => {
            errors.push(Error::invalid(&at, 0, problem));
            return;
        }
    };
    if replicas < 0 {
        errors.push(Error::invalid(&at, replicas, "should be a non-negative integer"));
    } else if replicas > i64::from(i32::MAX) {
        errors.push(Error::invalid(&at, replicas, format!("should be less than or equal to {}", i32::MAX)));
    }
}
