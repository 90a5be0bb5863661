//! What is wrong with metadata.
//!
//! Follows apimachinery 0.36.4, `pkg/api/validation/objectmeta.go`.

use std::collections::HashSet;

use ferroplane_golang::{json, strconv};
use serde_json::Value;

use super::ObjectMeta;
use crate::field::{BadValue, Error, Path};
use crate::meta::MAX_SHOWN;
use crate::names;

/// All annotations together.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// What is wrong with a name, or with a prefix for generated names.
pub(crate) type NameCheck<'f> = &'f dyn Fn(&str, bool) -> Vec<String>;

/// What is wrong with the metadata of a new object.
pub(crate) fn check(
    meta: &ObjectMeta,
    is_namespaced: bool,
    name_check: NameCheck<'_>,
    path: &Path<'_>,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let generate_name = meta.text("generateName");
    if !generate_name.is_empty() {
        let at = path.child("generateName");
        errors.extend(
            name_check(generate_name, true).into_iter().map(|it| Error::invalid(&at, generate_name, it)),
        );
    }
    let name = meta.text("name");
    let at = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&at, "name or generateName is required"));
    } else {
        errors.extend(name_check(name, false).into_iter().map(|problem| Error::invalid(&at, name, problem)));
    }
    check_namespace(meta, is_namespaced, path, &mut errors);
    let generation = meta.integer("generation");
    if generation < 0 {
        errors.push(Error::invalid(
            &path.child("generation"),
            generation,
            "must be greater than or equal to 0",
        ));
    }
    check_labels(meta, path, &mut errors);
    check_annotations(meta, path, &mut errors);
    check_owners(meta, path, &mut errors);
    check_finalizers(meta, path, &mut errors);
    check_managers(meta, path, &mut errors);
    errors
}

fn check_namespace(meta: &ObjectMeta, is_namespaced: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
    let namespace = meta.text("namespace");
    let at = path.child("namespace");
    if !is_namespaced {
        if !namespace.is_empty() {
            errors.push(Error::forbidden(&at, "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        errors.push(Error::required(&at, ""));
    } else {
        errors.extend(
            names::label(namespace).into_iter().map(|problem| Error::invalid(&at, namespace, problem)),
        );
    }
}

fn check_labels(meta: &ObjectMeta, path: &Path<'_>, errors: &mut Vec<Error>) {
    let at = path.child("labels");
    for (key, value) in meta.entries("labels") {
        errors.extend(names::qualified(key).into_iter().map(|problem| Error::invalid(&at, key, problem)));
        errors
            .extend(names::label_value(value).into_iter().map(|problem| Error::invalid(&at, value, problem)));
    }
}

fn check_annotations(meta: &ObjectMeta, path: &Path<'_>, errors: &mut Vec<Error>) {
    let at = path.child("annotations");
    let mut size = 0;
    for (key, value) in meta.entries("annotations") {
        // Annotations may have upper case prefixes, labels may not: the validation of Kubernetes lowers the
        // keys here.
        let problems = names::qualified(&key.to_lowercase());
        errors.extend(problems.into_iter().map(|problem| Error::invalid(&at, key, problem)));
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS {
        errors.push(Error::too_long(&at, i64::try_from(MAX_ANNOTATIONS).unwrap_or(i64::MAX)));
    }
}

fn check_owners(meta: &ObjectMeta, path: &Path<'_>, errors: &mut Vec<Error>) {
    let at = path.child("ownerReferences");
    let owners = meta.list("ownerReferences");
    let mut controller: Option<String> = None;
    let mut shown_times = 0;
    for owner in owners {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        check_owner(owner, &at, errors);
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) if shown_times < MAX_SHOWN => {
                    shown_times += 1;
                    errors.push(Error::invalid(
                        &at,
                        show_owners(owners),
                        format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for \
                             {first} and {this}"
                        ),
                    ));
                }
                Some(_) => {}
                None => controller = Some(this),
            }
        }
    }
}

fn check_owner(owner: &Value, at: &Path<'_>, errors: &mut Vec<Error>) {
    let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    // A version that cannot be read is none.
    let parsed = match version.split('/').collect::<Vec<_>>().as_slice() {
        [version] | [_, version] => *version,
        _ => "",
    };
    let kind = text("kind");
    let mut require = |is_there: bool, name: &str, detail: &str| {
        if !is_there {
            errors.push(Error::invalid(&at.child(name), text(name), detail));
        }
    };
    require(!parsed.is_empty(), "apiVersion", "version must not be empty");
    require(!kind.is_empty(), "kind", "must not be empty");
    require(!text("name").is_empty(), "name", "must not be empty");
    require(!text("uid").is_empty(), "uid", "must not be empty");
    // Events are deleted by age, and with them would go what they own.
    if matches!(version, "v1" | "/v1") && kind == "Event" {
        errors.push(Error::invalid(
            at,
            BadValue::Text(show_owner(owner)),
            "/v1, Kind=Event is disallowed from being an owner",
        ));
    }
}

fn show_owner(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let written = fields.iter().filter_map(|name| {
        let value = owner.get(name)?;
        Some(format!("\"{name}\":{}", json::marshal(value)))
    });
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}

fn show_owners(owners: &[Value]) -> BadValue {
    BadValue::Text(format!("[{}]", owners.iter().map(show_owner).collect::<Vec<_>>().join(",")))
}

fn check_finalizers(meta: &ObjectMeta, path: &Path<'_>, errors: &mut Vec<Error>) {
    let at = path.child("finalizers");
    let finalizers = meta.list("finalizers");
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        errors.extend(names::qualified(finalizer).into_iter().map(|it| Error::invalid(&at, finalizer, it)));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(Error::invalid(
            &at,
            Value::Array(finalizers.to_vec()),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

fn check_managers(meta: &ObjectMeta, path: &Path<'_>, errors: &mut Vec<Error>) {
    let all = path.child("managedFields");
    for (index, entry) in meta.list("managedFields").iter().enumerate() {
        let at = all.index(index);
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            errors.push(Error::invalid(
                &at.child("operation"),
                text("operation"),
                "must be `Apply` or `Update`",
            ));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(Error::invalid(&at.child("fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        let manager = text("manager");
        if manager.len() > 128 {
            errors.push(Error::too_long(&at.child("manager"), 128));
        }
        for (position, character) in manager.char_indices().filter(|(_, it)| !strconv::is_print(*it)) {
            let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
            errors.push(Error::invalid(&at.child("manager"), manager, detail));
        }
        if text("subresource").len() > 256 {
            errors.push(Error::too_long(&at.child("subresource"), 256));
        }
    }
}

/// What is wrong with the metadata of an object that replaces an old one.
pub(crate) fn check_update(meta: &ObjectMeta, old: &ObjectMeta, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    // Otherwise an object that is going could be held back for ever by adding finalizers.
    if old.fields.contains_key("deletionTimestamp") {
        let before: HashSet<_> = old.list("finalizers").iter().collect();
        let mut added: Vec<_> = meta
            .list("finalizers")
            .iter()
            .filter(|it| !before.contains(it))
            .filter_map(Value::as_str)
            .collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let quoted: Vec<_> = added.iter().map(|name| strconv::quote(name)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(Error::forbidden(&path.child("finalizers"), detail));
        }
    }
    if meta.text("resourceVersion").is_empty() {
        errors.push(Error::invalid(&path.child("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = meta.integer("generation");
    if generation < old.integer("generation") {
        errors.push(Error::invalid(&path.child("generation"), generation, "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        if meta.text(name) != old.text(name) {
            errors.push(Error::invalid(&path.child(name), meta.text(name), "field is immutable"));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if meta.fields.get(name) != old.fields.get(name) {
            let now = meta.fields.get(name).cloned().unwrap_or(Value::Null);
            // Times and pointers are shown as JSON.
            errors.push(Error::invalid(
                &path.child(name),
                BadValue::Text(json::marshal(&now)),
                "field is immutable",
            ));
        }
    }
    check_labels(meta, path, &mut errors);
    check_annotations(meta, path, &mut errors);
    check_owners(meta, path, &mut errors);
    check_managers(meta, path, &mut errors);
    errors
}
