//! How custom resources behave.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/strategy.go`.

use std::sync::OnceLock;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::{
    Convert, ResetFields, VersionedKind, reset_for_custom_resource, reset_for_custom_resource_status,
};
use serde_json::Value;

use super::{Behaviour, Part};
use crate::field::Error;
use crate::meta;
use crate::patch::facts;
use crate::status::Resource;
use crate::structural::{self, Coercion, CustomResource};

/// Patterns that take some ten milliseconds to compile, in the unit of [`structural::Schema::bound_patterns`]. Those of most definitions
/// are far lighter.
const HEAVY: u64 = 100_000;

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
    /// What compiling the patterns of the schema costs that are not withheld. Known from the first check on: to read thousands of patterns takes time, and
    /// most definitions that are served are never used.
    pattern_weight: OnceLock<u64>,
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
            pattern_weight: OnceLock::new(),
        }
    }

    pub fn resource(&self) -> &CustomResource {
        &self.resource
    }

    pub fn has_status(&self) -> bool {
        self.has_status
    }

    fn bound_patterns(&self) {
        self.pattern_weight.get_or_init(|| self.resource.schema.bound_patterns());
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

    fn strategy(&self) -> Option<facts::PatchedKind<'_>> {
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
        structural::prepare_create(object, self.has_status);
    }

    fn prepare_update(&self, part: Part, object: &mut JsonObject, old: &JsonObject) {
        match part {
            Part::Status => structural::prepare_status_update(object, old),
            Part::Whole | Part::Scale | Part::Finalize | Part::EphemeralContainers => {
                structural::prepare_update(object, old, self.has_status);
            }
        }
    }

    fn may_take_long(&self) -> bool {
        self.pattern_weight.get().is_none_or(|weight| *weight > HEAVY)
    }

    fn check_create(&self, object: &Value) -> Vec<Error> {
        self.bound_patterns();
        self.resource.validate(object)
    }

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<Error> {
        self.bound_patterns();
        match part {
            Part::Whole | Part::Scale | Part::Finalize | Part::EphemeralContainers => {
                self.resource.validate_update(object, old)
            }
            Part::Status => self.resource.validate_status_update(object, old),
        }
    }

    fn warnings(&self, object: &JsonObject, old: Option<&JsonObject>) -> Vec<String> {
        let metadata = |object: &JsonObject| object.get("metadata").and_then(Value::as_object).cloned();
        let before = old.and_then(metadata);
        meta::finalizer_warnings(&metadata(object).unwrap_or_default(), before.as_ref())
    }
}
