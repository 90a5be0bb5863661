//! Finds the kind of a referenced object on the API server.
//!
//! # Invariants
//! * Group, kind and name identify an object. That the version of a reference is no longer served does not mean that its object is gone.
//! * A kind that is defined and not served has objects that cannot be read. They are not taken for deleted: they would be composed a
//!   second time, or forgotten.

use std::sync::Arc;

use ferroplane_api::{Cause, meta};
use ferroplane_client::{ObjectPath, Resource};
use ferroplane_engine::Reference;
use ferroplane_engine::composite::COMPOSE;

use super::Shared;
use super::observe::{unreadable_object, what};
use super::problem::Problem;

impl Shared {
    /// The kind that a reference is to, in its version or in another one. None if there is no such kind, and so no such object.
    pub(super) async fn referenced_kind(
        &self,
        reference: &Reference,
    ) -> Result<Option<Arc<Resource>>, Problem> {
        let cluster = &self.context.cluster;
        let fail = |error| unreadable_object(reference, &error);
        let named = cluster.resource(&reference.api_version, &reference.kind).await.map_err(fail)?;
        let group = meta::group(&reference.api_version);
        // The core group never had another version.
        if named.is_some() || group.is_empty() {
            return Ok(named);
        }
        let served = cluster.resources_of_group(group).await.map_err(fail)?;
        if let Some(other) = served.iter().find(|resource| resource.kind == reference.kind) {
            return Ok(Some(other.clone()));
        }
        if !self.is_defined(group, &reference.kind, &served).await.map_err(fail)? {
            return Ok(None);
        }
        let message = format!(
            "cannot get {}: its kind is defined, but the API server serves no version of it",
            what(reference)
        );
        Err(Problem::new(COMPOSE, Cause::ComposedKindUnavailable, message))
    }

    /// Whether there is a `CustomResourceDefinition` of a kind among those of which nothing is served.
    async fn is_defined(
        &self,
        group: &str,
        kind: &str,
        served: &[Arc<Resource>],
    ) -> Result<bool, ferroplane_client::Error> {
        let definitions = &self.context.kinds;
        for name in definitions.names() {
            let plural = name.split_once('.').filter(|(_, of)| *of == group).map(|(plural, _)| plural);
            let Some(plural) = plural else { continue };
            if served.iter().any(|resource| resource.plural == plural) {
                continue;
            }
            // Only the metadata of definitions is cached.
            let path = ObjectPath { resource: definitions.resource(), namespace: "", name: &name };
            let definition = self.context.cluster.get_object(path).await?;
            let names = definition.as_ref().and_then(|definition| definition.get("spec")?.get("names"));
            if names.is_some_and(|names| names["kind"] == kind) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
