//! ActionSets: their actions run side by side, each phase after the other, until all have ended.
//!
//! # Invariants
//! * What a phase is about to change is not changed before the status says where the phase is: whoever goes on after a crash knows.
//!   Whoever looks at an old state of the ActionSet cannot write that, so that nothing runs twice at the same time.
//! * An ActionSet that waits holds no worker, and costs nothing until it is woken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{
    ActionSetSpec, ActionSetStatus, ActionStatus, Blueprint, BlueprintAction, Cause, Object, PhaseState,
    keys, meta,
};
use ferroplane_client::{Error, Informer, ObjectPath, Subresource};
use ferroplane_engine::action::{
    ActionFailure, Address, Answer, Asker, BeginActionSet, DELETION_GRACE, Facilities, Need, Request, Run,
    RunIdentity, Turn, abandon, begin_action_set, prepare, runnable, running_phase, settle_action_set,
    spec_of, status_of, tell_conditions,
};
use ferroplane_engine::versions::Version;
use ferroplane_engine::{Event, EventKind, chain};
use futures_util::future::try_join_all;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::warn;

use super::actions::{ActionText, Actions, Found};
use super::background::{Background, Progress};
use super::perform::{Performer, is_long};
use super::wake::Wakers;
use super::{ActionSettings, follow};
use crate::apiextensions::grants::GrantCache;
use crate::context::Context;
use crate::function_registry::{CallableByPhases, CallableFunctions, FunctionRegistry};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "actionset/actionset.cr.kanister.io";
const CONCURRENCY: usize = 32;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How often to look at what cannot be watched.
const POLL: Duration = Duration::from_secs(10);
/// How many turns an ActionSet gets before others do.
const MAX_TURNS: usize = 100;

/// The namespace and the name of an ActionSet.
pub(super) type Key = (String, String);

/// Run all ActionSets, until dropped.
pub(crate) async fn run(context: Arc<Context>, registry: Arc<FunctionRegistry>, settings: ActionSettings) {
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let blueprints = follow(&context, "Blueprint", "blueprints");
    let action_sets = follow(&context, "ActionSet", "actionsets");
    blueprints.synced().await;
    let controller = Arc::new(Controller {
        recorder: context.recorder.of(COMPONENT),
        registry,
        settings,
        grants: GrantCache::new(&context.grants),
        actions: Actions::new(context.clone(), blueprints.clone()),
        wakers: Wakers::new(context.composer.clone(), queue.clone()),
        background: Arc::default(),
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
    queue: Queue<Key>,
}

/// An ActionSet while it is reconciled.
struct Work {
    key: Key,
    object: Object,
    spec: ActionSetSpec,
    status: ActionSetStatus,
    /// What was not told yet, because the status does not say it yet.
    events: Vec<Event>,
    /// The phases whose answers from the background were handed out, by action.
    answered: BTreeMap<usize, String>,
    /// Those that have used their answers, while the stored status does not say it yet.
    used: Vec<String>,
    now: i64,
}

/// Why all actions of an ActionSet end.
type Cancelled = Option<&'static str>;

/// What the actions of an ActionSet wait for.
#[derive(Default)]
struct Waits {
    wake_at: Option<i64>,
    watch: Vec<Address>,
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let queue = self.queue.clone();
        self.action_sets.listen(move |_, change| {
            let metadata = &change.header().metadata;
            queue.add((metadata.namespace.to_string(), metadata.name.to_string()));
        });
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Next {
        let Some(object) = self.action_sets.object(&key.0, &key.1) else { return self.rest(&key) };
        let cause = cause_of_writes(&object);
        cause.scope(self.act(key, object)).await
    }

    async fn act(&self, key: Key, object: Object) -> Next {
        match begin_action_set(&object) {
            BeginActionSet::Ended => self.rest(&key),
            BeginActionSet::Paused => {
                // A command that runs goes on; what comes of it is looked at later.
                self.wakers.forget(&key);
                Next::Rest
            }
            BeginActionSet::Release => {
                self.rest(&key);
                self.release(&key, &object).await
            }
            BeginActionSet::Start => match self.start(&key, object).await {
                Ok(object) => self.go_on(key, object, None).await,
                Err(next) => next,
            },
            BeginActionSet::Run => self.go_on(key, object, None).await,
            BeginActionSet::Cancel if meta::is_being_deleted(&object) => self.end_deleted(key, object).await,
            BeginActionSet::Cancel => self.go_on(key, object, Some("the ActionSet was cancelled")).await,
        }
    }

    /// Nothing is waited for any more.
    fn rest(&self, key: &Key) -> Next {
        self.wakers.forget(key);
        self.background.forget(key);
        self.actions.forget(key);
        Next::Rest
    }

    /// Let go of an ActionSet.
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

    /// Run the phases at the end of actions, unless that has taken too long.
    async fn end_deleted(&self, key: Key, object: Object) -> Next {
        let left = self.grace_left(&object);
        if left.is_zero() {
            let message =
                "gave up on the deferred phases of an ActionSet that was deleted: they took too long";
            self.recorder.warning(&object, "DeferPhaseGivenUp", message);
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

    /// Join the actions of an ActionSet with their Blueprints, and note which versions their phases call.
    async fn start(&self, key: &Key, object: Object) -> Result<Object, Next> {
        let callables = self.registry.current();
        let spec = spec_of(&object);
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
        tell_conditions(&object, &mut prepared.status, now);
        for (action, status) in spec.iter().flat_map(|spec| &spec.actions).zip(&prepared.status.actions) {
            let found =
                blueprints.get(&action.blueprint).and_then(|blueprint| blueprint.actions.get(&action.name));
            // Without a hash it could not be joined, and nothing runs.
            if let Some(found) = found.filter(|_| !status.blueprint_hash.is_empty()) {
                self.actions.remember(key, text_of(&key.0, status), found);
            }
        }
        let mut object = object;
        if prepared.has_defer_phase {
            let all = finalizers::with(&object, keys::ACTION_SET_FINALIZER);
            meta::child(&mut object, "metadata").insert("finalizers".to_owned(), all);
        }
        for warning in &prepared.status.warnings {
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
        object.insert("status".to_owned(), to_json(&prepared.status));
        let object = self.replace(key, object).await?;
        self.tell(&object, &prepared.events);
        if prepared.status.state.is_final() {
            self.count(&prepared.status);
        }
        Ok(object)
    }

    /// Why containers cannot be run that phases of these Blueprints may need. Machines are asked only if there is such a phase.
    async fn no_containers(&self, blueprints: &BTreeMap<String, Blueprint>) -> Option<String> {
        let containers = self.settings.containers.as_ref()?;
        let phases = blueprints.values().flat_map(|blueprint| blueprint.actions.values());
        let mut phases = phases.flat_map(BlueprintAction::all_phases);
        // By its name: the version is decided later, and all of them need the same.
        let runs_images = phases.any(|phase| {
            let function = self.registry.phases().phase_function(&phase.func, &Version::UNVERSIONED);
            function.is_some_and(|function| function.contract().needs.contains(&Need::Pods))
        });
        if !runs_images {
            return None;
        }
        containers.probe().await.err().map(|error| chain(&error))
    }

    /// Have all actions go on as far as they can.
    async fn go_on(&self, key: Key, object: Object, cancelled: Cancelled) -> Next {
        // It was read when the ActionSet began: if it cannot be read now, its actions are gone.
        let spec = spec_of(&object).unwrap_or_default();
        let status = status_of(&object);
        if status.state.is_final() {
            return self.rest(&key);
        }
        let mut work = Work {
            key,
            object,
            spec,
            status,
            events: Vec::new(),
            answered: BTreeMap::new(),
            used: Vec::new(),
            now: self.now(),
        };
        let ended = self.drive(&mut work, cancelled).await;
        let waits = match ended {
            Ok(waits) => waits,
            Err(next) => return next,
        };
        if let Err(next) = self.write(&mut work).await {
            return next;
        }
        if work.status.state.is_final() {
            self.count(&work.status);
            return self.rest(&work.key);
        }
        self.wait(&work, &waits).await
    }

    /// Note what is waited for.
    async fn wait(&self, work: &Work, waits: &Waits) -> Next {
        let noted = self.wakers.wait(&work.key, &waits.watch).await;
        if noted.is_new {
            // Once more, at once.
            return Next::After(Duration::ZERO);
        }
        let until = waits.wake_at.map(|time| {
            Duration::from_millis(u64::try_from(time.saturating_sub(self.now())).unwrap_or_default())
        });
        match (until, noted.has_to_poll) {
            (None, false) => Next::Rest,
            (None, true) => Next::After(POLL),
            (Some(until), false) => Next::After(until),
            (Some(until), true) => Next::After(until.min(POLL)),
        }
    }

    /// Take turns until every action waits or has ended.
    async fn drive(&self, work: &mut Work, cancelled: Cancelled) -> Result<Waits, Next> {
        let callables = self.registry.current();
        // Whatever could not be run was refused when the ActionSet began.
        let functions = self.registry.phases_among(&callables);
        let facilities = self.facilities(&callables, &functions, None);
        let actions = self.found_actions(work).await?;
        let spec = work.spec.clone();
        let (uid, namespace) = (meta::uid(&work.object).to_owned(), work.key.0.clone());
        let mut runs: BTreeMap<usize, Run<'_>> = BTreeMap::new();
        let mut answers: BTreeMap<usize, Vec<Answer>> = BTreeMap::new();
        let mut waits = Waits::default();
        for _ in 0..MAX_TURNS {
            let (mut asked, mut has_ended) = (Vec::new(), false);
            for index in runnable(&spec, &work.status) {
                let identity =
                    RunIdentity { uid: &uid, namespace: &namespace, index, seed: self.settings.seed };
                let (run, given) = match runs.entry(index) {
                    std::collections::btree_map::Entry::Occupied(run) => {
                        // One that waits has no answers, and is not asked.
                        let Some(given) = answers.remove(&index) else { continue };
                        (run.into_mut(), given)
                    }
                    std::collections::btree_map::Entry::Vacant(vacant) => {
                        let Some(Some((action, is_changed))) = actions.get(index) else { continue };
                        let Some(performed) = self.performed(work, &identity, cancelled) else { continue };
                        let own = own_errors(&work.status, index);
                        let status = work.status.actions[index].clone();
                        let mut run = Run::resume(
                            &spec.actions[index],
                            action,
                            facilities,
                            identity,
                            status,
                            own,
                            performed,
                        );
                        if *is_changed {
                            run.cancel(Cause::BlueprintInvalid, CHANGED);
                        } else if let Some(message) = cancelled {
                            run.cancel(Cause::ActionCancelled, message);
                        }
                        (vacant.insert(run), Vec::new())
                    }
                };
                let turn = aside(|| run.next(given, work.now));
                work.take(index, run);
                match turn {
                    Turn::Perform(requests) => asked.push((index, requests)),
                    Turn::Wait { wake_at, watch } => waits.add(wake_at, watch),
                    Turn::Ended => has_ended = true,
                }
            }
            if asked.is_empty() {
                // Another action may wait for the one that has ended.
                if has_ended && !runnable(&spec, &work.status).is_empty() {
                    continue;
                }
                return Ok(waits);
            }
            if asked.iter().any(|(_, requests)| !requests.iter().all(Request::is_read)) {
                self.write(work).await?;
            }
            answers = self.perform(work, &runs, asked).await?;
            work.now = self.now();
        }
        waits.wake_at = Some(self.now());
        Ok(waits)
    }

    /// The answers that a phase waited for, if it did. Nothing if it still does.
    fn performed(
        &self,
        work: &mut Work,
        identity: &RunIdentity<'_>,
        cancelled: Cancelled,
    ) -> Option<Vec<Answer>> {
        let Some(phase) = running_phase(&work.status.actions[identity.index]) else {
            return Some(Vec::new());
        };
        let phase = identity.phase(phase);
        match self.background.progress(&work.key, &phase) {
            Progress::None => Some(Vec::new()),
            Progress::Ended(answers) => {
                work.answered.insert(identity.index, phase);
                Some(answers)
            }
            Progress::Running if cancelled.is_some() && may_break_off(&work.status, identity.index) => {
                self.background.stop(&work.key, &phase);
                Some(Vec::new())
            }
            Progress::Running => None,
        }
    }

    /// Perform what actions ask for, side by side.
    async fn perform(
        &self,
        work: &Work,
        runs: &BTreeMap<usize, Run<'_>>,
        requested: Vec<(usize, Vec<Request>)>,
    ) -> Result<BTreeMap<usize, Vec<Answer>>, Next> {
        let (grants, callables) = (self.grants.current(), self.registry.current());
        let (long, short): (Vec<_>, Vec<_>) =
            requested.into_iter().partition(|(_, requests)| requests.iter().any(is_long));
        for (index, requests) in long {
            let asker = runs.get(&index).map(Run::asker).unwrap_or_default();
            self.perform_later(work, asker, requests);
        }
        let performing = short.into_iter().map(|(index, requests)| {
            let asker = runs.get(&index).map(Run::asker).unwrap_or_default();
            let performer = Performer {
                cluster: &self.context.composer,
                grants: grants.clone(),
                containers: self.settings.containers.as_ref(),
                callables: &callables,
                action_set: &work.object,
                function: asker.function,
                identity: asker.identity,
            };
            async move { performer.perform(&requests).await.map(|answers| (index, answers)) }
        });
        let answers = try_join_all(performing).await.map_err(|error| {
            warn!(
                namespace = work.key.0,
                name = work.key.1,
                error = chain(&error),
                "the outcome of a request is unknown; trying again"
            );
            Next::Retry
        })?;
        Ok(answers.into_iter().collect())
    }

    /// Perform what takes long, and look at the ActionSet again when it has ended.
    fn perform_later(&self, work: &Work, asker: Asker, requests: Vec<Request>) {
        let (cluster, grants, action_set) =
            (self.context.composer.clone(), self.grants.current(), work.object.clone());
        let (identity, containers) = (asker.identity.clone(), self.settings.containers.clone());
        let callables = self.registry.current();
        let working = async move {
            let performer = Performer {
                cluster: &cluster,
                grants,
                containers: containers.as_ref(),
                callables: &callables,
                action_set: &action_set,
                function: asker.function,
                identity: asker.identity,
            };
            // Without answers, the phase is asked what that means.
            performer.perform(&requests).await.unwrap_or_default()
        };
        let (queue, key) = (self.queue.clone(), work.key.clone());
        self.background.start(&work.key, &identity, working, move || queue.add(key));
    }

    /// The actions of Blueprints that run, and whether they were changed meanwhile. Those that are gone are given up.
    async fn found_actions(
        &self,
        work: &mut Work,
    ) -> Result<Vec<Option<(Arc<BlueprintAction>, bool)>>, Next> {
        let mut actions = Vec::new();
        for index in 0..work.status.actions.len() {
            let is_there = work.spec.actions.len() > index;
            let found = if is_there {
                self.actions.find(&work.key, text_of(&work.key.0, &work.status.actions[index])).await
            } else {
                Ok(Found::Gone)
            };
            actions.push(match found.map_err(|error| unreadable(&work.key, &error))? {
                Found::Same(action) => Some((action, false)),
                Found::Changed(action) => Some((action, true)),
                Found::Gone => {
                    give_up(work, index);
                    None
                }
            });
        }
        Ok(actions)
    }

    /// Write the status, if it is another one, and tell what it says.
    async fn write(&self, work: &mut Work) -> Result<(), Next> {
        let mut told = settle_action_set(&work.object, &work.spec, &mut work.status, work.now);
        work.events.append(&mut told);
        let status = to_json(&work.status);
        if work.object.get("status") != Some(&status) {
            let mut object = work.object.clone();
            object.insert("status".to_owned(), status);
            work.object = self.replace(&work.key, object).await?;
        }
        for phase in std::mem::take(&mut work.used) {
            self.background.settle(&work.key, &phase);
        }
        self.tell(&work.object, &std::mem::take(&mut work.events));
        Ok(())
    }

    async fn replace(&self, key: &Key, object: Object) -> Result<Object, Next> {
        let mut object = object;
        // Without a status subresource, both are written at once: what is done needs nobody to wait for it.
        if status_of(&object).state.is_final() && finalizers::has(&object, keys::ACTION_SET_FINALIZER) {
            let metadata = meta::child(&mut object, "metadata");
            if let Some(Value::Array(all)) = metadata.get_mut("finalizers") {
                all.retain(|it| it != keys::ACTION_SET_FINALIZER);
            }
        }
        match self.context.cluster.replace(self.path(key), Subresource::None, &object).await {
            Ok(bytes) => {
                // The next look must not see an older state than this one.
                self.action_sets.insert_written(&bytes);
                Ok(serde_json::from_slice(&bytes).unwrap_or(object))
            }
            Err(error) if error.is_conflict() => Err(Next::Conflict),
            Err(error) if error.is_not_found() => Err(self.rest(key)),
            Err(error) => {
                warn!(
                    namespace = key.0,
                    name = key.1,
                    error = chain(&error),
                    "cannot write the status of an ActionSet"
                );
                Err(Next::Retry)
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

/// What is said of an action whose Blueprint is not what it was, after a restart.
const CHANGED: &str = "its Blueprint was changed while the action ran, and the control plane has restarted since; create a new ActionSet";

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
        if !run.has_answers() {
            self.used.extend(self.answered.remove(&index));
        }
    }
}

impl Waits {
    fn add(&mut self, wake_at: Option<i64>, watch: Vec<Address>) {
        self.wake_at = self.wake_at.into_iter().chain(wake_at).min();
        self.watch.extend(watch);
    }
}

/// Do what may take long, as templates do, without keeping the tasks waiting that this thread would run next.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    // Where there is one thread, as in tests, there is nobody who could take them over.
    if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

fn own_errors(status: &ActionSetStatus, index: usize) -> Vec<ferroplane_api::PhaseError> {
    let own = status.errors.iter().filter(|error| usize::try_from(error.action) == Ok(index));
    own.cloned().collect()
}

/// Whether the phase of an action that runs ends when its ActionSet is cancelled. The phase at the end is no less important because
/// somebody is in a hurry, whether or not another one failed before.
fn may_break_off(status: &ActionSetStatus, index: usize) -> bool {
    let is_at_end = status.actions[index].defer_phase.state == PhaseState::Running;
    !is_at_end && own_errors(status, index).is_empty()
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

fn to_json(status: &ActionSetStatus) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

fn unreadable(key: &Key, error: &Error) -> Next {
    warn!(namespace = key.0, name = key.1, error = chain(error), "cannot read the Blueprint of an ActionSet");
    Next::Retry
}

/// Give an action up whose Blueprint is gone.
fn give_up(work: &mut Work, index: usize) {
    if !runnable(&work.spec, &work.status).contains(&index) {
        return;
    }
    let message = format!(
        "Blueprint `{}` or its action `{}` was deleted while the action ran: its remaining phases are not run",
        work.status.actions[index].blueprint, work.status.actions[index].name
    );
    let failure = ActionFailure { cause: Cause::BlueprintNotFound, phase: String::new(), message };
    let event = abandon(&mut work.status, index, &failure, work.now);
    work.events.push(event);
}

#[cfg(test)]
mod tests {
    use ferroplane_api::{PhaseError, PhaseStatus};

    use super::*;

    fn status(phase: PhaseState, defer_phase: PhaseState, errors: usize) -> ActionSetStatus {
        let of = |state| PhaseStatus { state, ..PhaseStatus::default() };
        let action =
            ActionStatus { phases: vec![of(phase)], defer_phase: of(defer_phase), ..ActionStatus::default() };
        let errors = vec![PhaseError::default(); errors];
        ActionSetStatus { actions: vec![action], errors, ..ActionSetStatus::default() }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_that_takes_long_keeps_no_task_waiting() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let working = tokio::spawn(async move { aside(|| receiver.recv_timeout(Duration::from_secs(30))) });
        tokio::spawn(async move { sender.send(()) });
        assert_eq!(working.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn work_is_done_where_there_is_one_thread() {
        assert_eq!(aside(|| 1), 1);
    }

    #[test]
    fn phase_at_the_end_is_not_broken_off_by_a_cancellation() {
        assert!(may_break_off(&status(PhaseState::Running, PhaseState::Pending, 0), 0));
        for (phase, errors) in [(PhaseState::Complete, 0), (PhaseState::Failed, 1)] {
            assert!(!may_break_off(&status(phase, PhaseState::Running, errors), 0), "{phase:?}");
        }
    }
}
