//! Ends a usage: removes the mark of the object, and replays a deletion that was refused.

use std::sync::PoisonError;

use ferroplane_api::{Object, UsageSpec, keys, meta};
use ferroplane_client::{Error, ObjectPath, Propagation, Subresource};
use ferroplane_engine::{chain, used_by};
use serde_json::Value;
use tracing::{info, warn};

use super::{Controller, UsageFailure, UsageKey, is_within_reach, used_place};
use crate::runtime::queue::Next;

impl Controller {
    /// Each line must hold before the next may happen: as long as the finalizer exists, all of it can be repeated.
    pub(super) async fn release(
        &self,
        key: &UsageKey,
        usage: &Object,
        spec: &UsageSpec,
    ) -> Result<Next, UsageFailure> {
        let Some(released) = without_finalizer(usage) else { return Ok(Next::Rest) };
        if self.must_wait(key, usage, spec).await? {
            return Ok(Next::Rest);
        }
        self.let_go(key, usage, spec).await?;
        match self.context.cluster.replace(self.path(key), Subresource::None, &released).await {
            Err(error) if !error.is_not_found() => Err(UsageFailure::api("RemoveFinalizer")(error)),
            _ => Ok(Next::Rest),
        }
    }

    /// A composed usage is deleted together with its objects. It must not end before the object that uses the other one.
    async fn must_wait(
        &self,
        key: &UsageKey,
        usage: &Object,
        spec: &UsageSpec,
    ) -> Result<bool, UsageFailure> {
        const REASON: &str = "GetUsingResource";
        let reference = spec.by.as_ref().and_then(|by| Some((by, by.reference()?)));
        let Some((by, reference)) = reference.filter(|_| !meta::label(usage, keys::COMPOSITE).is_empty())
        else {
            return Ok(false);
        };
        let resource = self.context.cluster.resource(&by.api_version, &by.kind).await;
        // A kind that no longer exists has no objects.
        let Some(resource) = resource.map_err(UsageFailure::api(REASON))? else { return Ok(false) };
        let (namespace, name) = (meta::namespace(usage), &reference.name);
        let waits =
            self.waits.start(key, resource, namespace, name).await.map_err(UsageFailure::api(REASON))?;
        if waits {
            let message = format!("Waiting until {} `{name}`, which uses it, is deleted", by.kind);
            self.recorder(key).normal(usage, "WaitingUsingDeleted", message);
        }
        Ok(waits)
    }

    async fn let_go(&self, key: &UsageKey, usage: &Object, spec: &UsageSpec) -> Result<(), UsageFailure> {
        let is_last = self.is_last(key, usage);
        let Some((name, namespace)) = used_place(usage, spec).filter(|_| is_last) else { return Ok(()) };
        let (api_version, kind) = (&spec.of.api_version, &spec.of.kind);
        let resource = self.context.cluster.resource(api_version, kind).await;
        let resource = resource.map_err(UsageFailure::api("GetUsedResource"))?;
        // A usage has not marked objects that it may not refer to, and must not delete them.
        let Some(resource) = resource.filter(|resource| is_within_reach(usage, resource)) else {
            return Ok(());
        };
        let path = ObjectPath { resource: &resource, namespace, name };
        let used =
            self.context.cluster.get_object(path).await.map_err(UsageFailure::api("GetUsedResource"))?;
        let Some(used) = used else { return Ok(()) };
        if !meta::label(&used, keys::IN_USE).is_empty() {
            match self.set_mark(path, &used, &Value::Null).await {
                Err(error) if !error.is_not_found() => {
                    return Err(UsageFailure::api("RemoveInUseLabel")(error));
                }
                _ => {}
            }
        }
        if spec.replay_deletion == Some(true) {
            return self.replay(path, &used).await;
        }
        Ok(())
    }

    /// Whether no other usage protects the object. Of usages that end at the same time, one is the last.
    fn is_last(&self, key: &UsageKey, usage: &Object) -> bool {
        let mut releasing = self.releasing.lock().unwrap_or_else(PoisonError::into_inner);
        releasing.insert(key.clone());
        let usages = used_by(usage).map(|used| self.usages.of(&used)).unwrap_or_default();
        usages.iter().all(|other| releasing.contains(other))
    }

    /// Delete an object whose deletion was refused while it was in use. It is no longer marked, so that the webhook allows it.
    async fn replay(&self, path: ObjectPath<'_>, used: &Object) -> Result<(), UsageFailure> {
        let propagation = match meta::annotation(used, keys::DELETION_ATTEMPT) {
            "" => return Ok(()),
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            _ => Propagation::Background,
        };
        if meta::is_being_deleted(used) {
            return Ok(());
        }
        match self.context.cluster.delete(path, Some(meta::uid(used)), propagation).await {
            Ok(()) => info!(kind = path.resource.kind, name = path.name, "replayed a deletion"),
            // The API server refuses it for another reason, which is final.
            Err(Error::Refused(refusal)) if refusal.code < 500 => {
                warn!(
                    kind = path.resource.kind,
                    name = path.name,
                    error = chain(&refusal),
                    "cannot replay a deletion"
                );
            }
            Err(error) => return Err(UsageFailure::api("ReplayDeletion")(error)),
        }
        Ok(())
    }

    /// A usage was deleted.
    pub(super) fn forget(&self, key: &UsageKey) {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.waits.stop(key);
        self.watches.tidy(&self.usages);
    }
}

/// The usage without our finalizer, if it has it.
fn without_finalizer(usage: &Object) -> Option<Object> {
    let mut released = usage.clone();
    let finalizers = meta::child(&mut released, "metadata").get_mut("finalizers")?.as_array_mut()?;
    let count = finalizers.len();
    finalizers.retain(|finalizer| finalizer != keys::USAGE_FINALIZER);
    (finalizers.len() < count).then_some(released)
}
