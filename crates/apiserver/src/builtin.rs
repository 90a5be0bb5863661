//! What the server knows about single kinds of Kubernetes. Other modules treat all kinds alike, but for those whose input is
//! objects: `auth` reads roles and bindings, `webhooks` what configures webhooks and where it leads.
//!
//! Most of what distinguishes a kind is a row of a table ([`resources()`]) or its `Behaviour` in `ferroplane-schema`. Here is what
//! needs other objects, or a state of its own: what kube-apiserver has in the registries and admission plugins of single
//! kinds. What kube-controller-manager does for single kinds is in [`crate::controllers`].

pub(crate) mod admission_policies;
pub(crate) mod bootstrap;
mod bound_objects;
pub(crate) mod custom_resource_definitions;
pub(crate) mod namespace_lifecycle;
mod pods;
mod resources;
mod reviews;
pub(crate) mod role_escalation;
pub(crate) mod service_allocator;

pub(crate) use resources::resources;

/// Collections of the store whose objects the server itself reads.
pub(crate) const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";
pub(crate) const CUSTOM_RESOURCE_DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
pub(crate) const EVENTS: &str = "/events";
pub(crate) const NAMESPACES: &str = "/namespaces";
pub(crate) const SERVICES: &str = "/services";
pub(crate) const SERVICE_ACCOUNTS: &str = "/serviceaccounts";

/// Keeps a definition until the objects that it defines are gone.
pub(crate) const CUSTOM_RESOURCE_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
