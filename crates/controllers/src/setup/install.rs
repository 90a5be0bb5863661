//! Installs our kinds on the API server.

use std::time::Duration;

use ferroplane_api::{Object, crds, keys, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Resource, Subresource};
use ferroplane_wire::to_hex;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::setup::webhook::Standing;

/// The field manager of our definitions.
const MANAGER: &str = "ferroplane/install";
/// How soon to check again whether a kind is served. The pauses grow.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a kind may take to be served. An API server takes some milliseconds, or seconds while it is starting.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many are installed at the same time.
const CONCURRENCY: usize = 8;
/// On a definition: the digest of its text.
const DIGEST: &str = "ferroplane.io/definition-digest";
/// On a definition: the version of this program that wrote it.
const VERSION: &str = "ferroplane.io/definition-version";
const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why the kinds we serve cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot install the definition `{name}`")]
    Apply { name: String, source: Error },
    #[error(
        "cannot install the definition `{name}`: it was not established within {} seconds: {reason}; \
         inspect it with `kubectl describe crd {name}`, remove the cause, and start again", patience.as_secs()
    )]
    NotEstablished { name: String, patience: Duration, reason: String },
    #[error("cannot read the definition of {kind}")]
    Unreadable { kind: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}

/// Install our kinds, unless they exist already, and wait until all are served.
pub async fn install(cluster: &ApiClient) -> Result<(), InstallError> {
    install_within(cluster, PATIENCE).await
}

/// The same, with another timeout.
pub async fn install_within(cluster: &ApiClient, patience: Duration) -> Result<(), InstallError> {
    let installing = stream::iter(crds::ALL).map(|crd| install_one(cluster, crd, patience));
    let installed: Result<Vec<_>, _> = installing.buffer_unordered(CONCURRENCY).try_collect().await;
    installed?;
    // The client may have cached that some of them do not exist.
    cluster.forget_resources();
    Ok(())
}

async fn install_one(cluster: &ApiClient, crd: &crds::Crd, patience: Duration) -> Result<(), InstallError> {
    let resource = definitions();
    let name = crd.name();
    let fail = |source| InstallError::Apply { name: name.clone(), source };
    let path = ObjectPath { resource: &resource, namespace: "", name: &name };
    let digest = to_hex(&Sha256::digest(crd.yaml));
    let present = cluster.get_object(path).await.map_err(fail)?;
    let standing = standing_of(crd, present.as_ref(), &digest);
    if standing == Standing::Newer {
        warn!(name, "a CRD was installed by a newer release; it is left unchanged");
    }
    if standing == Standing::Foreign {
        warn!(
            name,
            "a CRD is Kanister's and is left unchanged: it drops `funcVersion` of phases and the status fields that Ferroplane adds"
        );
    }
    // Parsing the text takes longer than everything else here.
    if matches!(standing, Standing::Missing | Standing::Different) {
        let definition: Result<Object, _> = serde_saphyr::from_str(crd.yaml);
        let mut definition = definition
            .map_err(|error| InstallError::Unreadable { kind: crd.kind, source: Box::new(error) })?;
        meta::set_annotation(&mut definition, DIGEST, &digest);
        meta::set_annotation(&mut definition, VERSION, OUR_VERSION);
        cluster.apply(path, Subresource::None, MANAGER, &definition).await.map_err(fail)?;
        debug!(name, "installed a definition");
    }
    wait_until_established(cluster, path, patience).await
}

/// Wait until a definition is established. One whose names another definition has never is, and that is an error.
async fn wait_until_established(
    cluster: &ApiClient,
    path: ObjectPath<'_>,
    patience: Duration,
) -> Result<(), InstallError> {
    let deadline = Instant::now() + patience;
    let mut pause = PAUSE;
    // Polled rather than watched: this happens once, at the start.
    loop {
        let name = path.name.to_owned();
        let found = cluster.get_object(path).await;
        let found = found.map_err(|source| InstallError::Apply { name: name.clone(), source })?;
        if found.as_ref().is_some_and(is_established) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let reason = found.as_ref().map_or_else(|| "it was deleted".to_owned(), complaint);
            return Err(InstallError::NotEstablished { name, patience, reason });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Why a definition is not established, from its conditions.
fn complaint(crd: &Object) -> String {
    let conditions = crd.get("status").and_then(|status| status.get("conditions")?.as_array());
    let complaints = conditions.into_iter().flatten().filter(|condition| condition["status"] == "False");
    let text = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        format!("{} is False: {}", text("type"), text("message"))
    };
    let complaints: Vec<_> = complaints.map(text).collect();
    if complaints.is_empty() {
        "the API server has not reported a condition".to_owned()
    } else {
        complaints.join("; ")
    }
}

/// Compute what installing would do, by definition. Changes nothing.
pub async fn definitions_standing(cluster: &ApiClient) -> Result<Vec<(String, Standing)>, InstallError> {
    let resource = definitions();
    let looking = stream::iter(crds::ALL).map(|crd| async {
        let name = crd.name();
        let path = ObjectPath { resource: &resource, namespace: "", name: &name };
        let present = cluster.get_object(path).await;
        let present = present.map_err(|source| InstallError::Apply { name: name.clone(), source })?;
        let digest = to_hex(&Sha256::digest(crd.yaml));
        let standing = standing_of(crd, present.as_ref(), &digest);
        Ok((name, standing))
    });
    looking.buffered(CONCURRENCY).try_collect().await
}

/// Kanister may run in the same cluster, and its definitions have fields that ours do not. Crossplane's are replaced by ours.
fn standing_of(crd: &crds::Crd, present: Option<&Object>, digest: &str) -> Standing {
    let is_ours = |present: &Object| !meta::annotation(present, DIGEST).is_empty();
    if crd.group == keys::KANISTER && present.is_some_and(|present| !is_ours(present)) {
        return Standing::Foreign;
    }
    compare(present, digest, OUR_VERSION)
}

/// An older version of this program must not remove fields of a newer one.
fn compare(present: Option<&Object>, digest: &str, version: &str) -> Standing {
    let Some(present) = present else { return Standing::Missing };
    if meta::annotation(present, DIGEST) == digest {
        return Standing::Same;
    }
    match (numbers(meta::annotation(present, VERSION)), numbers(version)) {
        (Some(theirs), Some(ours)) if theirs > ours => Standing::Newer,
        _ => Standing::Different,
    }
}

/// The numbers of a version, for comparison.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map(|number| number.parse().ok()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_kanister_are_left_alone_and_those_of_crossplane_are_not() {
        for crd in crds::ALL {
            let expected = if crd.group == keys::KANISTER { Standing::Foreign } else { Standing::Different };
            assert_eq!(standing_of(crd, Some(&Object::new()), "ours"), expected, "{}", crd.kind);
            assert_eq!(standing_of(crd, None, "ours"), Standing::Missing);
        }
    }

    #[test]
    fn definitions_of_newer_versions_are_left_alone() {
        let definition = |digest: &str, version: &str| {
            let mut definition = Object::new();
            meta::set_annotation(&mut definition, DIGEST, digest);
            meta::set_annotation(&mut definition, VERSION, version);
            definition
        };
        let judge = |digest, version| compare(Some(&definition(digest, version)), "ours", "0.10.0");
        assert_eq!(compare(None, "ours", "0.10.0"), Standing::Missing);
        assert_eq!(judge("ours", "0.11.0"), Standing::Same);
        assert_eq!(judge("theirs", "0.11.0"), Standing::Newer);
        assert_eq!(judge("theirs", "0.9.9"), Standing::Different);
        assert_eq!(judge("theirs", "0.10.0-rc.1"), Standing::Different);
        for nonsense in ["", "x", "1..2", "-"] {
            assert_eq!(judge("theirs", nonsense), Standing::Different, "{nonsense}");
        }
    }
}
