//! Finds what a composite resource composes.

use std::collections::BTreeMap;

use bytes::Bytes;
use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::{Layout, Observed, Reference};
use ferroplane_wire::Struct;

use super::controller::Controller;
use super::machinery::referred;
use super::problem::{COMPOSE, Problem};
use super::read::secret_data;
use crate::cluster::{Cluster, Place, Resource};
use crate::mirror::Held;

/// What a composite resource composes, as it is now.
#[derive(Debug, Default)]
pub(super) struct World {
    /// By the name the composition knows it by.
    pub(super) observed: BTreeMap<String, Observed>,
    /// The version of everything it refers to, in that order. Zero if it is not there.
    pub(super) versions: Vec<u64>,
}

impl Controller {
    /// Everything the composite resource refers to, and may.
    pub(super) async fn observe(&self, composite: &Object) -> Result<World, Problem> {
        let mut world = World::default();
        for reference in referred(composite, self.layout) {
            let Some((resource, held)) = self.find(&reference).await? else {
                world.versions.push(0);
                continue;
            };
            world.versions.push(held.version);
            let mut object: Object = match serde_json::from_slice(&held.bytes) {
                Ok(object) => object,
                Err(error) => {
                    return Err(Problem::new(COMPOSE, format!("cannot read {}: {error}", what(&reference))));
                }
            };
            resource.name_kind(&mut object);
            if meta::controller_uid(&object).is_some_and(|uid| uid != meta::uid(composite)) {
                // It belongs to somebody else: for us it is not there.
                continue;
            }
            let name = meta::annotation(&object, keys::RESOURCE_NAME).to_owned();
            if name.is_empty() {
                let message = format!(
                    "cannot tell what {} is: it is referred to, but has no annotation `{}`",
                    what(&reference),
                    keys::RESOURCE_NAME
                );
                return Err(Problem::new(COMPOSE, message));
            }
            let connection_details = self.connection_details(&object).await?;
            let object = Struct::try_from(object).map_err(|error| {
                Problem::new(COMPOSE, format!("cannot read {}: {error}", what(&reference)))
            })?;
            world.observed.insert(name, Observed { object, connection_details });
        }
        Ok(world)
    }

    /// The versions of everything a composite resource refers to, as far as they have been told.
    pub(super) async fn known_versions(&self, composite: &Object) -> Option<Vec<u64>> {
        let mut versions = Vec::new();
        for reference in referred(composite, self.layout) {
            let resource = self.shared.context.cluster.resource(&reference.api_version, &reference.kind);
            let mirror = self.shared.dependencies.composed(&resource.await.ok()??);
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            versions.push(mirror.get(namespace, &reference.name).map_or(0, |held| held.version));
        }
        Some(versions)
    }

    async fn find(&self, reference: &Reference) -> Result<Option<(std::sync::Arc<Resource>, Held)>, Problem> {
        let cluster = &self.shared.context.cluster;
        let fail = |error| Problem::refused(COMPOSE, &format!("cannot get {}", what(reference)), &error);
        let Some(resource) = cluster.resource(&reference.api_version, &reference.kind).await.map_err(fail)?
        else {
            return Ok(None);
        };
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let mirror = self.shared.dependencies.composed(&resource);
        // If it cannot be followed, it can perhaps be read.
        let _ = mirror.settled().await;
        if let Some(held) = mirror.get(namespace, &reference.name) {
            return Ok(Some((resource, held)));
        }
        // The mirror may be behind, or it lost the label by which it is mirrored. A function that is told that
        // something is gone may want everything else gone, too.
        let place = Place { resource: &resource, namespace, name: &reference.name };
        let Some(bytes) = cluster.get(place).await.map_err(fail)? else { return Ok(None) };
        let version = crate::head::Head::read(&bytes).map_or(0, |head| head.version());
        Ok(Some((resource.clone(), Held { bytes, version })))
    }

    /// What the connection secret of an object holds. Nothing if it has none.
    pub(super) async fn connection_details(
        &self,
        object: &Object,
    ) -> Result<BTreeMap<String, Bytes>, Problem> {
        let reference = object.get("spec").and_then(|spec| spec.get("writeConnectionSecretToRef"));
        let text = |key| reference.and_then(|reference| reference.get(key)?.as_str()).unwrap_or_default();
        let own = meta::namespace(object);
        let namespace = if own.is_empty() { text("namespace") } else { own };
        if text("name").is_empty() || namespace.is_empty() {
            return Ok(BTreeMap::new());
        }
        let data = secret_data(&self.shared, namespace, text("name")).await;
        let fail = |error| Problem::refused(COMPOSE, "cannot get a connection secret", &error);
        Ok(data.map_err(fail)?.unwrap_or_default())
    }

    /// The same of the composite resource itself. Only legacy ones have connection secrets.
    pub(super) async fn own_connection_details(
        &self,
        composite: &Object,
    ) -> Result<BTreeMap<String, Bytes>, Problem> {
        match self.layout {
            Layout::Legacy => self.connection_details(composite).await,
            Layout::Modern => Ok(BTreeMap::new()),
        }
    }
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
    cluster: &Cluster,
    object: &Object,
) -> Result<Option<std::sync::Arc<Resource>>, crate::cluster::Error> {
    cluster.resource(meta::api_version(object), meta::kind(object)).await
}
