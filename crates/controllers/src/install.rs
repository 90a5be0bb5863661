//! Makes the kinds we serve known to the API server.

use std::time::Duration;

use ferroplane_api::{Object, crds, meta};
use serde_json::Value;
use tracing::info;

use crate::cluster::{Cluster, Error, Part, Place, Resource};

/// Owns the definitions of our kinds.
const MANAGER: &str = "ferroplane/install";
/// How soon to look again whether a kind is served.
const PAUSE: Duration = Duration::from_millis(20);

/// Why the kinds we serve cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot install the definition `{name}`")]
    Apply { name: String, source: Error },
    #[error("cannot read the definition of {kind}")]
    Unreadable { kind: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}

/// Install every kind we serve, unless it is there already, and wait until all are served.
pub async fn install(cluster: &Cluster) -> Result<(), InstallError> {
    let resource = definitions();
    for crd in crds::ALL {
        let unreadable = |source| InstallError::Unreadable { kind: crd.kind, source };
        let definition: Object =
            serde_saphyr::from_str(crd.yaml).map_err(|error| unreadable(Box::new(error)))?;
        let name = meta::name(&definition).to_owned();
        let fail = |source| InstallError::Apply { name: name.clone(), source };
        let place = Place { resource: &resource, namespace: "", name: &name };
        let present = cluster.get_object(place).await.map_err(fail)?;
        if !present.as_ref().is_some_and(|present| holds(present, &definition)) {
            cluster.apply(place, Part::Whole, MANAGER, &definition).await.map_err(fail)?;
            info!(name, "installed a definition");
        }
        while !cluster.get_object(place).await.map_err(fail)?.is_some_and(|crd| is_established(&crd)) {
            tokio::time::sleep(PAUSE).await;
        }
    }
    cluster.forget_kinds();
    Ok(())
}

/// The kind of definitions.
pub(crate) fn definitions() -> Resource {
    Resource {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        is_namespaced: false,
    }
}

/// Whether objects of the kind are served.
pub(crate) fn is_established(crd: &Object) -> bool {
    let conditions = crd.get("status").and_then(|status| status.get("conditions")?.as_array());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Whether everything that is wanted is there already.
fn holds(present: &Object, wanted: &Object) -> bool {
    contains(present.get("spec").unwrap_or(&Value::Null), wanted.get("spec").unwrap_or(&Value::Null))
}

fn contains(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| present.get(key).is_some_and(|present| contains(present, value)))
        }
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present.iter().zip(wanted).all(|(present, wanted)| contains(present, wanted))
        }
        (present, wanted) => present == wanted,
    }
}
