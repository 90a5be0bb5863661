//! `FunctionRollout`s: observes composite resources, decides, and writes the status. Everything else follows the status.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{
    Cause, Condition, FunctionRolloutSpec, FunctionRolloutStatus, Object, PROMOTE_ANNOTATION,
    REQUESTED_AT_ANNOTATION, RolloutState, RolloutTarget, Status, UNDO_ANNOTATION, meta,
};
use ferroplane_client::Informer;
use ferroplane_engine::rollout::{
    CallCounts, Commands, Decision, Observation, RevisionFact, Tried, accept, decide, is_in_use, waits_for,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::apiextensions::composite::Composites;
use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::ops::status::{status_with, write_status};
use crate::rollout::KnownSubjects;
use crate::runtime::backoff::after;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "functionrollout/functionrollout.rollout.ferroplane.io";
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a running rollout waits for further changes of composite resources, so that it decides once about all of them.
const TICK: Duration = Duration::from_millis(200);

/// Move composite resources to new revisions of functions, until dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    composites: Arc<Composites>,
    functions: Arc<FunctionRegistry>,
    can_choose: bool,
) {
    let recorder = context.recorder.of(COMPONENT);
    let (rollouts, seen, running) = (context.rollouts.clone(), Mutex::default(), Mutex::default());
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let controller = Arc::new(Controller {
        context,
        composites,
        functions,
        recorder,
        rollouts,
        seen,
        running,
        can_choose,
    });
    controller.listen(&queue);
    queue.work(1, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    composites: Arc<Composites>,
    functions: Arc<FunctionRegistry>,
    recorder: Recorder,
    rollouts: Arc<Informer>,
    /// The inputs of the last decision about each rollout, by its name.
    seen: Mutex<HashMap<String, Seen>>,
    /// The rollouts for which changes of composite resources matter. Without one, such a change costs nothing.
    running: Mutex<BTreeSet<String>>,
    /// Whether several revisions of a Function can be active.
    can_choose: bool,
}

/// The inputs of a decision, as far as they can change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// The epoch of composite resources and trials.
    news: u64,
    /// The epochs of functions, of compositions, and of the kinds of composite resources.
    epoch: (u64, (u64, u64)),
    version: String,
    /// When to decide again, even if nothing changes.
    until: Option<Instant>,
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let Context { functions, function_revisions, compositions, revisions, definitions, .. } =
            &*self.context;
        for informer in [&self.rollouts, functions, function_revisions, compositions, revisions, definitions]
        {
            let (controller, queue) = (Arc::downgrade(self), queue.clone());
            // There are few rollouts, and each can affect another: of two for one Function, one is refused.
            informer.listen(move |_, _| {
                let rollouts = controller.upgrade().map(|controller| controller.rollouts.objects());
                rollouts.iter().flatten().for_each(|rollout| queue.add(meta::name(rollout).to_owned()));
            });
        }
        let (controller, queue) = (Arc::downgrade(self), queue.clone());
        self.functions.trials().on_change(move || {
            let Some(controller) = controller.upgrade() else { return };
            for rollout in controller.running().iter() {
                queue.add_within(rollout.clone(), TICK);
            }
        });
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(rollout) = self.rollouts.object("", &name).filter(|it| !meta::is_being_deleted(it)) else {
            self.lock().remove(&name);
            self.running().remove(&name);
            self.context.metrics.forget_rollout(&name);
            return Next::Rest;
        };
        let spec = rollout.get("spec").cloned().unwrap_or_default();
        // The API server validates it. An invalid one was stored before it had the schema.
        let Ok(spec) = serde_json::from_value::<FunctionRolloutSpec>(spec) else { return Next::Rest };
        let cause = cause_of_writes(&rollout);
        cause.scope(self.sync(rollout, &spec)).await
    }

    /// Reconcile a rollout: observe, decide, write the status, record events.
    async fn sync(&self, rollout: Object, spec: &FunctionRolloutSpec) -> Next {
        let target = match spec.target() {
            RolloutTarget::Function(function) => self.context.functions.object("", function),
            RolloutTarget::Composition(composition) => self.context.compositions.object("", composition),
        };
        // Before anything is observed: a change meanwhile is noticed.
        self.running().insert(meta::name(&rollout).to_owned());
        let mut seen = self.observe_changes(&rollout);
        let (before, revisions) = (status_of(&rollout), self.revisions(spec));
        let is_in_use = is_in_use(&before, &revisions);
        let all = self.rollouts.objects();
        let accepted = accept(&rollout, &all, target.as_ref(), self.can_choose, is_in_use);
        if accepted.status != Status::True {
            // For the same reason, with the same code.
            let ready = Condition { kind: "Ready".to_owned(), ..accepted.clone() };
            let status =
                FunctionRolloutStatus { history: before.history, ..FunctionRolloutStatus::default() };
            self.running().remove(meta::name(&rollout));
            return self.write(rollout, &status, [accepted, ready]).await.err().unwrap_or(Next::Rest);
        }
        if let Some(next) = self.is_unchanged(&rollout, &seen) {
            return next;
        }
        let Some((Decision { status, events, requeue_after }, unestablished)) =
            self.decide(&rollout, spec, &before, &revisions).await
        else {
            return Next::After(TICK);
        };
        let ready = readiness(&status, unestablished.as_deref());
        if let Err(next) = self.write(rollout.clone(), &status, [accepted, ready]).await {
            return next;
        }
        for (cause, reason, message) in events {
            match cause {
                Some(cause) => self.recorder.failure(&rollout, reason, message, cause),
                None => self.recorder.normal(&rollout, reason, message),
            }
        }
        self.forget_old_trials(&status);
        let is_new = status.history.first() != before.history.first();
        let ended = status.history.first().filter(|_| is_new).map(|record| record.result);
        self.context.metrics.rollout(meta::name(&rollout), &status, ended);
        seen.until = requeue_after.map(after);
        self.lock().insert(meta::name(&rollout).to_owned(), seen);
        self.rest(&rollout, &status, requeue_after)
    }

    /// Wait for changes, or for this time if there are none.
    fn rest(&self, rollout: &Object, status: &FunctionRolloutStatus, pause: Option<Duration>) -> Next {
        if !is_under_way(status) {
            // Changes of composite resources do not matter any more.
            self.running().remove(meta::name(rollout));
            return Next::Rest;
        }
        pause.map_or(Next::Rest, Next::After)
    }

    /// The revisions of what a rollout is for.
    fn revisions(&self, spec: &FunctionRolloutSpec) -> Vec<RevisionFact> {
        match spec.target() {
            RolloutTarget::Function(function) => self.functions.revision_facts(function),
            RolloutTarget::Composition(composition) => self.composites.composition_facts(composition),
        }
    }

    fn observe_changes(&self, rollout: &Object) -> Seen {
        let news = self.functions.trials().news();
        let version = meta::resource_version(rollout).to_owned();
        let epoch = (self.functions.current().epoch, self.composites.rollout_epoch());
        Seen { news, epoch, version, until: None }
    }

    /// When to reconcile again, if nothing changed since the last decision.
    fn is_unchanged(&self, rollout: &Object, now: &Seen) -> Option<Next> {
        let seen = self.lock().get(meta::name(rollout)).cloned()?;
        let is_over = seen.until.is_some_and(|until| until <= Instant::now());
        let is_same = seen.news == now.news && seen.epoch == now.epoch && seen.version == now.version;
        if is_over || !is_same {
            return None;
        }
        let pause = seen.until.map(|until| until.saturating_duration_since(Instant::now()));
        Some(self.rest(rollout, &status_of(rollout), pause))
    }

    /// The decision, and the definition that it waits for. None while not all composite resources are cached.
    async fn decide(
        &self,
        rollout: &Object,
        spec: &FunctionRolloutSpec,
        status: &FunctionRolloutStatus,
        revisions: &[RevisionFact],
    ) -> Option<(Decision, Option<String>)> {
        let command = |key: &str| Some(meta::annotation(rollout, key)).filter(|value| !value.is_empty());
        let commands = Commands {
            promote: command(PROMOTE_ANNOTATION),
            undo: command(UNDO_ANNOTATION),
            requested_at: command(REQUESTED_AT_ANNOTATION),
        };
        let untried = Tried::default();
        let (now, calls) = (self.context.clock.timestamp().as_second(), self.calls(status));
        let restart = status.candidate.as_deref().map(|it| self.functions.restart(it)).unwrap_or_default();
        let observation = Observation {
            spec,
            status,
            commands,
            revisions,
            subjects: &[],
            unestablished: None,
            tried: &untried,
            calls,
            restart,
            now,
        };
        let known = if observation.needs_subjects() {
            self.subjects(spec, status).await?
        } else {
            KnownSubjects::default()
        };
        // After the subjects: a difference that decides about one of them has to be among those that are recorded.
        let tried =
            status.candidate.as_deref().map(|it| self.functions.trials().tried(it)).unwrap_or_default();
        let unestablished = known.unestablished.as_deref();
        let observation =
            Observation { subjects: &known.subjects, unestablished, tried: &tried, ..observation };
        Some((decide(&observation), known.unestablished))
    }

    fn calls(&self, status: &FunctionRolloutStatus) -> CallCounts {
        let of = |revision: &Option<String>| {
            revision.as_deref().map(|revision| self.functions.calls().of(revision)).unwrap_or_default()
        };
        CallCounts { stable: of(&status.stable), candidate: of(&status.candidate) }
    }

    async fn subjects(
        &self,
        spec: &FunctionRolloutSpec,
        status: &FunctionRolloutStatus,
    ) -> Option<KnownSubjects> {
        let mut known = self.composites.subjects(spec.target(), spec.first.as_ref()).await?;
        if let Some(candidate) = &status.candidate {
            let trials = self.functions.trials().of(candidate);
            for subject in &mut known.subjects {
                let trial = trials.get(&subject.uid);
                subject.trial = trial.map(|trial| trial.differences);
                subject.was_composed = trial.is_some_and(|trial| trial.has_composed);
            }
        }
        Some(known)
    }

    async fn write(
        &self,
        mut rollout: Object,
        status: &FunctionRolloutStatus,
        conditions: [Condition; 2],
    ) -> Result<(), Next> {
        let mut fields = status_with(&rollout, conditions, &self.context.clock.now());
        let conditions = fields.remove("conditions").unwrap_or_default();
        let Ok(Value::Object(mut fields)) = serde_json::to_value(status) else { return Err(Next::Rest) };
        fields.insert("conditions".to_owned(), conditions);
        write_status(&self.context.cluster, &self.rollouts, &mut rollout, fields).await
    }

    fn forget_old_trials(&self, latest: &FunctionRolloutStatus) {
        let rollouts = self.rollouts.objects();
        let statuses: Vec<_> = rollouts.iter().map(status_of).collect();
        let candidates = statuses.iter().chain([latest]).filter_map(|status| status.candidate.as_deref());
        self.functions.trials().keep(&candidates.collect::<BTreeSet<_>>());
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status_of(rollout: &Object) -> FunctionRolloutStatus {
    let status = rollout.get("status").cloned().unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

/// Whether composite resources are being moved, there or back.
fn is_under_way(status: &FunctionRolloutStatus) -> bool {
    status.candidate.is_some() || status.state == RolloutState::RollingBack
}

/// The condition that says whether all composite resources call their revision.
fn readiness(status: &FunctionRolloutStatus, unestablished: Option<&str>) -> Condition {
    if let Some(definition) = unestablished.filter(|_| is_under_way(status)) {
        return Condition::new("Ready", Status::False, "WaitingForDefinition")
            .with_message(waits_for(definition));
    }
    let is_ready =
        matches!(status.state, RolloutState::Idle | RolloutState::Promoted) && status.stable.is_some();
    let holds = if is_ready { Status::True } else { Status::False };
    // Numbers change with every composite resource: they are only in the message of the status, so that the
    // condition does not flap.
    let message = match status.state {
        RolloutState::Progressing => "Composite resources are being moved",
        _ => &status.message,
    };
    let ready = Condition::new("Ready", holds, status.state.as_str()).with_message(message);
    let has_failed = match status.state {
        RolloutState::RollingBack | RolloutState::RolledBack => true,
        RolloutState::Paused => status.rejected.is_some() && status.rejected == status.candidate,
        _ => false,
    };
    if has_failed { ready.with_failure(Cause::RolloutNotCompleted.into()) } else { ready }
}
