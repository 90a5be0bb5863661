//! Makes the kinds we serve known to the API server.

use std::time::Duration;

use ferroplane_api::{Object, crds, meta};
use ferroplane_wire::to_hex;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use sha2::{Digest as _, Sha256};
use tracing::debug;

use crate::cluster::{Cluster, Error, Part, Place, Resource};

/// Owns the definitions of our kinds.
const MANAGER: &str = "ferroplane/install";
/// How soon to look again whether a kind is served.
const PAUSE: Duration = Duration::from_millis(5);
/// How many are installed at the same time.
const CONCURRENCY: usize = 8;
/// On a definition: what text it was made from.
const DIGEST: &str = "ferroplane.io/definition-digest";

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
    let installing = stream::iter(crds::ALL).map(|crd| install_one(cluster, crd));
    let installed: Result<Vec<_>, _> = installing.buffer_unordered(CONCURRENCY).try_collect().await;
    installed?;
    cluster.forget_kinds();
    Ok(())
}

async fn install_one(cluster: &Cluster, crd: &crds::Crd) -> Result<(), InstallError> {
    let resource = definitions();
    let name = crd.name();
    let fail = |source| InstallError::Apply { name: name.clone(), source };
    let place = Place { resource: &resource, namespace: "", name: &name };
    let digest = to_hex(&Sha256::digest(crd.yaml));
    let present = cluster.get_object(place).await.map_err(fail)?;
    // Reading the text takes longer than anything else here.
    if present.as_ref().is_none_or(|present| meta::annotation(present, DIGEST) != digest) {
        let definition: Result<Object, _> = serde_saphyr::from_str(crd.yaml);
        let mut definition = definition
            .map_err(|error| InstallError::Unreadable { kind: crd.kind, source: Box::new(error) })?;
        meta::set_annotation(&mut definition, DIGEST, &digest);
        cluster.apply(place, Part::Whole, MANAGER, &definition).await.map_err(fail)?;
        debug!(name, "installed a definition");
    }
    while !cluster.get_object(place).await.map_err(fail)?.is_some_and(|crd| is_established(&crd)) {
        tokio::time::sleep(PAUSE).await;
    }
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
