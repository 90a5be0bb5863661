//! What of the metadata may change, and what the server keeps whatever a client sends.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/rest/update.go`; apimachinery 0.36.4,
//! `pkg/api/validation/objectmeta.go`.

use ferroplane_golang::json::JsonObject;
use ferroplane_golang::{json, strconv};
use serde_json::{Map, Value};

use super::{lists, text};
use crate::field::{BadValue, Error, Path};
use crate::status::{Resource, Status};

/// What is wrong with the metadata of an updated object, apart from what [`super::validate`] finds.
pub fn validate_update(new: &JsonObject, old: &JsonObject, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    if text::present(old, "deletionTimestamp").is_some() {
        validate_no_new_finalizers(new, old, path, &mut errors);
    }
    let resource_version = text::get(new, "resourceVersion");
    if resource_version.is_empty() {
        let words = "must be specified for an update";
        errors.push(Error::invalid(&path.child("resourceVersion"), resource_version, words));
    }
    let generation = text::integer(new, "generation");
    if generation < text::integer(old, "generation") {
        errors.push(Error::invalid(&path.child("generation"), generation, "must not be decremented"));
    }
    validate_immutable(new, old, path, &mut errors);
    super::validate_contents(new, path, &mut errors);
    errors.extend(lists::validate_managed_fields(new, &path.child("managedFields")));
    errors
}

fn validate_no_new_finalizers(new: &JsonObject, old: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let added = lists::new_finalizers(new, old);
    if added.is_empty() {
        return;
    }
    let added: Vec<_> = added.into_iter().map(strconv::quote).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    errors.push(Error::forbidden(&path.child("finalizers"), detail));
}

fn validate_immutable(new: &JsonObject, old: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    const WORDS: &str = "field is immutable";
    for name in ["name", "namespace", "uid"] {
        let value = text::get(new, name);
        if value == text::get(old, name) {
            continue;
        }
        // The identifier has a type of its own, which is shown in another way.
        let shown = match name {
            "uid" => BadValue::Text(json::marshal(&Value::from(value))),
            _ => BadValue::from(value),
        };
        errors.push(Error::invalid(&path.child(name), shown, WORDS));
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = text::present(new, name);
        if value != text::present(old, name) {
            let shown = BadValue::Text(json::marshal(value.unwrap_or(&Value::Null)));
            errors.push(Error::invalid(&path.child(name), shown, WORDS));
        }
    }
}

/// Puts back what a client cannot change: the generation, the time of creation, and that it is being deleted. An
/// identifier that was not sent is filled in.
pub fn keep_system_fields(new: &mut JsonObject, old: &JsonObject) {
    // A client that sends an old generation must not set it back; `generation_after` decides.
    keep(new, old, "generation");
    new.remove("selfLink");
    if text::get(new, "uid").is_empty() {
        keep(new, old, "uid");
    }
    // One that the old object does not have is left, for validation to refuse.
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if text::present(old, name).is_some() {
            keep(new, old, name);
        }
    }
    if text::present(new, "deletionGracePeriodSeconds").is_none() {
        keep(new, old, "deletionGracePeriodSeconds");
    }
}

/// Puts back what a write to the status of an object of a built-in kind cannot change.
pub fn reset_for_status(new: &mut JsonObject, old: &JsonObject) {
    let names = [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ];
    for name in names {
        keep(new, old, name);
    }
}

fn keep(new: &mut JsonObject, old: &JsonObject, name: &str) {
    match text::present(old, name) {
        Some(value) => drop(new.insert(name.to_owned(), value.clone())),
        None => drop(new.remove(name)),
    }
}

/// What must hold for a change or a deletion to be meant for the object as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preconditions<'p> {
    pub uid: Option<&'p str>,
    pub resource_version: Option<&'p str>,
}

impl<'p> Preconditions<'p> {
    /// Those of an update: one that names another identifier is meant for an object that no longer exists.
    pub fn of_update(new: &'p JsonObject) -> Self {
        let uid = Some(text::get(new, "uid")).filter(|uid| !uid.is_empty());
        Self { uid, resource_version: None }
    }

    /// Checks them. `key` says where the server stores the object, which the answer tells.
    pub fn check(self, old: &JsonObject, resource: &Resource, key: &str) -> Result<(), Status> {
        let checks =
            [("UID", self.uid, "uid"), ("ResourceVersion", self.resource_version, "resourceVersion")];
        for (what, wanted, name) in checks {
            let found = text::get(old, name);
            let Some(wanted) = wanted.filter(|wanted| *wanted != found) else { continue };
            // The words of Kubernetes' storage layer (`NewInvalidObjError`), which it does not hide.
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            return Err(Status::conflict(resource, text::get(old, "name"), &why));
        }
        Ok(())
    }
}

/// What a server says of an update without a resource version, for kinds that must have one. The resource stands in
/// for the kind.
pub fn resource_version_required(resource: &Resource, name: &str) -> Status {
    let metadata = Path::new("metadata");
    let words = "must be specified for an update";
    // A number, because the store of Kubernetes has parsed the version by then; in the check above it still
    // is text.
    let error = Error::invalid(&metadata.child("resourceVersion"), 0, words);
    Status::invalid(resource, name, &[error])
}

/// The generation of an updated object: one more if anything but the metadata changed. If the kind has a status of its
/// own, changes of that do not count.
pub fn generation_after(new: &JsonObject, old: &JsonObject, has_status: bool) -> i64 {
    let empty = Map::new();
    let metadata = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let generation = text::integer(metadata, "generation");
    let counts = |(name, _): &(&String, &Value)| *name != "metadata" && !(has_status && *name == "status");
    let is_same = new.iter().filter(counts).eq(old.iter().filter(counts));
    if is_same { generation } else { generation.saturating_add(1) }
}
