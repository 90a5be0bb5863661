//! Operations: their pipelines run to completion, once.
//!
//! # Invariants
//! * No function is called before the API server has stored that the pipeline runs. A replica with an old state of the operation cannot
//!   write that, so that nothing runs twice at the same time.
//! * An operation that is deleted or paused while it runs is aborted, between two calls or two writes. That counts as no attempt.
//! * Between two attempts there is a pause, however often the operation is written meanwhile.
//! * Every attempt that ends is counted, however it ends: also if it times out or panics. So is one that ends with the process.
//! * Objects are recorded before they are applied: whatever ends an attempt, the status names all that were.
//! * An operation whose result the API server does not store fails once, with a small status that says so.
//! * Operations of users, of schedules and of watches take turns: those that are due in great numbers do not delay the others.
//! * An operation that has applied ActionSets ends when they have ended, and occupies no worker meanwhile.

mod action_sets;
mod apply;
mod begun;
mod pauses;
mod stop;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferroplane_api::{Cause, Condition, Object, keys, meta};
use ferroplane_client::{Change, Informer, ObjectHeader, ObjectPath};
use ferroplane_engine::operation::{
    Attempt, AttemptEnding, AttemptFailure, Begin, CRON_LABEL, Concluded, Standing, WATCH_LABEL,
    attempt_limit, begin, check_results, conclude, deleted_object_of, has_begun, is_concluded, restarted,
    started,
};
use ferroplane_engine::{
    Event, EventKind, Inputs, InvalidPipeline, Outcome, Pipeline, Reference, StepOutput, Subject, chain,
    pipeline_condition, validate_operation,
};
use ferroplane_recorder::{Ending, RecordingBuilder};
use ferroplane_runner::drive_noting;
use ferroplane_wire::Struct;
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;
use tracing::{Instrument as _, Span, debug_span, error, field, warn};

use super::status::{NotWritten, replace_status, write_changed_status};
use super::watched_resources::WatchedResources;
use crate::apiextensions::grants::GrantCache;
use crate::apiextensions::revision::capabilities;
use crate::context::Context;
use crate::function_registry::{CallableFunctions, FunctionRegistry};
use crate::live_resources::LiveResources;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue, Slot};
use action_sets::ActionSetWatch;
use begun::Begun;
use pauses::Pauses;
use stop::Stop;

const COMPONENT: &str = "operation/operation.ops.crossplane.io";
/// Most of an attempt is waiting for two or three durable writes, which the API server commits together if they come together.
const CONCURRENCY: usize = 32;
/// How many attempts may wait for functions that take long, beside those that have just begun. Each holds its pipeline and its objects.
const WAITING: usize = 512;
/// The lane of operations that no schedule and no watch has made. Those of schedules and of watches have one each.
const OF_USERS: usize = 0;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The pauses before the result of an attempt is written again.
const WRITE_PAUSES: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4)];

/// Run all operations, until dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    registry: Arc<FunctionRegistry>,
    operations: Arc<Informer>,
    action_sets: Option<Arc<Informer>>,
) {
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let controller = Arc::new(Controller {
        recorder: context.recorder.of(COMPONENT),
        grants: GrantCache::new(&context.grants),
        context,
        registry,
        operations,
        action_sets: ActionSetWatch::new(action_sets, queue.clone()),
        running: Mutex::default(),
        waiting: Semaphore::new(WAITING),
        pauses: Pauses::default(),
        begun: Begun::default(),
    });
    controller.listen(&queue);
    queue.work_in_slots(CONCURRENCY, |name, slot| controller.clone().reconcile(name, slot)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    registry: Arc<FunctionRegistry>,
    grants: Arc<GrantCache>,
    operations: Arc<Informer>,
    action_sets: ActionSetWatch,
    /// Notifies running operations to stop, by name.
    running: Mutex<HashMap<String, Arc<Stop>>>,
    /// The places of attempts that take long.
    waiting: Semaphore,
    pauses: Pauses,
    begun: Begun,
}

/// An attempt, with its events.
struct Told {
    attempt: Attempt,
    events: Vec<Event>,
}

/// What was written of an attempt.
struct Written {
    retry_in: Option<Duration>,
    standing: Standing,
}

/// The progress of an attempt. It is kept outside of the attempt: applied objects are recorded even if the attempt is aborted.
#[derive(Default)]
struct Progress {
    validity: Option<Condition>,
    outputs: Vec<StepOutput>,
    /// The references that the status has before anything is applied.
    recorded: Vec<Reference>,
    /// The operation with these references, as the API server has stored it.
    recorded_in: Option<Object>,
    applied: Vec<Reference>,
    events: Vec<Event>,
    stop: Arc<Stop>,
}

impl Progress {
    fn end(self, ending: AttemptEnding) -> Told {
        let Self { validity, outputs, recorded, applied, events, .. } = self;
        Told { attempt: Attempt { ending, validity, outputs, recorded, applied }, events }
    }
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let (controller, queue) = (Arc::downgrade(self), queue.clone());
        self.operations.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            let name = change.header().metadata.name.to_string();
            controller.cancel_deleted_or_paused(&name, change);
            queue.add_to(lane_of(change.header()), name);
        });
    }

    /// Cancel an operation that is deleted or paused while it runs.
    fn cancel_deleted_or_paused(&self, name: &str, change: Change<'_>) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(stop) = running.filter(|_| is_to_stop(change)) {
            stop.request();
        }
    }

    async fn reconcile(self: Arc<Self>, name: String, slot: Slot) -> Next {
        let Some(operation) = self.operations.object("", &name) else {
            self.pauses.forget(&name);
            self.begun.forget(&name);
            return Next::Rest;
        };
        match begin(&operation, &self.context.clock.now()) {
            Begin::Ended | Begin::Paused => Next::Rest,
            Begin::Await => {
                let cause = cause_of_writes(&operation);
                cause.scope(self.await_action_sets(operation)).await
            }
            Begin::GiveUp => {
                let told = Progress::default().end(AttemptEnding::GaveUp);
                self.conclude(&operation, told, &mut RecordingBuilder::off()).await
            }
            Begin::Run => {
                if let Some(left) = self.pauses.left(&operation) {
                    return Next::After(left);
                }
                let span = span_of(&operation);
                let cause = cause_of_writes(&operation);
                cause.scope(self.run(&name, operation, &slot).instrument(span)).await
            }
        }
    }

    async fn run(&self, name: &str, mut operation: Object, slot: &Slot) -> Next {
        let stop = Arc::new(Stop::default());
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), stop.clone());
        let _running = Running { controller: self, name };
        let now = self.context.clock.now();
        let is_interrupted = has_begun(&operation) && !self.begun.has(&operation);
        let status = if is_interrupted { restarted(&operation, &now) } else { started(&operation, &now) };
        match replace_status(&self.context.cluster, &self.operations, &mut operation, status).await {
            Ok(()) => self.begun.note(&operation),
            Err(NotWritten::TooLarge) => {
                let told = Progress::default().end(AttemptEnding::TooLarge);
                return self.conclude(&operation, told, &mut RecordingBuilder::off()).await;
            }
            Err(NotWritten::Later(next)) => return next,
        }
        let (recordings, clock) = (&self.context.recordings, &self.context.clock);
        let mut recording = recordings.begin(&operation, clock.milliseconds());
        let began_at = Instant::now();
        let mut progress = Progress { stop: stop.clone(), ..Progress::default() };
        // A function that hangs must not delay the calls of others, unless hundreds of them do.
        let attempt = Box::pin(self.within_limits(&operation, &mut recording, &mut progress));
        let ending =
            stop.limit(slot.wait_among(&self.waiting, attempt)).await.unwrap_or(AttemptEnding::BrokenOff);
        let operation = progress.recorded_in.take().unwrap_or(operation);
        if matches!(ending, AttemptEnding::BrokenOff) {
            return self.break_off(&operation, progress).await;
        }
        let next = self.conclude(&operation, progress.end(ending), &mut recording).await;
        let ending = if next == Next::Conflict { Ending::Conflict } else { Ending::Succeeded };
        recording.end(ending, began_at.elapsed().as_micros());
        recordings.keep(recording);
        next
    }

    /// End an aborted attempt. A deleted operation gets no report. A paused one is reconciled again when it is resumed.
    async fn break_off(&self, operation: &Object, progress: Progress) -> Next {
        let now = self.operations.object("", meta::name(operation));
        let is_left =
            now.is_some_and(|now| meta::uid(&now) == meta::uid(operation) && !meta::is_being_deleted(&now));
        if !is_left && progress.recorded.is_empty() && progress.applied.is_empty() {
            return Next::Rest;
        }
        // A paused one, too: otherwise a restart before it is resumed would count as an interruption.
        let told = progress.end(AttemptEnding::BrokenOff);
        self.conclude(operation, told, &mut RecordingBuilder::off()).await
    }

    /// Make an attempt, with its timeout.
    async fn within_limits(
        &self,
        operation: &Object,
        recording: &mut RecordingBuilder,
        progress: &mut Progress,
    ) -> AttemptEnding {
        let limit = attempt_limit(operation, &self.context.clock.now());
        let attempt = AssertUnwindSafe(self.attempt(operation, recording, progress)).catch_unwind();
        match tokio::time::timeout(limit, attempt).await {
            Ok(Ok(Ok(ending))) => ending,
            Ok(Ok(Err(failure))) => AttemptEnding::Failed(failure),
            Ok(Err(_)) => {
                error!(operation = meta::name(operation), "an attempt of an operation panicked");
                AttemptEnding::Failed(AttemptFailure::panic())
            }
            Err(_) => {
                let message = format!("the attempt took longer than {} s", limit.as_secs());
                AttemptEnding::Failed(AttemptFailure::timeout(message))
            }
        }
    }

    async fn attempt(
        &self,
        operation: &Object,
        recording: &mut RecordingBuilder,
        progress: &mut Progress,
    ) -> Result<AttemptEnding, AttemptFailure> {
        let callables = self.registry.current();
        let validated = self.validate(operation, &callables);
        progress.validity = Some(pipeline_condition(&validated));
        let pipeline = validated
            .map_err(|invalid| AttemptFailure::invalid_pipeline(chain(&invalid), invalid.point()))?;
        let outcome = self.decide(operation, pipeline, &callables, recording).await?;
        let Outcome { result, outputs, events, .. } = outcome;
        progress.events = events;
        let references = result.as_ref().map_or(&[][..], |plan| &plan.references[..]);
        let fits = check_results(operation, &outputs, references);
        if fits.is_ok() {
            progress.outputs = outputs;
        }
        let plan = result.map_err(|failure| AttemptFailure::of_pipeline(&failure, operation))?;
        fits?;
        let ending = self.apply(operation, &plan, progress).await;
        let unsynced = ending.as_ref().err().into_iter().map(|it| it.point.resource.clone()).collect();
        recording.did(progress.applied.len(), &unsynced);
        ending
    }

    fn validate(
        &self,
        operation: &Object,
        callables: &CallableFunctions,
    ) -> Result<Pipeline, InvalidPipeline> {
        let spec = operation.get("spec").unwrap_or(&Value::Null);
        validate_operation(spec, &callables.catalogue, &capabilities(&self.context, &self.registry))
    }

    /// Run the pipeline.
    async fn decide(
        &self,
        operation: &Object,
        pipeline: Pipeline,
        callables: &CallableFunctions,
        recording: &mut RecordingBuilder,
    ) -> Result<Outcome, AttemptFailure> {
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
            grants: Arc::new(self.grants.current().about(operation)),
        };
        let live = LiveResources(&self.context.cluster);
        let resources =
            WatchedResources { live, gone: deleted_object_of(operation, &self.context.clock.now()) };
        let notes = recording.run(&inputs);
        let outcome = drive_noting(inputs, &callables.directory, &resources, notes, None).await;
        recording.came_to(&outcome);
        self.context.metrics.count_versions(&outcome.ran);
        Ok(outcome)
    }

    /// Report the result of an attempt.
    async fn conclude(&self, operation: &Object, told: Told, recording: &mut RecordingBuilder) -> Next {
        let Told { mut attempt, events: mut said } = told;
        if let AttemptEnding::Failed(failure) = &attempt.ending {
            recording.trouble(&failure.message);
            let span = Span::current();
            span.record("failure", failure.point.cause.code());
            span.record("otel.status_code", "ERROR");
        }
        let now = self.context.clock.now();
        let mut concluded = conclude(operation, attempt.clone(), &now);
        said.append(&mut concluded.events);
        recording.conclude(&concluded.status, &said);
        for event in &said {
            self.say(operation, event);
        }
        let Written { retry_in, standing } = match self.write(operation, &mut attempt, concluded).await {
            Err(next) => return next,
            Ok(written) => written,
        };
        recording.wrote();
        if let Some(length) = retry_in {
            self.pauses.begin(operation, length);
            return Next::After(length);
        }
        self.pauses.forget(meta::name(operation));
        // One that waits for ActionSets, is paused or is deleted has not ended.
        if standing != Standing::Running {
            self.begun.forget(meta::name(operation));
            self.context.metrics.count_operation(operation, standing == Standing::Succeeded);
        }
        Next::Rest
    }

    /// Write the result of an attempt. The error is how to requeue if it cannot be written.
    ///
    /// If this fails, the whole pipeline runs again. So if another client has changed the operation meanwhile, or the API server cannot
    /// be reached for a short time, the attempt is concluded on the operation as it is now. A result that the API server does not store
    /// is replaced by a failure that says so.
    async fn write(
        &self,
        during: &Object,
        attempt: &mut Attempt,
        mut concluded: Concluded,
    ) -> Result<Written, Next> {
        let mut operation = during.clone();
        let mut pauses = WRITE_PAUSES.into_iter();
        loop {
            let Concluded { status, retry_in, standing, .. } = concluded;
            let written =
                write_changed_status(&self.context.cluster, &self.operations, &mut operation, status).await;
            match written {
                Ok(()) => return Ok(Written { retry_in, standing }),
                // Not even that one: the operation has no room for a status. It is tried again when it changes.
                Err(NotWritten::TooLarge) if matches!(attempt.ending, AttemptEnding::TooLarge) => {
                    return Err(Next::Rest);
                }
                Err(NotWritten::TooLarge) => {
                    *attempt = Attempt::new(AttemptEnding::TooLarge);
                    concluded = conclude(&operation, attempt.clone(), &self.context.clock.now());
                    for event in &concluded.events {
                        self.say(&operation, event);
                    }
                    continue;
                }
                // Decided again on the new object: a user may have raised the retry limit.
                Err(NotWritten::Later(next))
                    if next == Next::Rest || matches!(attempt.ending, AttemptEnding::GaveUp) =>
                {
                    return Err(next);
                }
                Err(NotWritten::Later(next)) => {
                    operation = self.read_again(during, &mut pauses, next).await?;
                }
            }
            // The response to a write can be lost.
            if is_concluded(during, &operation) {
                return Ok(Written { retry_in, standing });
            }
            concluded = conclude(&operation, attempt.clone(), &self.context.clock.now());
        }
    }

    /// The current operation, after a pause. The error is how to requeue if it was deleted, or if there are no pauses left.
    async fn read_again(
        &self,
        operation: &Object,
        pauses: &mut impl Iterator<Item = Duration>,
        otherwise: Next,
    ) -> Result<Object, Next> {
        let name = meta::name(operation);
        let path = ObjectPath { resource: self.operations.resource(), namespace: "", name };
        for pause in pauses {
            tokio::time::sleep(pause).await;
            match self.context.cluster.get_object(path).await {
                Ok(Some(found)) if meta::uid(&found) == meta::uid(operation) => return Ok(found),
                Ok(_) => return Err(Next::Rest),
                Err(error) => warn!(name, error = chain(&error), "cannot read an operation"),
            }
        }
        Err(otherwise)
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
        self.action_sets.stop();
    }
}

/// A running operation, until dropped.
struct Running<'a> {
    controller: &'a Controller,
    name: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.controller.running.lock().unwrap_or_else(PoisonError::into_inner).remove(self.name);
    }
}

/// The lane of the queue for an operation, by what made it.
fn lane_of(operation: &ObjectHeader<'_>) -> usize {
    let parents = [CRON_LABEL, WATCH_LABEL];
    parents.iter().position(|label| operation.label(label).is_some()).map_or(OF_USERS, |parent| parent + 1)
}

/// A trace for an attempt. It has names and outcomes, never fields of objects.
fn span_of(operation: &Object) -> Span {
    debug_span!(
        parent: None,
        "reconcile",
        otel.name = "reconcile Operation",
        otel.status_code = field::Empty,
        api_version = meta::api_version(operation),
        kind = meta::kind(operation),
        name = meta::name(operation),
        generation = meta::generation(operation),
        failure = field::Empty,
    )
}

/// Whether a running operation is to be aborted.
fn is_to_stop(change: Change<'_>) -> bool {
    let is_paused = || {
        let object = serde_json::from_slice::<Object>(&change.object().bytes);
        object.is_ok_and(|object| meta::annotation(&object, keys::PAUSED) == "true")
    };
    matches!(change, Change::Deleted { .. })
        || change.header().is_being_deleted()
        || is_another(change)
        || is_paused()
}

/// Whether an operation was deleted and created again between two watch events.
fn is_another(change: Change<'_>) -> bool {
    let Change::Applied { header, before: Some(before), .. } = change else { return false };
    ObjectHeader::read(&before.bytes).is_some_and(|before| before.metadata.uid != header.metadata.uid)
}
