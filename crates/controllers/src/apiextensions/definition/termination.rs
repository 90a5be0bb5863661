//! Deletes a definition: first its objects, then their controller, then their kind.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use ferroplane_api::{Object, meta};
use ferroplane_client::{Informer, InformerScope, ObjectHeader, ObjectPath, Query, Resource};
use ferroplane_engine::{defined_group, is_reserved_group};
use serde_json::Value;

use super::definer::Definer;
use super::report::{DefinitionFailure, DefinitionState};
use super::side::Side;
use crate::runtime::finalizers;

impl<S: Side> Definer<S> {
    pub(super) async fn terminate(&self, xrd: &mut Object) -> Result<DefinitionState, DefinitionFailure> {
        if !finalizers::has(xrd, S::WORDS.finalizer) {
            self.forget(meta::name(xrd));
            return Ok(DefinitionState::Idle);
        }
        let crd = match self.definition_name(xrd) {
            Some(name) => self.kinds.owned(xrd, &name).await?,
            None => None,
        };
        // It is gone, never existed, or has another controller by now, which has to manage it.
        let Some(crd) = crd else { return self.let_go(xrd).await };
        if let Some(others) = S::comes_after(xrd) {
            self.say_waiting(xrd, others);
            return Ok(DefinitionState::Terminating);
        }
        // In a reserved group the objects do not belong to this definition, even if an earlier release accepted it.
        if !is_reserved_group(defined_group(&crd)) && !self.clear(xrd, resource(&crd)).await? {
            self.say_waiting(xrd, S::WORDS.objects);
            return Ok(DefinitionState::Terminating);
        }
        // The controller of a kind that is no longer served would only log errors.
        self.side.stop(meta::name(xrd));
        self.unfollow(meta::name(xrd));
        if !meta::is_being_deleted(&crd) {
            self.kinds.delete(&crd).await?;
            let message = format!("Deleted the CustomResourceDefinition {}", meta::name(&crd));
            self.recorder.normal(xrd, S::WORDS.terminate, message);
        }
        Ok(DefinitionState::Terminating)
    }

    /// Nothing is left of this side: remove the finalizer.
    async fn let_go(&self, xrd: &mut Object) -> Result<DefinitionState, DefinitionFailure> {
        self.forget(meta::name(xrd));
        let resource = self.context.definitions.resource().clone();
        let name = meta::name(xrd).to_owned();
        let path = ObjectPath { resource: &resource, namespace: "", name: &name };
        let released = finalizers::remove(&self.context.cluster, path, xrd, S::WORDS.finalizer).await;
        self.take_in(xrd, released.map_err(DefinitionFailure::doing("remove the finalizer"))?);
        Ok(DefinitionState::Idle)
    }

    /// Delete all objects of the kind. Returns whether none is left.
    async fn clear(&self, xrd: &Object, kind: Resource) -> Result<bool, DefinitionFailure> {
        let informer = self.follow(meta::name(xrd), kind);
        if informer.synced_or_failed().await.is_err() {
            return self.is_empty(informer.resource()).await;
        }
        let objects = informer.all();
        let headers: Vec<_> = objects.iter().filter_map(|object| ObjectHeader::read(&object.bytes)).collect();
        if headers.is_empty() {
            // The cache may lack an object that was just created.
            return self.is_empty(informer.resource()).await;
        }
        self.keep_running(xrd);
        let left = headers.iter().filter(|header| !header.is_being_deleted());
        let namespaces: BTreeSet<_> = left.map(|header| header.metadata.namespace.as_ref()).collect();
        for namespace in namespaces {
            let deleted = self.context.cluster.delete_all(informer.resource(), namespace).await;
            deleted.map_err(DefinitionFailure::doing("delete the objects of the defined kind"))?;
        }
        Ok(false)
    }

    /// Objects need their controller to be deleted. After a restart it does not run yet.
    fn keep_running(&self, xrd: &Object) {
        if !self.side.is_running(meta::name(xrd))
            && let Ok(Some(defined)) = S::derive(xrd)
        {
            self.side.start(xrd, &defined);
        }
    }

    async fn is_empty(&self, kind: &Resource) -> Result<bool, DefinitionFailure> {
        let query = Query { limit: Some(1), ..Query::default() };
        match self.context.cluster.list(kind, "", &query).await {
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(DefinitionFailure::doing("list the objects of the defined kind")(error)),
            Ok(page) => Ok(page.is_empty()),
        }
    }

    /// Watch the objects of a definition that is being deleted: it is reconciled when the last one is gone.
    fn follow(&self, xrd: &str, kind: Resource) -> Arc<Informer> {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(informer) = going.get(xrd) {
            return informer.clone();
        }
        let scope = InformerScope { metadata_only: true, ..InformerScope::new(kind.into()) };
        let informer = Informer::start(self.context.cluster.clone(), scope);
        let (queue, name) = (self.queue.clone(), xrd.to_owned());
        informer.listen(move |_, _| queue.add(name.clone()));
        going.insert(xrd.to_owned(), informer.clone());
        informer
    }

    pub(super) fn unfollow(&self, xrd: &str) {
        let informer = self.going.lock().unwrap_or_else(PoisonError::into_inner).remove(xrd);
        if let Some(informer) = informer {
            informer.stop();
        }
    }

    /// The name of the `CustomResourceDefinition`. The definition may no longer have it.
    fn definition_name(&self, xrd: &Object) -> Option<String> {
        let said = S::definition_name(xrd);
        said.or_else(|| {
            let all = self.context.kinds.all();
            all.iter().find_map(|kind| {
                let header = ObjectHeader::read(&kind.bytes)?;
                let is_ours = header.controller().is_some_and(|owner| owner.uid == meta::uid(xrd));
                (is_ours && header.metadata.name != meta::name(xrd))
                    .then(|| header.metadata.name.into_owned())
            })
        })
    }

    fn say_waiting(&self, xrd: &Object, what: &str) {
        self.recorder.normal(xrd, S::WORDS.terminate, format!("Waiting until all {what} are deleted"));
    }
}

/// The resource of a kind as it is served, whatever the definition says by now.
fn resource(crd: &Object) -> Resource {
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let served = || {
        let versions = spec["versions"].as_array().into_iter().flatten();
        versions.filter(|version| version["served"] == true)
    };
    let version = served().find(|version| version["storage"] == true).or_else(|| served().next());
    let version = version.map(|version| text(&version["name"])).unwrap_or_default();
    Resource {
        api_version: format!("{}/{version}", text(&spec["group"])),
        kind: text(&spec["names"]["kind"]),
        plural: text(&spec["names"]["plural"]),
        is_namespaced: spec["scope"] == "Namespaced",
    }
}
