//! What every cluster has from its beginning: namespaces, roles, and who may do everything.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use ferroplane_schema::structural::strict_json::FieldValidation;
use ferroplane_schema::writes::{self, Body, Circumstances, Endpoint, Part, Write};
use serde_json::{Value, json};

use crate::auth::rbac::{GROUP, bootstrap_objects};
use crate::clock;
use crate::registry::{Catalogue, Resource};
use crate::store::{Draft, Operation, Store, SubmitError};

const MANAGER: &str = "ferroplane-apiserver";
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes what is missing, all at once. What somebody has changed stays as it is.
pub(crate) async fn run(store: &Store, catalogue: &Catalogue) -> Result<(), Status> {
    let mut missing = Vec::new();
    for (resource, object) in wanted(catalogue) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = store.collection(&resource.collection).key(namespace, name);
        if store.get(&key).is_none() {
            missing.push(Operation::create(key, draft(&resource, &object)?));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    match store.submit(missing).await {
        // Refused: somebody made one of them since. The next start makes what is still missing.
        Ok(_) | Err(SubmitError::Refused(_)) => Ok(()),
        Err(error) => Err(crate::verbs::unavailable(&error)),
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

fn draft(resource: &Arc<Resource>, object: &Value) -> Result<Draft, Status> {
    let endpoint = Endpoint {
        behaviour: &*resource.stored().behaviour,
        resource: &resource.identity,
        part: Part::Whole,
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default(),
        name: "",
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
    let text = object.to_string();
    let body = Body::json(text.as_bytes()).map_err(|error| Status::internal(&error))?;
    let proposal = writes::propose(&endpoint, Write::Create(body), None, &circumstances)?;
    let written = writes::settle(&endpoint, proposal, None, &circumstances)?;
    Draft::new(&written.object).map_err(|error| Status::internal(&error.to_string()))
}
