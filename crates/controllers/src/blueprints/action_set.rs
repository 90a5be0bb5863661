//! ActionSets: their actions run concurrently, each phase after the other, until all have ended.
//!
//! # Invariants
//! * The status records the state of a phase before the phase changes anything, so that a replica that continues after a crash knows it.
//!   A replica with an old state of the ActionSet cannot write that, so that nothing runs twice at the same time.
//! * A waiting ActionSet occupies no worker, and costs nothing until it is requeued.
//! * An ActionSet ends, also if something panics while it runs, and if the API server does not store its status.

mod record;
mod turns;
mod waits;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroplane_api::{
    ActionSetSpec, ActionSetStatus, ActionStatus, Blueprint, BlueprintAction, Cause, Object, keys, meta,
};
use ferroplane_client::{Error, Informer, ObjectPath, Subresource};
use ferroplane_engine::action::{
    ActionFailure, BeginActionSet, DELETION_GRACE, Facilities, LeftOut, Need, Run, begin_action_set,
    end_action_set, end_too_large, prepare, report_conditions, settle_action_set, spec_of, status_of,
};
use ferroplane_engine::versions::Version;
use ferroplane_engine::{Event, EventKind, chain};
use ferroplane_recorder::RecordingBuilder;
use futures_util::FutureExt as _;
use serde_json::Value;
use tracing::{error, warn};

use self::waits::Waits;
use super::actions::{ActionText, Actions};
use super::background::Background;
use super::turn_limit::TurnLimit;
use super::wake::Wakers;
use super::{ActionSettings, follow};
use crate::apiextensions::grants::GrantCache;
use crate::context::Context;
use crate::function_registry::{CallableByPhases, CallableFunctions, FunctionRegistry};
use crate::ops::status::NotWritten;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "actionset/actionset.cr.kanister.io";
const CONCURRENCY: usize = 32;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The message for the actions of an ActionSet that a user cancelled.
const CANCELLED: &str = "the ActionSet was cancelled";

/// The namespace and the name of an ActionSet. Shared, because nothing else is kept of an ActionSet that waits.
pub(super) type Key = Arc<(String, String)>;

/// Run all ActionSets, until dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    registry: Arc<FunctionRegistry>,
    settings: ActionSettings,
    action_sets: Arc<Informer>,
) {
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let blueprints = follow(&context, "Blueprint", "blueprints");
    blueprints.synced().await;
    let controller = Arc::new(Controller {
        recorder: context.recorder.of(COMPONENT),
        registry,
        settings,
        grants: GrantCache::new(&context.grants),
        actions: Actions::new(context.clone(), blueprints.clone()),
        wakers: Wakers::new(context.composer.clone(), queue.clone()),
        background: Arc::default(),
        turn_limit: TurnLimit::default(),
        queue: queue.clone(),
        blueprints,
        action_sets,
        context,
    });
    controller.listen();
    queue.work(CONCURRENCY, |key| controller.clone().reconcile(key)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    registry: Arc<FunctionRegistry>,
    settings: ActionSettings,
    grants: Arc<GrantCache>,
    blueprints: Arc<Informer>,
    action_sets: Arc<Informer>,
    actions: Actions,
    wakers: Arc<Wakers>,
    background: Arc<Background>,
    turn_limit: TurnLimit,
    queue: Queue<Key>,
}

/// An ActionSet while it is reconciled.
struct Work {
    key: Key,
    object: Object,
    spec: ActionSetSpec,
    status: ActionSetStatus,
    /// Events that are recorded once the status is written.
    events: Vec<Event>,
    /// The phases that were given answers from the background, by action.
    answered: BTreeMap<usize, String>,
    /// Phases that have used their answers, while the stored status does not show it yet.
    used: Vec<String>,
    recording: RecordingBuilder,
    /// The events that were written, for the recording.
    told: Vec<Event>,
    now: i64,
}

/// Why all actions of an ActionSet end.
type Cancelled = Option<&'static str>;

impl Controller {
    fn listen(self: &Arc<Self>) {
        let queue = self.queue.clone();
        self.action_sets.listen(move |_, change| {
            let metadata = &change.header().metadata;
            queue.add(Arc::new((metadata.namespace.to_string(), metadata.name.to_string())));
        });
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Next {
        let Some(object) = self.action_sets.object(&key.0, &key.1) else { return self.rest(&key) };
        let cause = cause_of_writes(&object);
        let acting = AssertUnwindSafe(self.act(key.clone(), object)).catch_unwind();
        let acted = cause.scope(async {
            match acting.await {
                Ok(next) => next,
                Err(_) => self.end_panicked(&key).await,
            }
        });
        acted.await
    }

    /// End an ActionSet after a panic of the control plane: it would panic again each time it is reconciled.
    async fn end_panicked(&self, key: &Key) -> Next {
        error!(namespace = key.0, name = key.1, "the control plane panicked while it ran an ActionSet");
        let Some(object) = self.action_sets.object(&key.0, &key.1) else { return self.rest(key) };
        let mut status = status_of(&object);
        if status.state.is_final() {
            return Next::Retry;
        }
        let failure = ActionFailure {
            cause: Cause::PhaseFailed,
            phase: String::new(),
            message: "the control plane panicked while it ran the ActionSet; its log says where".to_owned(),
        };
        let event = end_action_set(&object, &mut status, &failure, self.now());
        match self.replace(key, with_status(&object, &status)).await {
            Ok(written) => self.ended(key, &written, &status, event),
            Err(NotWritten::TooLarge) => self.end_too_large(key, &object, &status).await,
            Err(NotWritten::Later(next)) => next,
        }
    }

    /// End an ActionSet whose status the API server does not store, with a smaller one.
    async fn end_too_large(&self, key: &Key, object: &Object, status: &ActionSetStatus) -> Next {
        for left_out in [LeftOut::Results, LeftOut::Actions] {
            let mut smaller = status.clone();
            let event = end_too_large(object, &mut smaller, left_out, self.now());
            match self.replace(key, with_status(object, &smaller)).await {
                Ok(written) => return self.ended(key, &written, &smaller, event),
                Err(NotWritten::TooLarge) => {}
                Err(NotWritten::Later(next)) => return next,
            }
        }
        // Its spec leaves no room for any status. It is tried again when it changes.
        self.rest(key)
    }

    /// Report an ActionSet that was ended before its actions had.
    fn ended(&self, key: &Key, object: &Object, status: &ActionSetStatus, event: Event) -> Next {
        self.tell(object, &[event]);
        self.count(status);
        self.rest(key)
    }

    async fn act(&self, key: Key, object: Object) -> Next {
        match begin_action_set(&object) {
            BeginActionSet::Ended => self.rest(&key),
            BeginActionSet::Paused => {
                // A running command continues; its result is read later.
                self.wakers.forget(&key);
                Next::Rest
            }
            BeginActionSet::Release => {
                self.rest(&key);
                self.release(&key, &object).await
            }
            BeginActionSet::Start => match self.start(&key, &object).await {
                Ok(object) => {
                    // It may have been cancelled before it began: then no phase may begin, either.
                    let is_cancelled = begin_action_set(&object) == BeginActionSet::Cancel;
                    self.go_on(key, object, is_cancelled.then_some(CANCELLED)).await
                }
                Err(next) => next,
            },
            BeginActionSet::Run => self.go_on(key, object, None).await,
            BeginActionSet::Cancel if meta::is_being_deleted(&object) => self.end_deleted(key, object).await,
            BeginActionSet::Cancel => self.go_on(key, object, Some(CANCELLED)).await,
        }
    }

    /// Stop waiting for anything.
    fn rest(&self, key: &Key) -> Next {
        self.wakers.forget(key);
        self.background.forget(key);
        self.actions.forget(key);
        Next::Rest
    }

    /// Remove the finalizer of an ActionSet.
    async fn release(&self, key: &Key, object: &Object) -> Next {
        let path = self.path(key);
        match finalizers::remove(&self.context.cluster, path, object, keys::ACTION_SET_FINALIZER).await {
            Ok(_) => Next::Rest,
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) => {
                warn!(
                    namespace = key.0,
                    name = key.1,
                    error = chain(&error),
                    "cannot remove the finalizer of an ActionSet"
                );
                Next::Retry
            }
        }
    }

    /// Run the deferred phases, unless that has taken too long.
    async fn end_deleted(&self, key: Key, object: Object) -> Next {
        let left = self.grace_left(&object);
        if left.is_zero() {
            let message =
                "Gave up on the deferred phases of an ActionSet that was deleted: they took too long";
            self.recorder.failure(&object, "DeferPhaseGivenUp", message, Cause::DeferPhaseTimeout);
            self.rest(&key);
            return self.release(&key, &object).await;
        }
        match self.go_on(key, object, Some("the ActionSet was deleted")).await {
            Next::Rest => Next::After(left),
            Next::After(pause) => Next::After(pause.min(left)),
            next => next,
        }
    }

    fn grace_left(&self, object: &Object) -> Duration {
        let deleted_at =
            object.get("metadata").and_then(|metadata| metadata.get("deletionTimestamp")?.as_str());
        let deleted_at = deleted_at.and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let deleted_at = deleted_at.map_or(0, jiff::Timestamp::as_millisecond);
        let left = deleted_at.saturating_add(DELETION_GRACE).saturating_sub(self.now());
        Duration::from_millis(u64::try_from(left).unwrap_or_default())
    }

    /// Join the actions of an ActionSet with their Blueprints, and record which versions their phases call.
    async fn start(&self, key: &Key, object: &Object) -> Result<Object, Next> {
        let callables = self.registry.current();
        let spec = spec_of(object);
        let mut blueprints = BTreeMap::new();
        for action in spec.iter().flat_map(|spec| &spec.actions) {
            let read = self.actions.blueprint(&key.0, &action.blueprint).await;
            if let Some(blueprint) = read.map_err(|error| unreadable(key, &error))? {
                blueprints.insert(action.blueprint.clone(), (*blueprint).clone());
            }
        }
        let no_containers = self.no_containers(&blueprints).await;
        let now = self.now();
        let functions = self.registry.phases_among(&callables);
        let facilities = self.facilities(&callables, &functions, no_containers.as_deref());
        let mut prepared = prepare(&spec, &blueprints, &facilities, now);
        report_conditions(object, &mut prepared.status, now);
        for (action, status) in spec.iter().flat_map(|spec| &spec.actions).zip(&prepared.status.actions) {
            let found =
                blueprints.get(&action.blueprint).and_then(|blueprint| blueprint.actions.get(&action.name));
            // Without a hash the action could not be joined, and nothing runs.
            if let Some(found) = found.filter(|_| !status.blueprint_hash.is_empty()) {
                self.actions.remember(key, text_of(&key.0, status), found);
            }
        }
        let mut begun = with_status(object, &prepared.status);
        if prepared.has_to_clean_up {
            // In the same write as the status: otherwise an ActionSet that is deleted after it began would skip its
            // deferred phase, and leave its pod.
            let all = finalizers::with(object, keys::ACTION_SET_FINALIZER);
            meta::child(&mut begun, "metadata").insert("finalizers".to_owned(), all);
        }
        let written = match self.replace(key, begun).await {
            Ok(written) => written,
            Err(NotWritten::TooLarge) => {
                return Err(self.end_too_large(key, object, &prepared.status).await);
            }
            Err(NotWritten::Later(next)) => return Err(next),
        };
        // Only now: one that could not be written is begun again.
        log_warnings(key, &prepared.status);
        self.tell(&written, &prepared.events);
        if prepared.status.state.is_final() {
            self.count(&prepared.status);
            self.record_refusal(object, &prepared);
        }
        Ok(written)
    }

    /// Why containers cannot be run for phases of these Blueprints. The machine is checked only if there is such a phase.
    async fn no_containers(&self, blueprints: &BTreeMap<String, Blueprint>) -> Option<String> {
        let containers = self.settings.containers.as_ref()?;
        let phases = blueprints.values().flat_map(|blueprint| blueprint.actions.values());
        let mut phases = phases.flat_map(BlueprintAction::all_phases);
        // By its name: the version is resolved later, and all of them need the same.
        let runs_images = phases.any(|phase| {
            let function = self.registry.phases().phase_function(&phase.func, &Version::UNVERSIONED);
            function.is_some_and(|function| function.contract().needs.contains(&Need::Pods))
        });
        if !runs_images {
            return None;
        }
        containers.probe().await.err().map(|error| chain(&error))
    }

    /// Continue all actions as far as possible.
    async fn go_on(&self, key: Key, object: Object, cancelled: Cancelled) -> Next {
        // It was read when the ActionSet began: if it cannot be read now, its actions no longer exist.
        let spec = spec_of(&object).unwrap_or_default();
        let status = status_of(&object);
        if status.state.is_final() {
            return self.rest(&key);
        }
        let (recording, began_at) = (self.begin_recording(&object), Instant::now());
        let mut work = Work {
            key,
            object,
            spec,
            status,
            events: Vec::new(),
            answered: BTreeMap::new(),
            used: Vec::new(),
            recording,
            told: Vec::new(),
            now: self.now(),
        };
        let ended = self.drive_and_write(&mut work, cancelled).await;
        let stopped = ended.as_ref().map_or_else(Some, |waits| waits.has_unknown.then_some(&Next::Retry));
        self.keep_recording(&mut work, stopped, began_at);
        let waits = match ended {
            Ok(waits) => waits,
            Err(next) => return next,
        };
        if work.status.state.is_final() {
            self.count(&work.status);
            return self.rest(&work.key);
        }
        self.wait(&work, &waits).await
    }

    async fn drive_and_write(&self, work: &mut Work, cancelled: Cancelled) -> Result<Waits, Next> {
        let waits = self.drive(work, cancelled).await?;
        self.write(work).await?;
        Ok(waits)
    }

    /// Register the waits of the actions.
    async fn wait(&self, work: &Work, waits: &Waits) -> Next {
        let noted = self.wakers.wait(&work.key, &waits.watch).await;
        waits.next(&noted, self.now())
    }

    /// Write the status if it changed, and record its events.
    async fn write(&self, work: &mut Work) -> Result<(), Next> {
        let mut told = settle_action_set(&work.object, &work.spec, &mut work.status, work.now);
        work.events.append(&mut told);
        let status = to_json(&work.status);
        if work.object.get("status") != Some(&status) {
            let mut object = work.object.clone();
            object.insert("status".to_owned(), status);
            work.recording.changes(&work.object);
            work.object = match self.replace(&work.key, object).await {
                Ok(written) => written,
                Err(NotWritten::TooLarge) => {
                    return Err(self.end_too_large(&work.key, &work.object, &work.status).await);
                }
                Err(NotWritten::Later(next)) => return Err(next),
            };
            work.recording.wrote();
        }
        for phase in std::mem::take(&mut work.used) {
            self.background.settle(&work.key, &phase);
        }
        let mut events = std::mem::take(&mut work.events);
        self.tell(&work.object, &events);
        work.told.append(&mut events);
        Ok(())
    }

    async fn replace(&self, key: &Key, object: Object) -> Result<Object, NotWritten> {
        let mut object = object;
        // Without a status subresource, both are written at once: a finished ActionSet needs no finalizer.
        if status_of(&object).state.is_final() && finalizers::has(&object, keys::ACTION_SET_FINALIZER) {
            let metadata = meta::child(&mut object, "metadata");
            if let Some(Value::Array(all)) = metadata.get_mut("finalizers") {
                all.retain(|it| it != keys::ACTION_SET_FINALIZER);
            }
        }
        match self.context.cluster.replace(self.path(key), Subresource::None, &object).await {
            Ok(bytes) => {
                // The next reconcile must not read an older state than this one.
                self.action_sets.insert_written(&bytes);
                Ok(serde_json::from_slice(&bytes).unwrap_or(object))
            }
            Err(error) if error.is_conflict() => Err(NotWritten::Later(Next::Conflict)),
            // It was deleted without a finalizer: there is nothing to write to.
            Err(error) if error.is_not_found() => Err(NotWritten::Later(self.rest(key))),
            Err(error) => {
                warn!(
                    namespace = key.0,
                    name = key.1,
                    error = chain(&error),
                    "cannot write the status of an ActionSet"
                );
                Err(if error.is_too_large() { NotWritten::TooLarge } else { NotWritten::Later(Next::Retry) })
            }
        }
    }

    fn tell(&self, object: &Object, events: &[Event]) {
        for event in events {
            match (&event.failure, event.kind) {
                (Some(failure), _) => {
                    self.recorder.failure(object, &event.reason, event.detailed(), failure.clone());
                }
                (None, EventKind::Normal) => self.recorder.normal(object, &event.reason, event.detailed()),
                (None, EventKind::Warning) => self.recorder.warning(object, &event.reason, event.detailed()),
            }
        }
    }

    /// Count how actions ended.
    fn count(&self, status: &ActionSetStatus) {
        self.context.metrics.count_actions(status);
    }

    fn facilities<'a>(
        &'a self,
        callables: &'a CallableFunctions,
        functions: &'a CallableByPhases<'a>,
        no_containers: Option<&'a str>,
    ) -> Facilities<'a> {
        Facilities {
            catalogue: &callables.catalogue,
            functions,
            has_exec: self.settings.has_exec,
            pods: self.settings.pods,
            no_containers,
            is_strict: self.settings.is_strict,
        }
    }

    fn path<'a>(&'a self, key: &'a Key) -> ObjectPath<'a> {
        ObjectPath { resource: self.action_sets.resource(), namespace: &key.0, name: &key.1 }
    }

    fn now(&self) -> i64 {
        i64::try_from(self.context.clock.milliseconds()).unwrap_or(i64::MAX)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.action_sets.stop();
        self.blueprints.stop();
    }
}

impl Work {
    /// Take over what an action has become.
    fn take(&mut self, index: usize, run: &mut Run<'_>) {
        let known = own_errors(&self.status, index).len();
        self.status.errors.extend(run.errors.iter().skip(known).cloned());
        self.status.actions[index].clone_from(&run.status);
        self.events.append(&mut run.events);
        self.recording.called(run.take_notes());
        if !run.has_answers() {
            self.used.extend(self.answered.remove(&index));
        }
    }
}

fn own_errors(status: &ActionSetStatus, index: usize) -> Vec<ferroplane_api::PhaseError> {
    let own = status.errors.iter().filter(|error| usize::try_from(error.action) == Ok(index));
    own.cloned().collect()
}

/// The action that an action of an ActionSet in this namespace runs.
fn text_of(namespace: &str, status: &ActionStatus) -> ActionText {
    ActionText {
        namespace: namespace.to_owned(),
        blueprint: status.blueprint.clone(),
        action: status.name.clone(),
        hash: status.blueprint_hash.clone(),
    }
}

fn log_warnings(key: &Key, status: &ActionSetStatus) {
    for warning in &status.warnings {
        warn!(
            namespace = key.0,
            name = key.1,
            phase = warning.phase,
            function = warning.function,
            version = warning.version,
            reason = warning.reason,
            advice = warning.message,
            "a phase calls a deprecated version, or another version than it names"
        );
    }
}

fn with_status(action_set: &Object, status: &ActionSetStatus) -> Object {
    let mut object = action_set.clone();
    object.insert("status".to_owned(), to_json(status));
    object
}

fn to_json(status: &ActionSetStatus) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

fn unreadable(key: &Key, error: &Error) -> Next {
    warn!(namespace = key.0, name = key.1, error = chain(error), "cannot read the Blueprint of an ActionSet");
    Next::Retry
}
