//! `FunctionRollout`s: observes composite resources, decides, and writes the status. Everything else follows the status.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{
    Condition, FunctionRolloutSpec, FunctionRolloutStatus, Object, PROMOTE_ANNOTATION, RolloutState,
    RolloutTarget, Status, UNDO_ANNOTATION, meta,
};
use ferroplane_client::Informer;
use ferroplane_engine::EventKind;
use ferroplane_engine::rollout::{CallCounts, Commands, Decision, Observation, Subject, accept, decide};
use serde_json::Value;
use tokio::time::Instant;

use crate::apiextensions::composite::Composites;
use crate::context::Context;
use crate::runtime::backoff::after;
use crate::function_registry::FunctionRegistry;
use crate::ops::status::{status_with, write_status};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "functionrollout/functionrollout.rollout.ferroplane.io";
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a running rollout checks whether any composite resource has changed. That costs nothing if none has.
const TICK: Duration = Duration::from_millis(200);

/// Move composite resources to new revisions of functions, until dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    composites: Arc<Composites>,
    functions: Arc<FunctionRegistry>,
    can_choose: bool,
) {
    let recorder = context.recorder.of(COMPONENT);
    let (rollouts, seen) = (context.rollouts.clone(), Mutex::default());
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let controller =
        Arc::new(Controller { context, composites, functions, recorder, rollouts, seen, can_choose });
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
    /// Whether several revisions of a Function can be active.
    can_choose: bool,
}

/// The inputs of a decision, as far as they can change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// The epoch of composite resources and trials.
    news: u64,
    /// The epochs of functions and compositions.
    epoch: (u64, u64),
    version: String,
    /// When to decide again, even if nothing changes.
    until: Option<Instant>,
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let Context { functions, function_revisions, compositions, revisions, .. } = &*self.context;
        for informer in [&self.rollouts, functions, function_revisions, compositions, revisions] {
            let (controller, queue) = (Arc::downgrade(self), queue.clone());
            // There are few rollouts, and each can affect another: of two for one Function, one is refused.
            informer.listen(move |_, _| {
                let rollouts = controller.upgrade().map(|controller| controller.rollouts.objects());
                rollouts.iter().flatten().for_each(|rollout| queue.add(meta::name(rollout).to_owned()));
            });
        }
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(rollout) = self.rollouts.object("", &name).filter(|it| !meta::is_being_deleted(it)) else {
            self.lock().remove(&name);
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
        let accepted = accept(&rollout, &self.rollouts.objects(), target.as_ref(), self.can_choose);
        let before = status_of(&rollout);
        if accepted.status != Status::True {
            let ready =
                Condition::new("Ready", Status::False, &accepted.reason).with_message(&*accepted.message);
            let status =
                FunctionRolloutStatus { history: before.history, ..FunctionRolloutStatus::default() };
            return self.write(rollout, &status, [accepted, ready]).await.err().unwrap_or(Next::Rest);
        }
        // Before anything is observed: a change meanwhile is noticed.
        let mut seen = self.observe_changes(&rollout);
        if let Some(next) = self.is_unchanged(&rollout, &seen) {
            return next;
        }
        let Some(Decision { status, events, requeue_after }) = self.decide(&rollout, spec, &before).await
        else {
            return Next::After(TICK);
        };
        let ready = readiness(&status);
        if let Err(next) = self.write(rollout.clone(), &status, [accepted, ready]).await {
            return next;
        }
        for (kind, reason, message) in events {
            match kind {
                EventKind::Normal => self.recorder.normal(&rollout, reason, message),
                EventKind::Warning => self.recorder.warning(&rollout, reason, message),
            }
        }
        self.forget_old_trials(&status);
        let is_new = status.history.first() != before.history.first();
        let ended = status.history.first().filter(|_| is_new).map(|record| record.result);
        self.context.metrics.rollout(meta::name(&rollout), &status, ended);
        seen.until = requeue_after.map(after);
        self.lock().insert(meta::name(&rollout).to_owned(), seen);
        if is_under_way(&status) { Next::After(TICK) } else { Next::Rest }
    }

    fn observe_changes(&self, rollout: &Object) -> Seen {
        let news = self.functions.trials().news();
        let version = meta::resource_version(rollout).to_owned();
        let epoch = (self.functions.current().epoch, self.composites.composition_epoch());
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
        Some(if is_under_way(&status_of(rollout)) { Next::After(TICK) } else { Next::Rest })
    }

    /// The decision. None while not all composite resources are cached.
    async fn decide(
        &self,
        rollout: &Object,
        spec: &FunctionRolloutSpec,
        status: &FunctionRolloutStatus,
    ) -> Option<Decision> {
        let command = |key: &str| Some(meta::annotation(rollout, key)).filter(|value| !value.is_empty());
        let commands = Commands { promote: command(PROMOTE_ANNOTATION), undo: command(UNDO_ANNOTATION) };
        let revisions = match spec.target() {
            RolloutTarget::Function(function) => self.functions.revision_facts(function),
            RolloutTarget::Composition(composition) => self.composites.composition_facts(composition),
        };
        let tried =
            status.candidate.as_deref().map(|it| self.functions.trials().tried(it)).unwrap_or_default();
        let (now, calls) = (self.context.clock.timestamp().as_second(), self.calls(status));
        let restart = status.candidate.as_deref().map(|it| self.functions.restart(it)).unwrap_or_default();
        let mut observation = Observation {
            spec,
            status,
            commands,
            revisions: &revisions,
            subjects: &[],
            tried: &tried,
            calls,
            restart,
            now,
        };
        let subjects =
            if observation.needs_subjects() { self.subjects(spec, status).await? } else { Vec::new() };
        observation.subjects = &subjects;
        Some(decide(&observation))
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
    ) -> Option<Vec<Subject>> {
        let mut subjects = self.composites.subjects(spec.target(), spec.first.as_ref()).await?;
        if let Some(candidate) = &status.candidate {
            let trials = self.functions.trials().of(candidate);
            for subject in &mut subjects {
                subject.trial = trials.get(&subject.uid).copied();
            }
        }
        Some(subjects)
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
fn readiness(status: &FunctionRolloutStatus) -> Condition {
    let is_ready =
        matches!(status.state, RolloutState::Idle | RolloutState::Promoted) && status.stable.is_some();
    let holds = if is_ready { Status::True } else { Status::False };
    // Numbers change with every composite resource: they are only in the message of the status, so that the
    // condition does not flap.
    let message = match status.state {
        RolloutState::Progressing => "composite resources are being moved",
        _ => &status.message,
    };
    Condition::new("Ready", holds, status.state.as_str()).with_message(message)
}
