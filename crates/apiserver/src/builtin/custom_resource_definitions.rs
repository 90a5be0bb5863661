//! No custom resource is created once its definition is being deleted, and no definition is in the group that stands for all of them.
//!
//! Follows apiextensions-apiserver 0.36, `pkg/apiserver/customresource_handler.go`, which refuses `create` while the definition
//! is terminating. The finalizer of the definition waits for all objects, and new ones would keep it waiting for ever.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use serde_json::{Map, Value};

use super::CUSTOM_RESOURCE_DEFINITIONS;
use crate::auth::rbac::CUSTOM_RESOURCES;
use crate::store::{Entry, Store};
use crate::verbs::{ObjectLocation, metadata_text};

/// Refuses a custom resource whose definition is being deleted, or is gone: requests keep the catalogue that they began with,
/// and may come here after their definition went. The definition, if it has one.
pub(crate) fn check_create(
    store: &Store,
    location: &ObjectLocation,
    name: &str,
) -> Result<Option<Arc<Entry>>, Status> {
    if !location.view.is_custom() {
        return Ok(None);
    }
    let resource = &location.view.resource;
    let key = format!("{}.{}", resource.names.plural, resource.group);
    let definition = store.get(&store.collection(CUSTOM_RESOURCE_DEFINITIONS).key("", &key));
    let Some(definition) = definition.filter(|definition| !definition.metadata().is_terminating) else {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&resource.identity, name, why));
    };
    Ok(Some(definition))
}

/// Refuses a new definition in the group that stands for all custom resources in rules. A right on its kind would be one on every custom
/// resource with the same plural. What was stored before there was this check stays as it is.
pub(crate) fn check_group(
    location: &ObjectLocation,
    new: &Map<String, Value>,
    live: Option<&Value>,
) -> Result<(), Status> {
    let resource = &location.view.resource;
    let is_new_definition = live.is_none() && *resource.collection == *CUSTOM_RESOURCE_DEFINITIONS;
    let group = new.get("spec").and_then(|spec| spec.get("group")?.as_str());
    if !is_new_definition || group != Some(CUSTOM_RESOURCES) {
        return Ok(());
    }
    let why = format!("the group {CUSTOM_RESOURCES:?} stands for all custom resources in roles");
    Err(Status::forbidden(&resource.identity, metadata_text(new, "name"), &why))
}
