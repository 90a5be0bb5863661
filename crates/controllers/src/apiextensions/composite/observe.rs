//! Reads the composed resources of a composite resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{ApiClient, CachedObject, Error, ObjectPath, Resource};
use ferroplane_engine::composite::{
    COMPOSE, Machinery, SecretReference, composed_connection_details, composite_connection_secret,
    connection_secret, observe, own_connection_details,
};
use ferroplane_engine::{Event, Observed, Reference, Requirement};
use ferroplane_wire::Struct;

use super::controller::Controller;
use super::problem::Problem;
use super::required::{RequiredResources, read_secret};
use super::secrets;

/// The composed resources as they are now.
#[derive(Debug, Default)]
pub(super) struct ObservedState {
    /// By resource name.
    pub(super) observed: BTreeMap<String, Observed>,
    /// The version of each reference, in order. Zero if the object does not exist.
    pub(super) versions: Vec<u64>,
    /// The connection Secrets of composed resources.
    pub(super) secrets: Vec<Requirement>,
    /// Events about them.
    pub(super) events: Vec<Event>,
}

/// Where composed resources and Secrets are read: the cluster, or a planned one.
pub(super) trait ObservedSource: Sync {
    /// The object of a reference, and its version.
    fn find(
        &self,
        reference: &Reference,
    ) -> impl Future<Output = Result<Option<(u64, Object)>, Problem>> + Send;

    /// A connection Secret of a composed resource.
    fn composed_secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Object>, Error>> + Send;

    /// The connection Secret of the composite resource itself.
    fn own_secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Object>, Error>> + Send;
}

/// The cluster. Everything that is read is watched from then on.
pub(super) struct LiveSource<'a> {
    pub(super) controller: &'a Controller,
    pub(super) required: &'a RequiredResources<'a>,
}

impl ObservedSource for LiveSource<'_> {
    async fn find(&self, reference: &Reference) -> Result<Option<(u64, Object)>, Problem> {
        let Some((resource, held)) = self.controller.find(reference).await? else { return Ok(None) };
        let mut object: Object = serde_json::from_slice(&held.bytes)
            .map_err(|error| unreadable(format!("cannot read {}: {error}", what(reference))))?;
        resource.add_kind(&mut object);
        Ok(Some((held.version, object)))
    }

    async fn composed_secret(&self, namespace: &str, name: &str) -> Result<Option<Object>, Error> {
        self.required.secret(namespace, name).await
    }

    async fn own_secret(&self, namespace: &str, name: &str) -> Result<Option<Object>, Error> {
        read_secret(&self.controller.shared, namespace, name).await
    }
}

impl Controller {
    /// Read all composed resources that the composite resource refers to and may refer to.
    pub(super) async fn observe(
        &self,
        composite: &Object,
        source: &impl ObservedSource,
    ) -> Result<ObservedState, Problem> {
        let mut state = ObservedState::default();
        let mut found = Vec::new();
        for reference in Machinery::of(composite, self.layout).references() {
            let Some((version, object)) = source.find(&reference).await? else {
                state.versions.push(0);
                continue;
            };
            state.versions.push(version);
            found.push(object);
        }
        let observed = observe(composite, found).map_err(|error| unreadable(error.to_string()))?;
        for (name, object) in observed {
            let mut connection_details = BTreeMap::new();
            if let Some(SecretReference { namespace, name }) = named(connection_secret(&object)) {
                state.secrets.push(secrets::requirement(namespace, name));
                let secret = source.composed_secret(namespace, name).await;
                let secret = secret.map_err(|error| unreadable_secret(&error))?;
                // No API server stores an invalid one.
                let details = composed_connection_details(composite, &object, secret.as_ref());
                let details = details.unwrap_or_default();
                connection_details = details.data;
                state.events.extend(details.event);
            }
            let object = Struct::try_from(object)
                .map_err(|error| unreadable(format!("cannot read composed resource `{name}`: {error}")))?;
            state.observed.insert(name, Observed { object, connection_details });
        }
        Ok(state)
    }

    /// The versions of all references, as far as caches have them.
    pub(super) async fn known_versions(&self, composite: &Object) -> Option<Vec<u64>> {
        let mut versions = Vec::new();
        for reference in &Machinery::of(composite, self.layout).references() {
            let resource = self.shared.context.cluster.resource(&reference.api_version, &reference.kind);
            let resource = resource.await.ok()??;
            if leads_nowhere(reference, &resource) {
                versions.push(0);
                continue;
            }
            let informer = self.shared.dependencies.composed(&resource);
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            versions.push(informer.get(namespace, &reference.name).map_or(0, |held| held.version));
        }
        Some(versions)
    }

    async fn find(&self, reference: &Reference) -> Result<Option<(Arc<Resource>, CachedObject)>, Problem> {
        let Some(resource) = self.readable_kind(reference).await? else { return Ok(None) };
        if let Some(held) = self.read_referenced(reference, &resource).await? {
            return Ok(Some((resource, held)));
        }
        // The API server gives the same answer if there is no such object and if it has just stopped to serve this
        // version.
        let cluster = &self.shared.context.cluster;
        let is_served = cluster.is_served(&resource).await;
        if is_served.map_err(|error| unreadable_object(reference, &error))? {
            return Ok(None);
        }
        cluster.forget_resources();
        let Some(resource) = self.readable_kind(reference).await? else { return Ok(None) };
        let held = self.read_referenced(reference, &resource).await?;
        Ok(held.map(|held| (resource, held)))
    }

    /// The kind of a reference, if the composite resource may have composed resources of it.
    async fn readable_kind(&self, reference: &Reference) -> Result<Option<Arc<Resource>>, Problem> {
        let kind = self.shared.referenced_kind(reference).await?;
        Ok(kind.filter(|resource| !leads_nowhere(reference, resource)))
    }

    /// Read a referenced object, in this version of its kind.
    async fn read_referenced(
        &self,
        reference: &Reference,
        resource: &Arc<Resource>,
    ) -> Result<Option<CachedObject>, Problem> {
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let informer = self.shared.dependencies.composed(resource);
        // If it cannot be watched, it can perhaps be read.
        let _ = informer.synced_or_failed().await;
        if let Some(held) = informer.get(namespace, &reference.name) {
            return Ok(Some(held));
        }
        // The informer may be behind, or the object lost the label by which it is cached. A function that sees no
        // object may desire that everything else is deleted, too.
        let path = ObjectPath { resource, namespace, name: &reference.name };
        let bytes = self.shared.context.cluster.get(path).await;
        let bytes = bytes.map_err(|error| unreadable_object(reference, &error))?;
        Ok(bytes.map(|bytes| {
            let version = ferroplane_client::ObjectHeader::read(&bytes).map_or(0, |head| head.version());
            CachedObject { bytes, version }
        }))
    }

    /// The data of the composite resource's connection secret. Empty if it has none.
    pub(super) async fn own_connection_details(
        &self,
        composite: &Object,
        source: &impl ObservedSource,
    ) -> Result<BTreeMap<String, Bytes>, Problem> {
        let secret = named(composite_connection_secret(composite, self.layout));
        let Some(SecretReference { namespace, name }) = secret else { return Ok(BTreeMap::new()) };
        let secret = source.own_secret(namespace, name).await.map_err(|error| unreadable_secret(&error))?;
        // No API server stores an invalid one.
        Ok(own_connection_details(composite, secret.as_ref()).unwrap_or_default())
    }
}

/// Whether a reference with a namespace is to a cluster-scoped kind. Namespaced composite resources have no other references, and must
/// not read objects outside of their namespace.
pub(super) fn leads_nowhere(reference: &Reference, resource: &Resource) -> bool {
    reference.namespace.is_some() && !resource.is_namespaced
}

/// A reference without a namespace cannot be read.
fn named(secret: Option<SecretReference<'_>>) -> Option<SecretReference<'_>> {
    secret.filter(|secret| !secret.namespace.is_empty())
}

pub(super) fn unreadable_object(reference: &Reference, error: &Error) -> Problem {
    Problem::refused(COMPOSE, &format!("cannot get {}", what(reference)), error)
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
) -> Result<Option<Arc<Resource>>, Error> {
    cluster.resource(meta::api_version(object), meta::kind(object)).await
}
