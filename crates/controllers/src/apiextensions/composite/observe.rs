//! Finds what a composite resource composes.

use std::collections::BTreeMap;

use bytes::Bytes;
use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{ApiClient, CachedObject, Error, ObjectPath, Resource};
use ferroplane_engine::composite::{
    COMPOSE, Machinery, SecretReference, composite_connection_secret, connection_secret, observe,
};
use ferroplane_engine::{Observed, Reference, Requirement};
use ferroplane_wire::Struct;

use super::connection_secrets;
use super::controller::Controller;
use super::problem::Problem;
use super::required::{RequiredResources, read_secret};

/// What a composite resource composes, as it is now.
#[derive(Debug, Default)]
pub(super) struct ObservedState {
    /// By the name the composition knows it by.
    pub(super) observed: BTreeMap<String, Observed>,
    /// The version of everything it refers to, in that order. Zero if it is not there.
    pub(super) versions: Vec<u64>,
    /// The connection Secrets of what it composes.
    pub(super) secrets: Vec<Requirement>,
}

impl Controller {
    /// Everything the composite resource refers to, and may.
    pub(super) async fn observe(
        &self,
        composite: &Object,
        required: &RequiredResources<'_>,
    ) -> Result<ObservedState, Problem> {
        let mut state = ObservedState::default();
        let mut found = Vec::new();
        for reference in Machinery::of(composite, self.layout).references() {
            let Some((resource, held)) = self.find(&reference).await? else {
                state.versions.push(0);
                continue;
            };
            state.versions.push(held.version);
            let mut object: Object = serde_json::from_slice(&held.bytes)
                .map_err(|error| unreadable(format!("cannot read {}: {error}", what(&reference))))?;
            resource.add_kind(&mut object);
            found.push(object);
        }
        let observed = observe(composite, found).map_err(|error| unreadable(error.to_string()))?;
        for (name, object) in observed {
            let mut connection_details = BTreeMap::new();
            if let Some(SecretReference { namespace, name }) = named(connection_secret(&object)) {
                let selector = connection_secrets::selector(namespace, name);
                state.secrets.push(Requirement { step: String::new(), name: String::new(), selector });
                let read = required.connection_secret(namespace, name).await;
                connection_details = read.map_err(|error| unreadable_secret(&error))?;
            }
            let object = Struct::try_from(object)
                .map_err(|error| unreadable(format!("cannot read composed resource `{name}`: {error}")))?;
            state.observed.insert(name, Observed { object, connection_details });
        }
        Ok(state)
    }

    /// The versions of everything a composite resource refers to, as far as they have been told.
    pub(super) async fn known_versions(&self, composite: &Object) -> Option<Vec<u64>> {
        let mut versions = Vec::new();
        for reference in Machinery::of(composite, self.layout).references() {
            let resource = self.shared.context.cluster.resource(&reference.api_version, &reference.kind);
            let informer = self.shared.dependencies.composed(&resource.await.ok()??);
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            versions.push(informer.get(namespace, &reference.name).map_or(0, |held| held.version));
        }
        Some(versions)
    }

    async fn find(
        &self,
        reference: &Reference,
    ) -> Result<Option<(std::sync::Arc<Resource>, CachedObject)>, Problem> {
        let cluster = &self.shared.context.cluster;
        let fail = |error| Problem::refused(COMPOSE, &format!("cannot get {}", what(reference)), &error);
        let Some(resource) = cluster.resource(&reference.api_version, &reference.kind).await.map_err(fail)?
        else {
            return Ok(None);
        };
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let informer = self.shared.dependencies.composed(&resource);
        // If it cannot be followed, it can perhaps be read.
        let _ = informer.synced_or_failed().await;
        if let Some(held) = informer.get(namespace, &reference.name) {
            return Ok(Some((resource, held)));
        }
        // The informer may be behind, or it lost the label by which it is cached. A function that is told that
        // something is gone may want everything else gone, too.
        let path = ObjectPath { resource: &resource, namespace, name: &reference.name };
        let Some(bytes) = cluster.get(path).await.map_err(fail)? else { return Ok(None) };
        let version = ferroplane_client::ObjectHeader::read(&bytes).map_or(0, |head| head.version());
        Ok(Some((resource.clone(), CachedObject { bytes, version })))
    }

    /// What the connection secret of the composite resource holds. Nothing if it has none.
    pub(super) async fn own_connection_details(
        &self,
        composite: &Object,
    ) -> Result<BTreeMap<String, Bytes>, Problem> {
        let secret = named(composite_connection_secret(composite, self.layout));
        let Some(SecretReference { namespace, name }) = secret else { return Ok(BTreeMap::new()) };
        let data = read_secret(&self.shared, namespace, name).await;
        Ok(data.map_err(|error| unreadable_secret(&error))?.unwrap_or_default())
    }
}

/// A Secret without a namespace is none that could be read.
fn named(secret: Option<SecretReference<'_>>) -> Option<SecretReference<'_>> {
    secret.filter(|secret| !secret.namespace.is_empty())
}

fn unreadable_secret(error: &Error) -> Problem {
    Problem::refused(COMPOSE, "cannot get a connection secret", error)
}

fn unreadable(message: String) -> Problem {
    Problem::new(COMPOSE, Cause::ComposedResourceUnreadable, message)
}

pub(super) fn what(reference: &Reference) -> String {
    let Reference { kind, name, namespace, .. } = reference;
    match namespace {
        Some(namespace) => format!("{kind} `{namespace}/{name}`"),
        None => format!("{kind} `{name}`"),
    }
}

/// Used where only the kind is at hand.
pub(super) async fn resource_of(
    cluster: &ApiClient,
    object: &Object,
) -> Result<Option<std::sync::Arc<Resource>>, ferroplane_client::Error> {
    cluster.resource(meta::api_version(object), meta::kind(object)).await
}
