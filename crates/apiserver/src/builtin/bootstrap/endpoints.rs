//! The endpoints of the service `default/kubernetes`: where this API server listens.
//!
//! Follows kube-apiserver 1.36.4, pkg/controlplane/reconcilers/endpointsadapter.go, for a single server. That one refuses to name a
//! loopback address; here it is named where nothing else is listened on, because a client that reads it runs on the same machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Write;
use serde_json::{Value, json};

use super::{create, draft};
use crate::registry::{Catalogue, Resource};
use crate::store::{Operation, Store};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// What has to be written so that both kinds of endpoints name this address, and no other.
pub(super) fn operations(
    store: &Store,
    catalogue: &Catalogue,
    address: SocketAddr,
) -> Result<Vec<Operation>, Status> {
    let address = advertised(address);
    let wanted =
        [("", "endpoints", endpoints(address)), ("discovery.k8s.io", "endpointslices", slice(address))];
    let mut operations = Vec::new();
    for (group, plural, object) in wanted {
        let Some(resource) = catalogue.find(group, plural) else { continue };
        operations.extend(operation(store, resource, &object)?);
    }
    Ok(operations)
}

fn operation(store: &Store, resource: &Arc<Resource>, wanted: &Value) -> Result<Option<Operation>, Status> {
    let key = store.collection(&resource.collection).key(NAMESPACE, NAME);
    let Some(entry) = store.get(&key) else {
        return Ok(Some(Operation::create(key, create(resource, wanted)?)));
    };
    let live: Value =
        serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))?;
    let is_other = |field: &&str| live.get(*field) != wanted.get(*field);
    // The type of addresses can be set once.
    let fields: Vec<_> = ["subsets", "endpoints", "ports"].into_iter().filter(is_other).collect();
    if fields.is_empty() {
        return Ok(None);
    }
    if live.get("addressType") != wanted.get("addressType") {
        return Ok(Some(Operation::update(key, entry.revision(), create(resource, wanted)?)));
    }
    let patch: Value = fields.into_iter().map(|field| (field.to_owned(), wanted[field].clone())).collect();
    let draft = draft(resource, (NAMESPACE, NAME), Write::MergePatch(&patch.to_string()), Some(&live))?;
    Ok(Some(Operation::update(key, entry.revision(), draft)))
}

fn endpoints(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            // The slice below is ours, too: no controller has to derive one from this.
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }],
    })
}

fn slice(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    })
}

/// An address that others can connect to.
fn advertised(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    SocketAddr::new(outgoing().unwrap_or(Ipv4Addr::LOCALHOST.into()), address.port())
}

/// The address that this machine has towards others. Nothing is sent to find it out.
fn outgoing() -> Option<IpAddr> {
    // One of the addresses that are reserved for documentation, to which the default route leads.
    let elsewhere = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_that_stands_for_all_is_not_advertised() {
        let given: SocketAddr = "10.0.0.7:6443".parse().unwrap();
        assert_eq!(advertised(given), given);
        for everywhere in ["0.0.0.0:6443", "[::]:6443"] {
            let advertised = advertised(everywhere.parse().unwrap());
            assert!(!advertised.ip().is_unspecified(), "{advertised}");
            assert_eq!(advertised.port(), 6443);
        }
    }
}
