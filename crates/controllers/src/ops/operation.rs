//! Operations: their pipelines run to completion, once.
//!
//! # Invariants
//! * No function is called before the API server has taken note that the pipeline runs. Whoever looks at an old state of the operation
//!   cannot write that, so that nothing runs twice at the same time.
//! * What is deleted or paused while it runs is broken off, between two calls or two writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{Change, Informer, ObjectPath, Subresource};
use ferroplane_engine::operation::{
    AttemptEnding, AttemptFailure, Begin, Concluded, begin, conclude, deleted_object_of, started,
};
use ferroplane_engine::{
    Event, EventKind, Inputs, Outcome, Plan, Reference, Subject, Wanted, chain, validate_operation,
};
use ferroplane_runner::drive;
use ferroplane_wire::Struct;
use serde_json::Value;
use tokio::sync::Notify;

use super::status::{replace_status, write_status};
use super::watched_resources::WatchedResources;
use crate::apiextensions::revision::capabilities;
use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::live_resources::LiveResources;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "operation/operation.ops.crossplane.io";
const CONCURRENCY: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_mins(2);
/// The field manager of what an operation applies ends with its UID.
const MANAGER_PREFIX: &str = "ops.crossplane.io/operation/";

/// Run all operations, until dropped.
pub(crate) async fn run(context: Arc<Context>, registry: Arc<FunctionRegistry>, operations: Arc<Informer>) {
    let controller = Arc::new(Controller {
        recorder: context.recorder.of(COMPONENT),
        context,
        registry,
        operations,
        running: Mutex::default(),
    });
    let queue = controller.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    queue.work(CONCURRENCY, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    registry: Arc<FunctionRegistry>,
    operations: Arc<Informer>,
    /// What is told to stop, by the names of the operations that run.
    running: Mutex<HashMap<String, Arc<Notify>>>,
}

/// What came of an attempt, as far as it went.
struct Attempt {
    ending: AttemptEnding,
    outcome: Option<Outcome>,
    applied: Vec<Reference>,
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let (controller, queue) = (Arc::downgrade(self), queue.clone());
        self.operations.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            let name = change.header().metadata.name.to_string();
            controller.tell_to_stop(&name, change);
            queue.add(name);
        });
    }

    /// Break an operation off that is deleted or paused while it runs.
    fn tell_to_stop(&self, name: &str, change: Change<'_>) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(stop) = running.filter(|_| is_to_stop(change)) {
            stop.notify_one();
        }
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(operation) = self.operations.object("", &name) else { return Next::Rest };
        match begin(&operation) {
            Begin::Ended | Begin::Paused => Next::Rest,
            Begin::GiveUp => {
                let attempt = Attempt { ending: AttemptEnding::GaveUp, outcome: None, applied: Vec::new() };
                self.conclude(operation, attempt).await
            }
            Begin::Run => {
                let cause = cause_of_writes(&operation);
                cause.scope(self.run(&name, operation)).await
            }
        }
    }

    async fn run(&self, name: &str, mut operation: Object) -> Next {
        let stop = Arc::new(Notify::new());
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), stop.clone());
        let _running = Running { controller: self, name };
        let status = started(&operation, &self.context.clock.now());
        if let Err(next) =
            replace_status(&self.context.cluster, &self.operations, &mut operation, status).await
        {
            return next;
        }
        let attempt = tokio::select! {
            attempt = tokio::time::timeout(ATTEMPT, self.attempt(&operation)) => attempt,
            // Whoever deleted it wants nothing more of it. What is paused is looked at again once it is not.
            () = stop.notified() => return Next::Rest,
        };
        let attempt = attempt.unwrap_or_else(|_| {
            let message = format!("the attempt took longer than {} s", ATTEMPT.as_secs());
            Attempt::failed(AttemptFailure::timeout(message), None)
        });
        self.conclude(operation, attempt).await
    }

    async fn attempt(&self, operation: &Object) -> Attempt {
        let outcome = match self.decide(operation).await {
            Ok(outcome) => outcome,
            Err(failure) => return Attempt::failed(failure, None),
        };
        match &outcome.result {
            Err(failure) => Attempt::failed(failure.into(), Some(outcome)),
            Ok(plan) => {
                let (applied, refused) = self.apply(operation, plan).await;
                let ending = refused.map_or(AttemptEnding::Succeeded, AttemptEnding::Failed);
                Attempt { ending, outcome: Some(outcome), applied }
            }
        }
    }

    /// Run the pipeline.
    async fn decide(&self, operation: &Object) -> Result<Outcome, AttemptFailure> {
        let spec = operation.get("spec").unwrap_or(&Value::Null);
        let callables = self.registry.current();
        let known = capabilities(&self.context, &self.registry);
        let pipeline = validate_operation(spec, &callables.catalogue, &known)
            .map_err(|invalid| AttemptFailure::invalid_pipeline(chain(&invalid), invalid.point()))?;
        let pipeline = callables
            .resolve(pipeline)
            .map_err(|unusable| AttemptFailure::invalid_pipeline(unusable.message, unusable.failure))?;
        let object = Struct::try_from(operation.clone()).map_err(|error| {
            let message = format!("cannot read the operation: {error}");
            AttemptFailure::invalid_pipeline(message, Cause::OperationInvalid.into())
        })?;
        let inputs = Inputs {
            subject: Subject::Operation { object },
            pipeline: Arc::new(pipeline),
            remembered: Vec::new(),
            context: None,
            grants: Arc::default(),
        };
        let live = LiveResources(&self.context.cluster);
        let resources = WatchedResources { live, gone: deleted_object_of(operation) };
        Ok(drive(inputs, &callables.directory, &resources).await)
    }

    /// Apply what is wanted, one after the other, up to the first that is refused. Returns what was applied.
    async fn apply(&self, operation: &Object, plan: &Plan) -> (Vec<Reference>, Option<AttemptFailure>) {
        let manager = format!("{MANAGER_PREFIX}{}", meta::uid(operation));
        let mut applied = Vec::new();
        for wanted in &plan.apply {
            if let Err(failure) = self.apply_one(wanted, &manager).await {
                return (applied, Some(failure));
            }
            applied.push(Reference::to(&wanted.object, true));
        }
        (applied, None)
    }

    async fn apply_one(&self, wanted: &Wanted, manager: &str) -> Result<(), AttemptFailure> {
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
        let written = cluster.apply(path, Subresource::None, manager, object).await;
        written.map(drop).map_err(|error| refused(chain(&error)))
    }

    /// Say what came of an attempt.
    async fn conclude(&self, mut operation: Object, attempt: Attempt) -> Next {
        let Attempt { ending, outcome, applied } = attempt;
        let (outputs, told) = outcome.map(|outcome| (outcome.outputs, outcome.events)).unwrap_or_default();
        let now = self.context.clock.now();
        let Concluded { status, events, retry_in } = conclude(&operation, ending, &outputs, &applied, &now);
        for event in told.iter().chain(&events) {
            self.say(&operation, event);
        }
        let written = write_status(&self.context.cluster, &self.operations, &mut operation, status).await;
        match (written, retry_in) {
            (Err(next), _) => next,
            (Ok(()), Some(pause)) => Next::After(pause),
            (Ok(()), None) => Next::Rest,
        }
    }

    fn say(&self, operation: &Object, event: &Event) {
        match (&event.failure, event.kind) {
            (Some(failure), _) => {
                self.recorder.failure(operation, &event.reason, event.detailed(), failure.clone());
            }
            (None, EventKind::Normal) => self.recorder.normal(operation, &event.reason, event.detailed()),
            (None, EventKind::Warning) => self.recorder.warning(operation, &event.reason, event.detailed()),
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.operations.stop();
    }
}

impl Attempt {
    fn failed(failure: AttemptFailure, outcome: Option<Outcome>) -> Self {
        Self { ending: AttemptEnding::Failed(failure), outcome, applied: Vec::new() }
    }
}

/// An operation that runs, until dropped.
struct Running<'a> {
    controller: &'a Controller,
    name: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.controller.running.lock().unwrap_or_else(PoisonError::into_inner).remove(self.name);
    }
}

/// Whether an operation that runs is to be broken off.
fn is_to_stop(change: Change<'_>) -> bool {
    let is_paused = || {
        let object = serde_json::from_slice::<Object>(&change.object().bytes);
        object.is_ok_and(|object| meta::annotation(&object, keys::PAUSED) == "true")
    };
    matches!(change, Change::Deleted { .. }) || change.header().is_being_deleted() || is_paused()
}
