//! Owner references, finalizers and managed fields.
//!
//! Follows apimachinery 0.36.4, `pkg/api/validation/objectmeta.go`, `pkg/apis/meta/v1/validation/validation.go`.

use std::collections::HashSet;

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::json::JsonObject;
use ferroplane_golang::{json, strconv};
use serde_json::{Map, Value, json};

use super::text;
use crate::field::{BadValue, Error, Path};
use crate::names;

/// How often all references are shown in the answer to one request. Upstream shows them for every controller too many, which
/// for a few thousand of them makes an answer of gigabytes.
pub(crate) const MAX_SHOWN: usize = 10;

/// What is wrong with the owner references.
pub fn validate_owner_references(metadata: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let mut shown_times = 0;
    let references = text::list(metadata, "ownerReferences");
    let empty = Map::new();
    for reference in references.iter().map(|reference| reference.as_object().unwrap_or(&empty)) {
        validate_owner_reference(reference, path, &mut errors);
        if reference.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let current = format!("{}/{}", text::get(reference, "kind"), text::get(reference, "name"));
        let Some(first) = &controller else {
            controller = Some(current);
            continue;
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
        );
        shown_times += 1;
        if shown_times > MAX_SHOWN {
            continue;
        }
        // All references for each surplus one: so does `ValidateOwnerReferences`.
        let shown: Vec<_> = references.iter().filter_map(Value::as_object).map(show_reference).collect();
        errors.push(Error::invalid(path, BadValue::Text(format!("[{}]", shown.join(","))), detail));
    }
    errors
}

fn validate_owner_reference(reference: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    checkpoint();
    let api_version = text::get(reference, "apiVersion");
    let kind = text::get(reference, "kind");
    // What has several slashes is no version at all. `FromAPIVersionAndKind` keeps the kind, unlike others.
    let (group, version, known_kind) = match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] => ("", *version, kind),
        [group, version] => (*group, *version, kind),
        _ => ("", "", kind),
    };
    if version.is_empty() {
        errors.push(Error::invalid(&path.child("apiVersion"), api_version, "version must not be empty"));
    }
    if known_kind.is_empty() {
        errors.push(Error::invalid(&path.child("kind"), kind, "must not be empty"));
    }
    let name = text::get(reference, "name");
    if name.is_empty() {
        errors.push(Error::invalid(&path.child("name"), name, "must not be empty"));
    }
    let uid = text::get(reference, "uid");
    if uid.is_empty() {
        errors.push(Error::invalid(&path.child("uid"), uid, "must not be empty"));
    }
    if (group, version, kind) == ("", "v1", "Event") {
        let shown = BadValue::Text(show_reference(reference));
        errors.push(Error::invalid(path, shown, "/v1, Kind=Event is disallowed from being an owner"));
    }
}

/// A reference as errors show it: in the order of Kubernetes' type.
fn show_reference(reference: &JsonObject) -> String {
    checkpoint();
    let field = |name| json::marshal(&Value::from(text::get(reference, name)));
    let mut shown = format!(
        "{{\"apiVersion\":{},\"kind\":{},\"name\":{},\"uid\":{}",
        field("apiVersion"),
        field("kind"),
        field("name"),
        field("uid")
    );
    for name in ["controller", "blockOwnerDeletion"] {
        if let Some(truth) = reference.get(name).and_then(Value::as_bool) {
            shown.push_str(&format!(",\"{name}\":{truth}"));
        }
    }
    shown.push('}');
    shown
}

/// What is wrong with the finalizers.
pub fn validate_finalizers(metadata: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let finalizers = texts(metadata, "finalizers");
    for finalizer in &finalizers {
        let problems = names::qualified(finalizer).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(path, *finalizer, problem)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let words = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(path, json!(finalizers), words));
    }
    errors
}

/// Finalizers that were not there before.
pub(super) fn new_finalizers<'m>(new: &'m JsonObject, old: &JsonObject) -> Vec<&'m str> {
    let old: HashSet<_> = texts(old, "finalizers").into_iter().collect();
    let mut added: Vec<_> = texts(new, "finalizers").into_iter().filter(|name| !old.contains(name)).collect();
    // Kubernetes gets them from a set, which it lists sorted.
    added.sort_unstable();
    added.dedup();
    added
}

/// What a client should be told about the finalizers that it adds to a custom resource.
pub fn finalizer_warnings(metadata: &JsonObject, old: Option<&JsonObject>) -> Vec<String> {
    let empty = Map::new();
    let added = new_finalizers(metadata, old.unwrap_or(&empty));
    added.into_iter().flat_map(finalizer_warning).collect()
}

fn finalizer_warning(name: &str) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let mut words = names::qualified(name);
    if !name.contains('/') && !STANDARD.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        words.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    words.into_iter().map(|words| format!("metadata.finalizers: {}: {words}", strconv::quote(name))).collect()
}

fn texts<'m>(metadata: &'m JsonObject, name: &str) -> Vec<&'m str> {
    text::list(metadata, name).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// What is wrong with the managed fields, apart from the sets of fields themselves.
pub fn validate_managed_fields(metadata: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let empty = Map::new();
    for (index, entry) in text::list(metadata, "managedFields").iter().enumerate() {
        let entry = entry.as_object().unwrap_or(&empty);
        let path = path.index(index);
        let operation = text::get(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let shown = BadValue::Text(json::marshal(&Value::from(operation)));
            errors.push(Error::invalid(&path.child("operation"), shown, "must be `Apply` or `Update`"));
        }
        let fields_type = text::get(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(Error::invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        validate_manager(text::get(entry, "manager"), &path.child("manager"), &mut errors);
        if text::get(entry, "subresource").len() > 256 {
            errors.push(Error::too_long(&path.child("subresource"), 256));
        }
    }
    errors
}

/// What is wrong with the name of a field manager.
pub(super) fn validate_manager(manager: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    if manager.len() > 128 {
        errors.push(Error::too_long(path, 128));
    }
    // Positions are bytes: Go's `range` over a string counts like this.
    for (position, character) in manager.char_indices().filter(|(_, c)| !strconv::is_print(*c)) {
        let code = u32::from(character);
        let detail = format!("invalid character U+{code:04X} (at position {position})");
        errors.push(Error::invalid(path, manager, detail));
    }
}
