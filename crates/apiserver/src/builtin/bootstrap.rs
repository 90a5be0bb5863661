//! What every cluster has from its beginning: namespaces, roles, who may do everything, and the service of the API server.

mod endpoints;

use std::net::SocketAddr;
use std::sync::Arc;

use ferroplane_schema::status::Status;
use ferroplane_schema::structural::strict_json::FieldValidation;
use ferroplane_schema::writes::{self, Body, Circumstances, Endpoint, Part, Write};
use serde_json::{Value, json};

use crate::auth::rbac::{GROUP, bootstrap_objects};
use crate::clock;
use crate::registry::{Catalogue, Resource};
use crate::store::{Draft, Entry, Operation, Store, SubmitError};

const MANAGER: &str = "ferroplane-apiserver";
/// The first address of the range of services.
const SERVICE_ADDRESS: &str = "10.96.0.1";
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates missing objects, all at once. Objects that a user has changed stay as they are, except for the address of this server.
pub(crate) async fn run(
    store: &Store,
    catalogue: &Catalogue,
    address: Option<SocketAddr>,
) -> Result<(), Status> {
    let mut missing = match address {
        Some(address) => endpoints::operations(store, catalogue, address)?,
        None => Vec::new(),
    };
    for (resource, object) in wanted(catalogue).into_iter().chain(service(store, catalogue)) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = store.collection(&resource.collection).key(namespace, name);
        if store.get(&key).is_none() {
            missing.push(Operation::create(key, create(&resource, &object)?));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    match store.submit(missing).await {
        // Refused: one of them was created since. The next start creates what is still missing.
        Ok(_) | Err(SubmitError::Refused(_)) => Ok(()),
        Err(error) => Err(crate::verbs::storage_failure(&error)),
    }
}

fn wanted(catalogue: &Catalogue) -> Vec<(Arc<Resource>, Value)> {
    let namespaces = NAMESPACES.iter().filter_map(|name| {
        let resource = catalogue.find("", "namespaces")?;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        Some((Arc::clone(resource), object))
    });
    let roles = bootstrap_objects().into_iter().filter_map(|(kind, object)| {
        let resource = catalogue.find(GROUP, kind.resource())?;
        Some((Arc::clone(resource), Value::Object(object)))
    });
    namespaces.chain(roles).collect()
}

/// The service by which programs in a cluster find the API server. Many suites of controllers take it for granted.
fn service(store: &Store, catalogue: &Catalogue) -> Option<(Arc<Resource>, Value)> {
    let resource = catalogue.find("", "services")?;
    let is_taken = |entry: &Entry| {
        let service: Value = serde_json::from_slice(entry.bytes()).unwrap_or_default();
        service["spec"]["clusterIP"] == SERVICE_ADDRESS
    };
    // In a store of an older program a service may have this address.
    if store.snapshot(&store.collection(&resource.collection)).iter().any(|entry| is_taken(entry)) {
        return None;
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "sessionAffinity": "None",
            "clusterIP": SERVICE_ADDRESS, "clusterIPs": [SERVICE_ADDRESS],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    Some((Arc::clone(resource), service))
}

fn create(resource: &Arc<Resource>, object: &Value) -> Result<Draft, Status> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let text = object.to_string();
    let body = Body::json(text.as_bytes()).map_err(|error| Status::internal(&error))?;
    draft(resource, (namespace, ""), Write::Create(body), None)
}

/// What a write of ours comes to, to an object of this namespace and name.
fn draft(
    resource: &Arc<Resource>,
    (namespace, name): (&str, &str),
    write: Write<'_>,
    live: Option<&Value>,
) -> Result<Draft, Status> {
    let endpoint = Endpoint {
        behaviour: &*resource.stored().behaviour,
        resource: &resource.identity,
        part: Part::Whole,
        namespace,
        name,
    };
    let (time, uid) = (clock::timestamp(), crate::random::uuid().to_string());
    let circumstances = Circumstances {
        manager: MANAGER,
        time: &time,
        uid: &uid,
        random: "",
        field_validation: FieldValidation::Ignore,
        converter: None,
    };
    let proposal = writes::propose(&endpoint, write, live, &circumstances)?;
    let written = writes::settle(&endpoint, proposal, live, &circumstances)?;
    Draft::new(&written.object).map_err(|error| Status::internal(&error.to_string()))
}
