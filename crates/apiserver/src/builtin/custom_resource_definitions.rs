//! No custom resource is created once its definition is being deleted.
//!
//! Follows apiextensions-apiserver 0.36, `pkg/apiserver/customresource_handler.go`, which refuses `create` while the definition
//! is terminating. The finalizer of the definition waits for all objects, and new ones would keep it waiting for ever.

use ferroplane_schema::status::Status;

use super::CUSTOM_RESOURCE_DEFINITIONS;
use crate::registry::Resource;
use crate::store::Store;
use crate::verbs::ObjectLocation;

/// Refuses a custom resource whose definition is being deleted.
pub(crate) fn check_create(store: &Store, location: &ObjectLocation, name: &str) -> Result<(), Status> {
    let resource = &location.view.resource;
    if location.view.is_custom() && is_going(store, resource) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&resource.identity, name, why));
    }
    Ok(())
}

/// Whether the definition of a resource is being deleted, or is gone: requests keep the catalogue that they began with, and
/// may come here after their definition went.
fn is_going(store: &Store, resource: &Resource) -> bool {
    let name = format!("{}.{}", resource.names.plural, resource.group);
    let definition = store.get(&store.collection(CUSTOM_RESOURCE_DEFINITIONS).key("", &name));
    definition.is_none_or(|definition| definition.metadata().is_terminating)
}
