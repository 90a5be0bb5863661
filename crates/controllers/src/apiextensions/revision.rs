//! Validates the pipelines of CompositionRevisions.
//!
//! Composite resources use no revision that was not found to be valid.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Condition, Object, RolloutTarget, Status, keys, meta, set_condition};
use ferroplane_client::{Change, ObjectPath, Subresource};
use ferroplane_engine::rollout::target_of;
use ferroplane_engine::{
    Capabilities, InvalidPipeline, VersionWarning, chain, conditions_in, conditions_to_json, functions_of,
    pipeline_condition, validate_pipeline, version_warnings, versions_condition,
};
use serde_json::Value;
use tracing::warn;

use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "revision/compositionrevision.apiextensions.crossplane.io";
const REASON: &str = "CheckCapabilities";
const CONCURRENCY: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Validate all revisions, until dropped.
pub(crate) async fn run(context: Arc<Context>, registry: Arc<FunctionRegistry>) {
    let controller = Arc::new(Controller {
        recorder: context.recorder.of(COMPONENT),
        context,
        registry,
        callers: Mutex::default(),
        capabilities: Mutex::default(),
    });
    let queue = controller.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    queue.work(CONCURRENCY, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    registry: Arc<FunctionRegistry>,
    /// The names of revisions, by the functions that they have called.
    callers: Mutex<HashMap<String, BTreeSet<String>>>,
    /// A cache of the capabilities of all functions.
    capabilities: Mutex<Option<Arc<Capabilities>>>,
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let (controller, revisions) = (Arc::downgrade(self), queue.clone());
        self.context.revisions.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            controller.note(change);
            revisions.add(change.header().metadata.name.to_string());
        });
        let (controller, revisions) = (Arc::downgrade(self), queue.clone());
        self.context.function_revisions.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            *controller.capabilities.lock().unwrap_or_else(PoisonError::into_inner) = None;
            for caller in controller.callers_of(change.header().label(keys::PACKAGE).unwrap_or_default()) {
                revisions.add(caller);
            }
        });
        let (controller, revisions) = (Arc::downgrade(self), queue.clone());
        self.context.functions.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            // A built-in function may start or stop to replace it.
            *controller.capabilities.lock().unwrap_or_else(PoisonError::into_inner) = None;
            for caller in controller.callers_of(&change.header().metadata.name) {
                revisions.add(caller);
            }
        });
        let (controller, revisions) = (Arc::downgrade(self), queue.clone());
        self.context.rollouts.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            // Steps that name no revision call the stable one of a rollout.
            let Ok(rollout) = serde_json::from_slice::<Object>(&change.object().bytes) else { return };
            let RolloutTarget::Function(function) = target_of(&rollout) else { return };
            for caller in controller.callers_of(function) {
                revisions.add(caller);
            }
        });
    }

    /// Record the functions of a revision.
    fn note(&self, change: Change<'_>) {
        let Ok(revision) = serde_json::from_slice::<Object>(&change.object().bytes) else { return };
        let functions = functions_of(revision.get("spec").unwrap_or(&Value::Null));
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        for function in functions {
            let name = meta::name(&revision);
            match change {
                Change::Applied { .. } => {
                    callers.entry(function).or_default().insert(name.to_owned());
                }
                Change::Deleted { .. } => {
                    callers.entry(function).or_default().remove(name);
                }
            }
        }
    }

    fn callers_of(&self, function: &str) -> Vec<String> {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.get(function).into_iter().flatten().cloned().collect()
    }

    fn capabilities(&self) -> Arc<Capabilities> {
        let mut capabilities = self.capabilities.lock().unwrap_or_else(PoisonError::into_inner);
        capabilities
            .get_or_insert_with(|| Arc::new(self::capabilities(&self.context, &self.registry)))
            .clone()
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(mut revision) = self.context.revisions.object("", &name) else { return Next::Rest };
        if meta::is_being_deleted(&revision) {
            return Next::Rest;
        }
        let spec = revision.get("spec").unwrap_or(&Value::Null);
        let catalogue = &self.registry.current().catalogue;
        let verdict = validate_pipeline(spec, catalogue, &self.capabilities());
        let warnings = version_warnings(spec, catalogue);
        if !self.conclude(&mut revision, &verdict, &warnings) {
            return Next::Rest;
        }
        let path = ObjectPath { resource: self.context.revisions.resource(), namespace: "", name: &name };
        match self.context.cluster.replace(path, Subresource::Status, &revision).await {
            Ok(bytes) => {
                self.context.revisions.insert_written(&bytes);
                self.say(&revision, &verdict, &warnings);
                Next::Rest
            }
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) if error.is_not_found() => Next::Rest,
            Err(error) => {
                warn!(revision = name, error = chain(&error), "cannot write the status of a revision");
                Next::Retry
            }
        }
    }

    /// Write the result to the revision. Returns whether it changed.
    fn conclude(
        &self,
        revision: &mut Object,
        verdict: &Result<(), InvalidPipeline>,
        warnings: &[VersionWarning],
    ) -> bool {
        let generation = meta::generation(revision);
        let status = meta::child(revision, "status");
        let before = conditions_in(status.get("conditions").unwrap_or(&Value::Null));
        let mut conditions = before.clone();
        let synced = Condition::new("Synced", Status::True, "ReconcileSuccess");
        let versions = versions_condition(warnings, &before);
        for mut condition in [synced, pipeline_condition(verdict)].into_iter().chain(versions) {
            condition.last_transition_time = self.context.clock.now();
            condition.observed_generation = generation;
            set_condition(&mut conditions, condition);
        }
        status.insert("conditions".to_owned(), conditions_to_json(&conditions).into());
        let said = status.remove("warnings");
        let warnings: Vec<_> = warnings.iter().map(VersionWarning::to_json).collect();
        let warnings = (!warnings.is_empty()).then_some(Value::Array(warnings));
        let is_news = conditions != before || said != warnings;
        if let Some(warnings) = warnings {
            status.insert("warnings".to_owned(), warnings);
        }
        is_news
    }

    fn say(&self, revision: &Object, verdict: &Result<(), InvalidPipeline>, warnings: &[VersionWarning]) {
        for warning in warnings {
            self.recorder.warning(revision, warning.reason, warning.to_string());
        }
        match verdict {
            Ok(()) => self.recorder.normal(revision, REASON, "All functions can be used to compose"),
            Err(invalid) => self.recorder.failure(revision, REASON, chain(invalid), invalid.point()),
        }
    }
}

/// The capabilities of all functions.
pub(crate) fn capabilities(context: &Context, registry: &FunctionRegistry) -> Capabilities {
    let revisions = context.function_revisions.objects();
    // Last, so that a package cannot replace those of a built-in function: of two with the same name, the last one
    // counts.
    let built_in = registry.built_in_capabilities().clone();
    revisions.iter().filter_map(capabilities_of).chain(built_in).collect()
}

/// The capabilities of a revision of a function. None if its package was not read yet.
pub(crate) fn capabilities_of(revision: &Object) -> Option<(String, Vec<String>)> {
    let capabilities = revision.get("status")?.get("capabilities")?.as_array()?;
    let capabilities = capabilities.iter().filter_map(Value::as_str).map(str::to_owned);
    Some((meta::name(revision).to_owned(), capabilities.collect()))
}
