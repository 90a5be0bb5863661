//! Prevents privilege escalation by roles and bindings.
//!
//! Follows kube-apiserver's registries of roles and bindings (pkg/registry/rbac/*/policybased, 1.36). It comes after mutating
//! webhooks, so that what is checked is what is stored.

use ferroplane_schema::status::Status;
use serde_json::{Map, Value};

use crate::auth::authorizer::Authorizer;
use crate::auth::identity::Identity;
use crate::auth::rbac::{RbacKind, Write};
use crate::verbs::ObjectLocation;

/// Refuses a role or binding that grants more than its writer has. Other kinds are none of its business.
pub(crate) fn check(
    authorizer: &Authorizer,
    identity: &Identity,
    location: &ObjectLocation,
    new: &Map<String, Value>,
    live: Option<&Value>,
) -> Result<(), Status> {
    let resource = &location.view.resource;
    let Some(kind) = RbacKind::of(&resource.group, &resource.names.plural) else { return Ok(()) };
    let (namespace, name) = (location.namespace.as_str(), location.name.as_str());
    let old = live.and_then(Value::as_object);
    authorizer.policy().check_escalation(identity, &Write { kind, namespace, name, new, old })
}
