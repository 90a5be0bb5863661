//! Addresses and ports of services: which are wanted, which are kept, and which must be given.
//!
//! A [`Pool`] allocates them. All addresses are of version 4 of the Internet Protocol.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/service/storage/alloc.go`.
//!
//! # Invariants
//! * What a service has, it keeps as long as it needs it.
//! * Nothing is taken from the pool twice for one service.

mod families;
mod ports;
mod spec;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use crate::field::{Error, Path};
use crate::status::{Resource, Status};
use spec::Spec;

/// Why an address or a port cannot be obtained. The words are those of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("the provided network does not match the current range")]
    OtherNetwork,
    #[error("provided IP is already allocated")]
    AddressTaken,
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    PortOutOfRange { first: u16, last: u16 },
    #[error("provided port is already allocated")]
    PortTaken,
    #[error("range is full")]
    Full,
}

/// Addresses and ports that can be obtained. The owner of the pool releases them if the write fails.
pub trait Pool {
    fn take_address(&mut self, address: &str) -> Result<(), PoolError>;

    /// Any address.
    fn any_address(&mut self) -> Result<String, PoolError>;

    fn take_port(&mut self, port: i64) -> Result<(), PoolError>;

    /// Any port.
    fn any_port(&mut self) -> Result<i64, PoolError>;
}

/// Gives a service what it lacks, in the place of one that it replaces, if it does.
pub fn allocate(
    service: &mut JsonObject,
    old: Option<&JsonObject>,
    pool: &mut dyn Pool,
) -> Result<(), Status> {
    let name = metadata_name(service);
    let empty = JsonObject::new();
    let mut new = Spec::take(service);
    let before = old.map(|old| Spec::of(old.get("spec").and_then(Value::as_object).unwrap_or(&empty)));
    let outcome = match &before {
        None => {
            // Before the families, which are inferred from the list.
            new.follow_address(None);
            families::choose(&mut new, None)
                .map_err(|errors| invalid(&name, &errors))
                .and_then(|()| take_addresses(&mut new, &name, pool))
                .and_then(|()| ports::take(&mut new, &name, pool))
        }
        Some(before) => {
            // First of all, so that an update that leaves out what was given does not look as if it gave it
            // up.
            new.keep(before);
            new.follow_address(Some(before));
            families::choose(&mut new, Some(before))
                .map_err(|errors| invalid(&name, &errors))
                .and_then(|()| update_addresses(&mut new, before, &name, pool))
                .and_then(|()| ports::update(&mut new, before, &name, pool))
        }
    };
    new.put_back(service);
    outcome
}

/// Takes away what a service no longer needs because it is of another type now, unless a client changed that, too.
pub(crate) fn drop_for_type(service: &mut JsonObject, old: &JsonObject) {
    let empty = JsonObject::new();
    let before = Spec::of(old.get("spec").and_then(Value::as_object).unwrap_or(&empty));
    let mut new = Spec::take(service);
    new.drop_for_type(&before);
    let is_balanced = new.kind() == "LoadBalancer";
    new.put_back(service);
    if !is_balanced && let Some(Value::Object(status)) = service.get_mut("status") {
        // Taking a balancer down takes time, but users need not see that (`dropTypeDependentFields`).
        status.insert("loadBalancer".to_owned(), Value::Object(JsonObject::new()));
    }
}

/// What a service that is but a name does not show.
pub(crate) fn drop_unread(service: &mut JsonObject) {
    if let Some(Value::Object(spec)) = service.get_mut("spec")
        && spec.get("type").is_some_and(|kind| kind == "ExternalName")
    {
        spec.remove("internalTrafficPolicy");
    }
}

/// Warnings for a user who writes a service.
pub(crate) fn warnings(service: &JsonObject) -> Vec<String> {
    let empty = JsonObject::new();
    let spec = service.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default();
    let has_external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    let is_headless = text("type") == "ClusterIP" && text("clusterIP") == "None";
    let is_name = text("type") == "ExternalName";
    let old = "service.kubernetes.io/topology-aware-hints";
    let annotations = service.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let has_old = annotations.is_some_and(|annotations| annotations.get(old).is_some());
    let cases = [
        (
            has_old,
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        ),
        (
            is_headless && !text("loadBalancerIP").is_empty(),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (is_headless && has_external, "spec.externalIPs is ignored for headless services"),
        (
            is_headless && text("sessionAffinity") != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            has_external && !is_headless && !is_name,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (is_name && has_external, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !is_name && !text("externalName").is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            text("trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    cases.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned()).collect()
}

fn metadata_name(service: &JsonObject) -> String {
    let name = service.get("metadata").and_then(|metadata| metadata.get("name"));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn invalid(name: &str, errors: &[Error]) -> Status {
    Status::invalid(&Resource::new("", "Service"), name, errors)
}

fn update_addresses(new: &mut Spec, before: &Spec, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    // It may also have been stored when no addresses were allocated.
    let has_none = before.kind() == "ExternalName" || before.addresses().is_empty();
    if has_none { take_addresses(new, name, pool) } else { Ok(()) }
}

fn take_addresses(new: &mut Spec, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    let mut addresses = new.addresses();
    if new.kind() == "ExternalName" || addresses.first().is_some_and(|first| first == "None") {
        return Ok(());
    }
    for index in 0..new.families().len() {
        if index >= addresses.len() {
            addresses.push(String::new());
        }
        if addresses[index].is_empty() {
            let words = |why: PoolError| {
                Status::internal(&format!("failed to allocate a serviceIP for Service \"{name}\": {why}"))
            };
            addresses[index] = pool.any_address().map_err(words)?;
        } else {
            let wanted = addresses[index].clone();
            pool.take_address(&wanted).map_err(|why| {
                let root = Path::new("spec");
                let words = format!("failed to allocate IP {wanted}: {why}");
                let shown = Value::from(new.addresses());
                invalid(name, &[Error::invalid(&root.child("clusterIPs"), shown, words)])
            })?;
        }
    }
    new.set_addresses(&addresses);
    Ok(())
}
