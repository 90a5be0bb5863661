//! Nothing is created in a namespace that is missing or being deleted, and the namespaces of the system stay.
//!
//! Follows kube-apiserver's admission plugin `NamespaceLifecycle` (plugin/pkg/admission/namespace/lifecycle, 1.36). It checks a
//! cache and may let a late object through; here it is checked again with the write ([`crate::admission::Admission::conditions`]).

use std::sync::Arc;

use ferroplane_schema::status::{Cause, Resource, Status};

use super::NAMESPACES;
use crate::store::{Entry, Store};
use crate::verbs::ObjectLocation;

/// Namespaces that must not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Refuses an object in a namespace that is missing or being deleted. The namespace, if it is in one.
pub(crate) fn check_create(
    store: &Store,
    location: &ObjectLocation,
    name: &str,
) -> Result<Option<Arc<Entry>>, Status> {
    if location.namespace.is_empty() {
        return Ok(None);
    }
    match store.get(&store.collection(NAMESPACES).key("", &location.namespace)) {
        None => Err(Status::not_found(&Resource::new("", "namespaces"), &location.namespace)),
        Some(namespace) if namespace.metadata().is_terminating => Err(terminating(location, name)),
        Some(namespace) => Ok(Some(namespace)),
    }
}

/// Refuses to delete a namespace that the system needs.
pub(crate) fn check_delete(location: &ObjectLocation) -> Result<(), Status> {
    let resource = &location.view.resource;
    if *resource.collection == *NAMESPACES && IMMORTAL.contains(&location.name.as_str()) {
        let words = "this namespace may not be deleted";
        return Err(Status::forbidden(&resource.identity, &location.name, words));
    }
    Ok(())
}

fn terminating(location: &ObjectLocation, name: &str) -> Status {
    let namespace = &location.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(&location.view.resource.identity, name, &why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    status
}
