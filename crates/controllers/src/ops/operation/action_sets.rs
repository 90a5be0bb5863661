//! Waits for the ActionSets that an operation has applied.

use std::sync::{Arc, OnceLock};

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{Change, Informer, ObjectPath, Subresource};
use ferroplane_engine::operation::{
    ActionSetResult, AppliedActionSet, AttemptFailure, Awaited, Standing, action_set_result,
    applied_action_sets, await_action_sets, other_action_sets,
};
use ferroplane_engine::{Plan, Reference, chain};
use serde_json::json;
use tracing::warn;

use super::Controller;
use crate::blueprints;
use crate::context::Context;
use crate::ops::status::write_changed_status;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;

/// The watch that requeues operations when their ActionSets change. It begins with the first operation that waits: most control planes
/// have none.
pub(super) struct ActionSetWatch {
    /// The watch of the controller that runs ActionSets, if they run here.
    shared: Option<Arc<Informer>>,
    started: OnceLock<Arc<Informer>>,
    queue: Queue<String>,
}

impl ActionSetWatch {
    pub(super) fn new(shared: Option<Arc<Informer>>, queue: Queue<String>) -> Self {
        Self { shared, started: OnceLock::new(), queue }
    }

    fn informer(&self, context: &Context) -> &Informer {
        self.started.get_or_init(|| {
            let informer = self.shared.clone().unwrap_or_else(|| blueprints::action_sets(context));
            let queue = self.queue.clone();
            informer.listen(move |_, change| requeue_owner(&queue, change));
            informer
        })
    }

    pub(super) fn stop(&self) {
        if let Some(informer) = self.started.get() {
            informer.stop();
        }
    }
}

fn requeue_owner(queue: &Queue<String>, change: Change<'_>) {
    let owners = change.header().metadata.owner_references.iter().flatten();
    let mut operations = owners.filter(|owner| owner.controller == Some(true) && owner.kind == "Operation");
    if let Some(operation) = operations.find(|owner| meta::group(&owner.api_version) == keys::OPS) {
        queue.add(operation.name.to_string());
    }
}

impl Controller {
    /// End an operation whose pipeline has ended once its ActionSets have ended.
    pub(super) async fn await_action_sets(&self, mut operation: Object) -> Next {
        let informer = self.action_sets.informer(&self.context);
        informer.synced_or_refused().await;
        let mut results = Vec::new();
        for action_set in applied_action_sets(&operation) {
            match self.find(informer, &operation, &action_set).await {
                Ok(found) => {
                    results.push((action_set, action_set_result(&operation, found.as_ref())));
                }
                Err(next) => return next,
            }
        }
        let Awaited { cancel, concluded } =
            await_action_sets(&operation, &results, &self.context.clock.now());
        for action_set in &cancel {
            self.cancel(informer, &operation, action_set).await;
        }
        let written =
            write_changed_status(&self.context.cluster, &self.operations, &mut operation, concluded.status);
        if let Err(not_written) = written.await {
            return not_written.into();
        }
        for event in &concluded.events {
            self.say(&operation, event);
        }
        if concluded.standing != Standing::Running {
            self.context.metrics.count_operation(&operation, concluded.standing == Standing::Succeeded);
            return Next::Rest;
        }
        // Nothing requeues it if ActionSets cannot be watched.
        let otherwise = if informer.refusal().is_some() { Next::Retry } else { Next::Rest };
        concluded.retry_in.map_or(otherwise, Next::After)
    }

    /// The ActionSets that an earlier attempt has recorded, that this one does not want, and that do not exist. The process ended before they
    /// were applied, so that there is nothing to wait for.
    pub(super) async fn never_applied(
        &self,
        operation: &Object,
        plan: &Plan,
    ) -> Result<Vec<Reference>, AttemptFailure> {
        let mut never_applied = other_action_sets(operation, &plan.references);
        if never_applied.is_empty() {
            return Ok(never_applied);
        }
        let informer = self.action_sets.informer(&self.context);
        let mut present = Vec::new();
        for reference in &never_applied {
            let found = self.find(informer, operation, &reference.clone().into()).await;
            let found = found.map_err(|_| AttemptFailure::not_recorded())?;
            present.push(action_set_result(operation, found.as_ref()) != ActionSetResult::Gone);
        }
        let mut present = present.into_iter();
        never_applied.retain(|_| present.next() == Some(false));
        Ok(never_applied)
    }

    /// An ActionSet of an operation. It is read from the API server unless the cache has it: the watch may be late.
    async fn find(
        &self,
        informer: &Informer,
        operation: &Object,
        AppliedActionSet { namespace, name }: &AppliedActionSet,
    ) -> Result<Option<Object>, Next> {
        let cached = informer.object(namespace, name);
        if let Some(own) = cached.filter(|it| meta::controller_uid(it) == Some(meta::uid(operation))) {
            return Ok(Some(own));
        }
        let path = ObjectPath { resource: informer.resource(), namespace, name };
        self.context.cluster.get_object(path).await.map_err(|error| {
            warn!(namespace, name, error = chain(&error), "cannot read an ActionSet of an operation");
            Next::Retry
        })
    }

    /// Cancel an ActionSet whose operation has reached its deadline. The operation fails even if that is refused.
    async fn cancel(&self, informer: &Informer, operation: &Object, action_set: &AppliedActionSet) {
        let AppliedActionSet { namespace, name } = action_set;
        let path = ObjectPath { resource: informer.resource(), namespace, name };
        let cancelled = json!({"metadata": {"annotations": {keys::CANCEL: "true"}}});
        let merged = self.context.cluster.merge(path, Subresource::None, &cancelled).await;
        if let Err(error) = merged.map(drop)
            && !error.is_not_found()
        {
            let message = format!("cannot cancel ActionSet {action_set}: {}", chain(&error));
            self.recorder.failure(operation, "CancelActionSet", message, cause_of(&error));
        }
    }
}
