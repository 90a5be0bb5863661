//! Applies the objects that an operation returns.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ObjectPath, Subresource};
use ferroplane_engine::operation::{
    AttemptEnding, AttemptFailure, due_removals, is_action_set, take_removals,
};
use ferroplane_engine::{Plan, Reference, Wanted, chain};
use serde_json::Value;

use super::{Controller, Progress};

/// The prefix of the field manager. The operation's UID follows.
const MANAGER_PREFIX: &str = "ops.crossplane.io/operation/";

impl Controller {
    /// Apply objects one after the other, up to the first that is refused, or until the attempt has to stop. Applied objects are
    /// recorded at once.
    pub(super) async fn apply(
        &self,
        operation: &Object,
        plan: &Plan,
        progress: &mut Progress,
    ) -> Result<AttemptEnding, AttemptFailure> {
        let manager = format!("{MANAGER_PREFIX}{}", meta::uid(operation));
        for wanted in &plan.apply {
            if progress.stop.is_requested() {
                return Ok(AttemptEnding::BrokenOff);
            }
            progress.stop.write(self.apply_one(operation, wanted, &manager)).await?;
            progress.applied.push(Reference::to(&wanted.object, true));
        }
        Ok(AttemptEnding::Succeeded)
    }

    async fn apply_one(
        &self,
        operation: &Object,
        wanted: &Wanted,
        manager: &str,
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
        let written = cluster.apply(path, Subresource::None, manager, &applied).await;
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
