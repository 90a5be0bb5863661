//! Applies the objects that an operation returns.
//!
//! # Invariants
//! * Nothing is applied before the status of the operation names it.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ObjectPath, Subresource};
use ferroplane_engine::operation::{
    AttemptEnding, AttemptFailure, Begin, applying, begin, due_removals, is_action_set, is_concluded,
    take_removals, unrecorded,
};
use ferroplane_engine::{Plan, Reference, Wanted, chain};
use serde_json::Value;

use super::{Controller, Progress, WRITE_PAUSES};
use crate::ops::status::{NotWritten, write_changed_status};
use crate::runtime::queue::Next;

/// The prefix of the field manager. The operation's UID follows.
const MANAGER_PREFIX: &str = "ops.crossplane.io/operation/";

impl Controller {
    /// Record references to all objects, then apply the objects one after the other, up to the first that is refused, or until the
    /// attempt has to stop. Applied objects are noted at once.
    pub(super) async fn apply(
        &self,
        operation: &Object,
        plan: &Plan,
        progress: &mut Progress,
    ) -> Result<AttemptEnding, AttemptFailure> {
        progress.recorded = self.never_applied(operation, plan).await?;
        if let Some(ending) = self.record(operation, plan, progress).await? {
            return Ok(ending);
        }
        let manager = format!("{MANAGER_PREFIX}{}", meta::uid(operation));
        for wanted in &plan.apply {
            if progress.stop.is_requested() {
                return Ok(AttemptEnding::BrokenOff);
            }
            let Progress { applied, stop, .. } = &mut *progress;
            stop.write(self.apply_one(operation, wanted, &manager, applied)).await?;
        }
        Ok(AttemptEnding::Succeeded)
    }

    /// Record references to the objects of a plan in the status. If another client has changed the operation meanwhile, it is read again.
    /// Returns the ending of the attempt if nothing may be applied.
    async fn record(
        &self,
        operation: &Object,
        plan: &Plan,
        progress: &mut Progress,
    ) -> Result<Option<AttemptEnding>, AttemptFailure> {
        let new = unrecorded(operation, &plan.references);
        if new.is_empty() {
            return Ok(None);
        }
        // Before the write: the attempt may be cut off while it is unknown whether it was stored.
        progress.recorded.extend(new);
        let mut current = operation.clone();
        let mut pauses = WRITE_PAUSES.into_iter();
        loop {
            let status = applying(&current, &plan.references);
            let written =
                write_changed_status(&self.context.cluster, &self.operations, &mut current, status).await;
            let next = match written {
                Ok(()) => {
                    progress.recorded_in = Some(current);
                    return Ok(None);
                }
                Err(NotWritten::TooLarge) => return Ok(Some(AttemptEnding::TooLarge)),
                Err(NotWritten::Later(next)) => next,
            };
            current = match self.read_again(operation, &mut pauses, next).await {
                Ok(current) if self.may_go_on(operation, &current) => current,
                // It was deleted or paused, or another replica has run it.
                Ok(_) | Err(Next::Rest) => return Ok(Some(AttemptEnding::BrokenOff)),
                Err(_) => return Err(AttemptFailure::not_recorded()),
            };
        }
    }

    /// Whether an attempt may go on after another client has changed its operation.
    fn may_go_on(&self, during: &Object, current: &Object) -> bool {
        begin(current, &self.context.clock.now()) == Begin::Run && !is_concluded(during, current)
    }

    /// Apply an object. It is noted as applied unless the API server has certainly not stored it.
    async fn apply_one(
        &self,
        operation: &Object,
        wanted: &Wanted,
        manager: &str,
        noted: &mut Vec<Reference>,
    ) -> Result<(), AttemptFailure> {
        let Wanted { resource, step, object, .. } = wanted;
        let refused = |words: String| {
            let message = format!("cannot apply resource `{resource}` of step `{step}`: {words}");
            AttemptFailure::not_applied(message, step, resource)
        };
        let cluster = &self.context.composer;
        let (api_version, kind) = (meta::api_version(object), meta::kind(object));
        let found = cluster.resource(api_version, kind).await.map_err(|error| refused(chain(&error)))?;
        let Some(found) = found else {
            return Err(refused(format!("there is no kind {kind} in {api_version}: is it installed?")));
        };
        let namespace = if found.is_namespaced { meta::namespace(object) } else { "" };
        let path = ObjectPath { resource: &found, namespace, name: meta::name(object) };
        if is_action_set(object) {
            let present = cluster.get_object(path).await.map_err(|error| refused(chain(&error)))?;
            if let Some(other) = present.filter(|it| meta::controller_uid(it) != Some(meta::uid(operation))) {
                return Err(refused(taken(&other)));
            }
        }
        let mut applied = object.clone();
        let removals = take_removals(&mut applied);
        // Before the write, which can be cut off.
        noted.push(Reference::to(object, true));
        let written = cluster.apply(path, Subresource::None, manager, &applied).await;
        if written.as_ref().is_err_and(|error| !error.is_inconclusive()) {
            noted.pop();
        }
        let written = written.map_err(|error| refused(chain(&error)))?;
        let Some(removals) = removals else { return Ok(()) };
        let live: Object = serde_json::from_slice(&written).map_err(|error| refused(chain(&error)))?;
        let Some(due) = due_removals(&removals, &live) else { return Ok(()) };
        let removed = cluster.merge(path, Subresource::None, &due.into()).await;
        removed.map(drop).map_err(|error| refused(chain(&error)))
    }
}

/// Why an ActionSet that exists is not applied: it runs once, and its result is that of its own operation.
fn taken(action_set: &Object) -> String {
    let owner = meta::controller(action_set).map(|owner| {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        format!("{} `{}` owns it", text("kind"), text("name"))
    });
    let owner = owner.unwrap_or_else(|| "it does not belong to this operation".to_owned());
    format!(
        "ActionSet `{}/{}` exists already, and {owner}; with `metadata.generateName` each operation has its own",
        meta::namespace(action_set),
        meta::name(action_set)
    )
}
