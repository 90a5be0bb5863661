//! No custom resource is created once its definition is being deleted.
//!
//! Follows apiextensions-apiserver 0.36, `pkg/apiserver/customresource_handler.go`, which refuses `create` while the definition
//! is terminating. The finalizer of the definition waits for all objects, and new ones would keep it waiting for ever.

use std::sync::Arc;

use ferroplane_schema::status::Status;

use super::CUSTOM_RESOURCE_DEFINITIONS;
use crate::store::{Entry, Store};
use crate::verbs::ObjectLocation;

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
