//! How custom resources behave.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/strategy.go`.

use std::collections::HashSet;

use ferroplane_golang::json::JsonObject;
use ferroplane_golang::strconv::quote;
use ferroplane_ownership::{
    Convert, ResetFields, VersionedKind, reset_for_custom_resource, reset_for_custom_resource_status,
};
use serde_json::Value;

use super::{Behaviour, Part, metadata_mut};
use crate::field::Error;
use crate::meta;
use crate::names;
use crate::patch::facts;
use crate::status::Resource;
use crate::structural::{Coercion, CustomResource};

/// A version of a custom resource, ready to be written to.
#[derive(Debug, Clone)]
pub struct Custom {
    resource: CustomResource,
    kind: Resource,
    api_version: String,
    ownership: VersionedKind,
    has_status: bool,
    reset: ResetFields,
    reset_by_status: ResetFields,
}

impl Custom {
    /// `ownership` must have the shapes of all versions of the kind.
    pub fn new(resource: CustomResource, ownership: VersionedKind, has_status: bool) -> Self {
        let api_version = format!("{}/{}", resource.group, resource.version);
        let reset = if has_status { reset_for_custom_resource(&api_version) } else { ResetFields::new() };
        Self {
            kind: Resource::new(resource.group.clone(), resource.kind.clone()),
            reset,
            reset_by_status: reset_for_custom_resource_status(
                ownership.versions.iter().map(|version| version.api_version.as_str()),
            ),
            api_version,
            resource,
            ownership,
            has_status,
        }
    }

    pub fn resource(&self) -> &CustomResource {
        &self.resource
    }

    pub fn has_status(&self) -> bool {
        self.has_status
    }
}

impl Behaviour for Custom {
    fn kind(&self) -> &Resource {
        &self.kind
    }

    fn is_builtin(&self) -> bool {
        false
    }

    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn is_namespaced(&self) -> bool {
        self.resource.is_namespaced
    }

    fn ownership(&self) -> &VersionedKind {
        &self.ownership
    }

    fn converter(&self) -> Option<&dyn Convert> {
        None
    }

    fn reset_fields(&self, part: Part) -> Option<&ResetFields> {
        match part {
            Part::Whole | Part::Scale | Part::Finalize | Part::EphemeralContainers => Some(&self.reset),
            Part::Status => Some(&self.reset_by_status),
        }
    }

    fn strategy(&self) -> Option<facts::Kind<'_>> {
        None
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn allows_create_on_update(&self) -> bool {
        false
    }

    fn normalise(&self, object: &mut JsonObject) -> Result<Vec<String>, String> {
        self.resource.admit(object, Coercion::Strict).map_err(|error| error.0)
    }

    fn revive(&self, object: &mut JsonObject) {
        object.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        // Metadata that cannot be read is dropped, so that there is nothing to fail.
        let _ = self.resource.admit(object, Coercion::Dropping);
    }

    fn adopt(&self, object: &mut JsonObject) {
        object.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        let _ = self.resource.fit(object, Coercion::Dropping);
    }

    fn blank(&self) -> Option<&JsonObject> {
        None
    }

    fn default(&self, object: &mut JsonObject) {
        self.resource.schema.default(object);
    }

    fn prepare_create(&self, object: &mut JsonObject) {
        if self.has_status {
            object.remove("status");
        }
        metadata_mut(object).insert("generation".to_owned(), 1.into());
    }

    fn prepare_update(&self, part: Part, object: &mut JsonObject, old: &JsonObject) {
        match part {
            Part::Status => keep_all_but_status(object, old),
            Part::Whole | Part::Scale | Part::Finalize | Part::EphemeralContainers => {
                if self.has_status {
                    keep(object, old, "status");
                }
                // The status was put back just now, so that it cannot differ if it has a subresource, and
                // counts if it has none.
                let generation = meta::generation_after(object, old, false);
                if generation > 0 {
                    metadata_mut(object).insert("generation".to_owned(), generation.into());
                }
            }
        }
    }

    fn check_create(&self, object: &Value) -> Vec<Error> {
        self.resource.validate(object)
    }

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<Error> {
        match part {
            Part::Whole | Part::Scale | Part::Finalize | Part::EphemeralContainers => {
                self.resource.validate_update(object, old)
            }
            Part::Status => self.resource.validate_status_update(object, old),
        }
    }

    fn warnings(&self, object: &JsonObject, old: Option<&JsonObject>) -> Vec<String> {
        let before: HashSet<_> = old.map(finalizers).unwrap_or_default().into_iter().collect();
        let mut added: Vec<_> =
            finalizers(object).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }
}

fn keep(object: &mut JsonObject, old: &JsonObject, name: &str) {
    match old.get(name) {
        Some(value) => drop(object.insert(name.to_owned(), value.clone())),
        None => drop(object.remove(name)),
    }
}

/// A write of the status changes nothing else, but who owns it is noted.
fn keep_all_but_status(object: &mut JsonObject, old: &JsonObject) {
    let status = object.remove("status");
    let owners = metadata_mut(object).remove("managedFields");
    object.clone_from(old);
    let metadata = metadata_mut(object);
    match owners {
        Some(owners) => drop(metadata.insert("managedFields".to_owned(), owners)),
        None => drop(metadata.remove("managedFields")),
    }
    match status {
        Some(status) => drop(object.insert("status".to_owned(), status)),
        None => drop(object.remove("status")),
    }
}

fn finalizers(object: &JsonObject) -> Vec<&str> {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    finalizers.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let warning = |words: &str| format!("metadata.finalizers: {}: {words}", quote(finalizer));
    let mut warnings: Vec<_> = names::qualified(finalizer).iter().map(|problem| warning(problem)).collect();
    if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
