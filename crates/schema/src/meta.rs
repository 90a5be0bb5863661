//! Metadata of objects: what it must be like, what of it may change, and what the server sets.
//!
//! Kubernetes walks labels and annotations in no particular order; ours is that of their keys.
//!
//! Follows apimachinery 0.36.4, `pkg/api/validation/objectmeta.go`.

mod create;
mod lists;
mod rules;
mod text;
mod update;

use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::names;

pub use create::{
    GENERATED_CHARACTERS, GENERATED_LENGTH, clear_system_fields, generate_name, match_namespace,
};
pub(crate) use lists::MAX_SHOWN;
pub use lists::{
    finalizer_warnings, validate_finalizers, validate_managed_fields, validate_owner_references,
};
pub use rules::NameRule;
pub use update::{
    Preconditions, generation_after, keep_system_fields, reset_for_status, resource_version_required,
    validate_update,
};

/// How many bytes the keys and values of all annotations may have together.
pub const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// What is wrong with a name, or with a prefix for generated names.
pub(crate) type NameCheck<'f> = &'f dyn Fn(&str, bool) -> Vec<String>;

/// What is wrong with the metadata of an object. Its name must have been generated already.
pub fn validate(
    metadata: &Map<String, Value>,
    is_namespaced: bool,
    rule: NameRule,
    path: &Path<'_>,
) -> Vec<Error> {
    validate_with(metadata, is_namespaced, &|name, is_prefix| rule.problems(name, is_prefix), path)
}

/// The same, for kinds whose names have a rule of their own.
pub(crate) fn validate_with(
    metadata: &Map<String, Value>,
    is_namespaced: bool,
    name_check: NameCheck<'_>,
    path: &Path<'_>,
) -> Vec<Error> {
    let mut errors = Vec::new();
    validate_name(metadata, name_check, path, &mut errors);
    validate_namespace(text::get(metadata, "namespace"), is_namespaced, path, &mut errors);
    let generation = text::integer(metadata, "generation");
    if generation < 0 {
        let words = "must be greater than or equal to 0";
        errors.push(Error::invalid(&path.child("generation"), generation, words));
    }
    validate_contents(metadata, path, &mut errors);
    errors.extend(validate_finalizers(metadata, &path.child("finalizers")));
    errors.extend(validate_managed_fields(metadata, &path.child("managedFields")));
    errors
}

fn validate_name(
    metadata: &Map<String, Value>,
    name_check: NameCheck<'_>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let (name, prefix) = (text::get(metadata, "name"), text::get(metadata, "generateName"));
    if !prefix.is_empty() {
        let problems = name_check(prefix, true).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&path.child("generateName"), prefix, problem)));
    }
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
        return;
    }
    let problems = name_check(name, false).into_iter();
    errors.extend(problems.map(|problem| Error::invalid(&path.child("name"), name, problem)));
}

fn validate_namespace(namespace: &str, is_namespaced: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("namespace");
    match (is_namespaced, namespace) {
        (true, "") => errors.push(Error::required(&path, "")),
        (true, namespace) => {
            let problems = names::label(namespace).into_iter();
            errors.extend(problems.map(|problem| Error::invalid(&path, namespace, problem)));
        }
        (false, "") => {}
        (false, _) => errors.push(Error::forbidden(&path, "not allowed on this type")),
    }
}

/// What is checked on creation and on update alike.
fn validate_contents(metadata: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<Error>) {
    validate_labels(text::pairs(metadata, "labels"), &path.child("labels"), errors);
    validate_annotations(metadata, &path.child("annotations"), errors);
    errors.extend(validate_owner_references(metadata, &path.child("ownerReferences")));
}

/// What is wrong with labels.
pub fn validate_labels<'l>(
    labels: impl Iterator<Item = (&'l str, &'l str)>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    for (key, value) in labels {
        errors.extend(names::qualified(key).into_iter().map(|problem| Error::invalid(path, key, problem)));
        errors.extend(
            names::label_value(value).into_iter().map(|problem| Error::invalid(path, value, problem)),
        );
    }
}

/// What is wrong with the annotations of an object.
pub fn validate_annotations(metadata: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let mut size = 0;
    for (key, value) in text::pairs(metadata, "annotations") {
        size += key.len() + value.len();
        // Here, case does not matter.
        let problems = names::qualified(&key.to_lowercase()).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(path, key, problem)));
    }
    if size > MAX_ANNOTATION_BYTES {
        errors.push(Error::too_long(path, 256 * 1024));
    }
}

#[cfg(test)]
mod tests;
