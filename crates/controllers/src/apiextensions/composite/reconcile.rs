//! The story of a composite resource: select, observe, decide, apply, settle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::ObjectPath;
use ferroplane_engine::composite::{
    Begin, COMPOSE, Ending, Published, Selected, begin, composite_for_functions, published_event,
    remove_own_status,
};
use ferroplane_engine::{
    CompositeSubject, Event, Grants, Inputs, NAMESPACE_OVERRIDDEN, Observed, Outcome, Pipeline, Requirement,
    Subject, Trouble,
};
use ferroplane_recorder::{Ending as RecordingEnding, RecordingBuilder};
use ferroplane_runner::drive_noting;
use ferroplane_wire::Struct;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, field, warn};

use super::apply::Applied;
use super::controller::Controller;
use super::fingerprints::Basis;
use super::intercept::{Intercepted, Shadow};
use super::memory::Name;
use super::observe::{LiveSource, ObservedSource, ObservedState};
use super::problem::{Problem, Report};
use super::requeue::Failed;
use super::required::RequiredResources;
use super::select::{Epoch, Follows, Selection};
use super::spans;
use super::trial::{Decided, Instead, OnTrial};
use crate::function_registry::CallableFunctions;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Slot};

/// How long composing may take. Telling what came of it is not part of that, nor is a developer's process whose answers are only
/// compared.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often to wait for the pipeline of a new revision to be checked before that is told.
const PATIENT_LOOKS: u32 = 4;

/// A composite resource while it is reconciled. The phases take it, and leave in it what they did.
pub(super) struct Reconciliation<'a> {
    pub(super) name: Name,
    /// The composite resource. Writes make it what they came to.
    pub(super) live: Object,
    /// What identifies that which was selected, and when that was.
    pub(super) identity: Arc<str>,
    pub(super) epoch: Epoch,
    /// What may be read besides what may be anyway.
    grants: Arc<Grants>,
    /// How often functions had come back by then.
    pub(super) returns: u64,
    /// The revision that was selected, if one was.
    pub(super) revision: Arc<str>,
    /// Whether a rollout refuses what its candidates decided, so that others decide.
    pub(super) is_refused: bool,
    /// What is to be told, in this order.
    pub(super) events: Vec<Event>,
    pub(super) recording: RecordingBuilder,
    pub(super) required: RequiredResources<'a>,
    slot: &'a Slot,
}

/// What came of composing.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) outcome: Outcome,
    pub(super) unsynced: BTreeSet<String>,
    /// What the last run of the pipeline was made from.
    pub(super) basis: Basis,
    /// What functions saw of the composite resource.
    pub(super) composite: Object,
    /// Whether the last run changed what it was made from.
    pub(super) has_news: bool,
    published: Published,
}

/// What is run.
pub(super) struct Run {
    selected: Selected,
    pipeline: Arc<Pipeline>,
    /// The candidates of rollouts that are among what it calls.
    trial: Option<OnTrial>,
    /// A developer's process that is asked the same.
    shadow: Option<Shadow>,
    callables: Arc<CallableFunctions>,
}

impl Run {
    /// What it calls.
    pub(super) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// What is run in the end, given whether candidates of rollouts are refused.
    fn decisive(&self, is_refused: bool) -> &Arc<Pipeline> {
        let trial = self.trial.as_ref().filter(|_| is_refused);
        trial.and_then(|trial| trial.other().ok()).unwrap_or(&self.pipeline)
    }

    /// What is followed in place of the candidate of a rollout of the composition that is refused.
    fn instead(&self, is_refused: bool) -> Option<&Instead> {
        self.trial.as_ref().filter(|_| is_refused)?.instead()
    }

    /// What is followed in the end.
    fn selected(&self, is_refused: bool) -> &Selected {
        self.instead(is_refused).map_or(&self.selected, |instead| &instead.selected)
    }
}

/// What functions are asked about.
pub(super) struct Question<'a> {
    /// The composite resource as functions see it.
    pub(super) composite: &'a Object,
    pub(super) pipeline: &'a Arc<Pipeline>,
    pub(super) observed: &'a BTreeMap<String, Observed>,
    /// What functions asked for the last time.
    pub(super) remembered: Vec<Requirement>,
    pub(super) grants: &'a Arc<Grants>,
}

/// What a round starts from.
struct Input {
    /// What functions see of the composite resource.
    composite: Object,
    /// What functions asked for the last time.
    remembered: Vec<Requirement>,
    /// One, or two.
    number: usize,
}

/// What a run of the pipeline is made from.
pub(super) struct Considered<'a> {
    /// What functions see of the composite resource.
    pub(super) composite: &'a Object,
    pub(super) state: &'a ObservedState,
    /// What functions asked for the last time.
    pub(super) remembered: &'a [Requirement],
}

/// A run of the pipeline, carried out.
struct Round {
    outcome: Outcome,
    applied: Applied,
    basis: Basis,
    /// What functions saw of the composite resource.
    composite: Object,
}

impl Controller {
    pub(super) async fn reconcile(self: Arc<Self>, name: Name, slot: Slot) -> Next {
        let Some(live) = self.informer.get_by_key(&name).and_then(|held| self.informer.to_object(&held))
        else {
            self.tally.remove(&name);
            self.forget(&name);
            return Next::Rest;
        };
        self.tally.set(&name, &live);
        // Selected once, before anything else: whether anything changed depends on what is selected, and everything after goes
        // by the same.
        let selection = match begin(&live) {
            Begin::Run => {
                let selection = self.select(&live);
                self.note_uncallable(&live, &selection);
                self.note_denied(&live, &selection);
                if let Some(next) = self.leave_alone(&name, &live, &selection).await {
                    return next;
                }
                Some(selection)
            }
            Begin::Paused | Begin::Deleting => None,
        };
        let (span, written_for) = (spans::begin(&live), cause_of_writes(&live));
        let acting = self.act(&name, live, selection, &slot).instrument(span.clone());
        let result = written_for.scope(Box::pin(acting)).await;
        spans::end(&span, &result);
        result.unwrap_or_else(|problem| self.requeue_unsettled(&name, &problem))
    }

    async fn act(
        &self,
        name: &Name,
        live: Object,
        selection: Option<Selection>,
        slot: &Slot,
    ) -> Result<Next, Problem> {
        let begin = begin(&live);
        let Some(Selection { result, identity, grants, epoch }) = selection else {
            let mut it = self.reconciliation(name, live, slot);
            return if begin == Begin::Paused {
                self.pause(&mut it).await
            } else {
                self.let_go(&mut it).await
            };
        };
        let recordings = &self.shared.context.recordings;
        let recording = recordings.begin(&live, &self.sensitive, self.shared.context.clock.milliseconds());
        let it = self.reconciliation(name, live, slot);
        let mut it = Reconciliation { identity, epoch, grants, recording, ..it };
        let began_at = Instant::now();
        let allowance = result.as_ref().map_or(Duration::ZERO, |follows| follows.intercepted.allowance());
        let composing = tokio::time::timeout(PATIENCE + allowance, self.compose(&mut it, result));
        let composed = composing.await.unwrap_or_else(|_| Err(late()));
        let next = self.conclude(&mut it, composed).await;
        let micros = began_at.elapsed().as_micros();
        if let Err(problem) = &next {
            // It could not be told, so that nothing is remembered of this reconcile; but what it asked for is followed, and
            // has to be let go one day.
            self.memory.note_asked(name, it.required.asked());
            if let Problem::Trouble(report) = problem {
                it.recording.trouble(&report.trouble.message);
            }
        }
        it.recording.end(ending(&next), micros);
        recordings.keep(it.recording);
        debug!(micros, "reconciled a composite resource");
        next
    }

    fn reconciliation<'a>(&'a self, name: &Name, live: Object, slot: &'a Slot) -> Reconciliation<'a> {
        Reconciliation {
            name: name.clone(),
            live,
            identity: Arc::default(),
            epoch: Epoch::default(),
            grants: Arc::default(),
            returns: self.shared.functions.returns(),
            revision: Arc::default(),
            is_refused: false,
            events: Vec::new(),
            recording: RecordingBuilder::off(),
            required: RequiredResources::new(&self.shared, &self.kind.definition, name),
            slot,
        }
    }

    /// Each line must hold before the next may happen.
    async fn compose(
        &self,
        it: &mut Reconciliation<'_>,
        selection: Result<Follows, Problem>,
    ) -> Result<Composed, Problem> {
        let run = self.adopt(it, selection?).await?;
        let before = self.memory.last(&it.name).map(|last| last.requirements).unwrap_or_default();
        // Functions see it as it will be, not as it was read: it gets the finalizer when references are recorded.
        let finalizer = Some(keys::COMPOSITE_FINALIZER);
        let composite = composite_for_functions(&it.live, self.layout, &run.selected, finalizer);
        let mut round =
            self.round(it, &run, Input { composite, remembered: before.to_vec(), number: 1 }).await?;
        let mut asked = before.to_vec();
        if round.applied.has_news {
            asked.extend_from_slice(&round.outcome.requirements);
            // Boxed: it holds all that a round does and more, and every reconcile would have to hold room for it.
            round = Box::pin(self.round_again(it, &run, round)).await?;
        }
        let published = match self.publish_details(it, &mut round).await {
            Ok(published) => published,
            Err(problem) => return Err(problem.after(round.outcome)),
        };
        let Round { outcome, applied, basis, composite } = round;
        asked.extend(it.required.asked());
        self.shared.dependencies.follow(&self.kind.definition, &it.name, &asked, &outcome.requirements);
        Ok(Composed {
            outcome,
            unsynced: applied.unsynced,
            basis,
            composite,
            has_news: applied.has_news,
            published,
        })
    }

    /// Go by what was selected. It is written down even if it cannot be used.
    async fn adopt(&self, it: &mut Reconciliation<'_>, follows: Follows) -> Result<Run, Problem> {
        let Follows { selected, revision, events, pipeline, trial, intercepted, callables, .. } = follows;
        let failures = self.memory.last(&it.name).map_or(0, |last| last.failures);
        // Another controller is checking its pipeline right now. To say so would only flash up and go.
        if revision.is_new && failures < PATIENT_LOOKS {
            return Err(Problem::Early);
        }
        it.revision = revision.name.clone();
        it.events.extend(events);
        spans::selected(&selected);
        match pipeline {
            Ok(pipeline) => {
                it.recording.follows(&selected.composition, &revision.name);
                let shadow = match intercepted {
                    Intercepted::Shadow(shadow) => Some(shadow),
                    Intercepted::ForReal(intercept) => {
                        self.note_intercepted(it, &intercept);
                        None
                    }
                    Intercepted::No | Intercepted::Denied(..) => None,
                };
                Ok(Run { selected, pipeline, trial, shadow, callables })
            }
            Err(problem) => Err(self.record(it, &selected, None).await.err().unwrap_or(problem)),
        }
    }

    /// Observe, decide, apply.
    async fn round(&self, it: &mut Reconciliation<'_>, run: &Run, input: Input) -> Result<Round, Problem> {
        let Input { composite, remembered, number } = input;
        let source = LiveSource { controller: self, required: &it.required };
        let observing = self.observe(&composite, &source).instrument(spans::phase("observe", number)).await;
        let mut state = match observing {
            Ok(state) => state,
            // Nothing came of it, but what was selected stays selected.
            Err(problem) => return Err(self.record(it, &run.selected, None).await.err().unwrap_or(problem)),
        };
        for event in std::mem::take(&mut state.events) {
            // The first round has said it, perhaps.
            if !it.events.contains(&event) {
                it.events.push(event);
            }
        }
        let slot = it.slot;
        let considered = Considered { composite: &composite, state: &state, remembered: &remembered };
        let deciding = self.decide(it, run, &considered, number);
        // A function that hangs must not keep others from being called.
        let mut outcome = slot.wait_for(deciding.instrument(spans::phase("decide", number))).await?;
        // What functions were shown of Secrets has to stay as it was, as much as what they asked for.
        outcome.requirements.extend_from_slice(&state.secrets);
        if let Err(failure) = &outcome.result {
            let problem = Problem::from(Trouble::of(failure));
            self.record(it, run.selected(it.is_refused), None).await?;
            self.compare_shadow(it, run, &considered, &outcome, number).await;
            return Err(problem.after(outcome));
        }
        let carrying_out = self.carry_out(it, run, &outcome, &state);
        let applied = match carrying_out.instrument(spans::phase("apply", number)).await {
            Ok(applied) => applied,
            Err(problem) => return Err(problem.after(outcome)),
        };
        it.recording.did(applied.versions.len(), &applied.unsynced);
        self.compare_shadow(it, run, &considered, &outcome, number).await;
        let epochs = it.required.epochs_of(&outcome.requirements);
        let basis = Basis { identity: it.identity.clone(), versions: state.versions, epochs };
        let composite = match run.instead(it.is_refused).filter(|_| number == 1) {
            Some(instead) => instead.composite(&it.live, self.layout),
            None => composite,
        };
        Ok(Round { outcome, applied, basis, composite })
    }

    /// Ask a developer's process the same, if one is to be compared. Only after everything else: it may take its time.
    async fn compare_shadow(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        considered: &Considered<'_>,
        outcome: &Outcome,
        round: usize,
    ) {
        if let Some(shadow) = run.shadow.as_ref().filter(|_| round == 1) {
            let slot = it.slot;
            // Boxed: it is rare, and every reconcile would have to hold room for it.
            slot.wait_for(Box::pin(self.run_shadow(it, run, shadow, considered, outcome))).await;
        }
    }

    /// What was composed was not there when functions were asked: ask them again, as if they had been told what they said
    /// themselves. Not more often: a function that changes its mind each time would be asked for ever.
    async fn round_again(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        first: Round,
    ) -> Result<Round, Problem> {
        let composite = foresee(&it.live, &first.composite, &first.outcome);
        it.events.extend(first.applied.events);
        // Next time it is where it should be, and nobody would know.
        let is_about_namespace = |event: &Event| event.reason == NAMESPACE_OVERRIDDEN;
        it.events.extend(first.outcome.events.into_iter().filter(is_about_namespace));
        let input = Input { composite, remembered: first.outcome.requirements, number: 2 };
        self.round(it, run, input).await
    }

    async fn decide(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        considered: &Considered<'_>,
        number: usize,
    ) -> Result<Outcome, Problem> {
        let pipeline = run.decisive(it.is_refused);
        let inputs = self.live_inputs(it, pipeline, considered).await?;
        let notes = it.recording.run(&inputs);
        let callables = self.callables(pipeline, &run.callables);
        let began_at = Instant::now();
        let outcome = drive_noting(inputs, &callables.directory, &it.required, notes).await;
        let took = began_at.elapsed();
        it.recording.came_to(&outcome);
        self.shared.context.metrics.count_versions(&outcome.ran);
        // What was refused once in a reconcile is not asked again.
        match run.trial.as_ref().filter(|_| !it.is_refused) {
            // Boxed: trials are rare, and every reconcile would have to hold room for one.
            Some(trial) => {
                let decided = Decided { outcome, took };
                Box::pin(self.judge(it, run, trial, considered, (decided, number))).await
            }
            None => Ok(outcome),
        }
    }

    /// Decide what another pipeline would do. It is recorded as a run that was only tried.
    pub(super) async fn decide_besides(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        pipeline: &Arc<Pipeline>,
        considered: &Considered<'_>,
    ) -> Result<Decided, Problem> {
        let inputs = self.live_inputs(it, pipeline, considered).await?;
        let callables = self.callables(pipeline, &run.callables);
        let notes = it.recording.try_run(&inputs);
        let began_at = Instant::now();
        let outcome = drive_noting(inputs, &callables.directory, &it.required, notes).await;
        it.recording.trial_came_to(&outcome);
        Ok(Decided { outcome, took: began_at.elapsed() })
    }

    /// The pipeline names revisions. Where each is served is looked up now: it may have moved since the pipeline was resolved. A
    /// revision that is not listed any more still answers whoever began with it.
    fn callables(&self, pipeline: &Pipeline, begun_with: &Arc<CallableFunctions>) -> Arc<CallableFunctions> {
        let current = self.shared.functions.current();
        if current.lists(pipeline) { current } else { begun_with.clone() }
    }

    async fn live_inputs(
        &self,
        it: &Reconciliation<'_>,
        pipeline: &Arc<Pipeline>,
        considered: &Considered<'_>,
    ) -> Result<Inputs, Problem> {
        let Considered { composite, state, remembered } = considered;
        let source = LiveSource { controller: self, required: &it.required };
        let (observed, remembered) = (&state.observed, remembered.to_vec());
        self.inputs(Question { composite, pipeline, observed, remembered, grants: &it.grants }, &source).await
    }

    /// What a run of the pipeline starts from. Plans start from the same.
    pub(super) async fn inputs(
        &self,
        question: Question<'_>,
        source: &impl ObservedSource,
    ) -> Result<Inputs, Problem> {
        let Question { composite, pipeline, observed, remembered, grants } = question;
        let subject = CompositeSubject {
            connection_details: self.own_connection_details(composite, source).await?,
            object: Struct::try_from(composite.clone()).map_err(|error| {
                let message = format!("cannot read the composite resource: {error}");
                Problem::new(COMPOSE, Cause::CompositeResourceInvalid, message)
            })?,
            layout: self.layout,
            observed: observed.clone(),
        };
        Ok(Inputs {
            subject: Subject::Composite(subject),
            pipeline: pipeline.clone(),
            remembered,
            context: None,
            grants: grants.clone(),
        })
    }

    /// Do what was decided.
    async fn carry_out(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        outcome: &Outcome,
        state: &ObservedState,
    ) -> Result<Applied, Problem> {
        let Ok(plan) = &outcome.result else { return Ok(Applied::default()) };
        // Delete before references are rewritten, and record references before anything is created. In any other order a
        // crash halfway leaves a resource that nobody remembers.
        let has_deleted = self.delete_unwanted(&it.live, &plan.delete).await?;
        self.record(it, run.selected(it.is_refused), Some(&plan.references)).await?;
        let mut applied = self.apply_wanted(&it.live, plan, state).await?;
        applied.has_news |= has_deleted;
        Ok(applied)
    }

    /// Publish the connection details of the last round. Its events come first.
    async fn publish_details(
        &self,
        it: &mut Reconciliation<'_>,
        round: &mut Round,
    ) -> Result<Published, Problem> {
        it.events.append(&mut round.applied.events);
        let Ok(plan) = &round.outcome.result else { return Ok(Published::Before) };
        if !self.publish(&it.live, &plan.connection_details).await? {
            return Ok(Published::Before);
        }
        it.events.push(published_event());
        Ok(Published::Now)
    }

    /// Tell what came of it, and decide when to reconcile again.
    async fn conclude(
        &self,
        it: &mut Reconciliation<'_>,
        result: Result<Composed, Problem>,
    ) -> Result<Next, Problem> {
        match result {
            Ok(composed) => {
                let (unsynced, published) = (composed.unsynced.clone(), composed.published);
                let ending = Ending::Composed { outcome: &composed.outcome, unsynced, published };
                let settled = self.settle(it, ending).instrument(spans::phase("settle", 1)).await?;
                Ok(self.requeue_composed(it, composed, settled))
            }
            Err(Problem::Trouble(report)) => self.fail(it, *report).await,
            Err(Problem::Early) => {
                let asked = it.required.asked();
                Ok(self.requeue_failed(it, asked, Failed::default()).await)
            }
            Err(other) => Err(other),
        }
    }

    async fn fail(&self, it: &mut Reconciliation<'_>, report: Report) -> Result<Next, Problem> {
        it.recording.trouble(&report.trouble.message);
        let (outcome, denied) = (report.outcome.as_deref(), report.denied.as_deref());
        let ending = Ending::Failed { trouble: &report.trouble, outcome, denied };
        let settled = self.settle(it, ending).instrument(spans::phase("settle", 1)).await?;
        spans::fail(report.trouble.reason);
        // What is the same as before was said before.
        if settled.is_written {
            warn!(
                kind = meta::kind(&it.live),
                namespace = meta::namespace(&it.live),
                name = meta::name(&it.live),
                step = report.step().map(field::display),
                reason = report.trouble.reason,
                error = report.log_message(),
                "cannot compose"
            );
            audit(&it.live, &report);
        }
        let failed = Failed {
            is_overtaken: settled.is_overtaken,
            is_function_missing: report.trouble.failure.cause == Cause::FunctionUnreachable,
        };
        let mut requirements = report.outcome.map(|outcome| outcome.requirements).unwrap_or_default();
        // What was asked for in vain is what may help.
        requirements.extend(it.required.asked());
        Ok(self.requeue_failed(it, requirements, failed).await)
    }

    async fn pause(&self, it: &mut Reconciliation<'_>) -> Result<Next, Problem> {
        self.settle(it, Ending::Paused).await?;
        self.memory.invalidate(&it.name);
        Ok(Next::Rest)
    }

    /// Somebody wants it gone: stop keeping it. What it composes goes with it.
    async fn let_go(&self, it: &mut Reconciliation<'_>) -> Result<Next, Problem> {
        // First of all: whatever happens to what it composed does not concern it any more.
        self.forget(&it.name);
        if finalizers::has(&it.live, keys::COMPOSITE_FINALIZER) {
            let (namespace, name) = (meta::namespace(&it.live), meta::name(&it.live));
            let path = ObjectPath { resource: &self.kind.resource, namespace, name };
            let cluster = &self.shared.context.cluster;
            let removed = finalizers::remove(cluster, path, &it.live, keys::COMPOSITE_FINALIZER).await;
            let fail =
                |error| Problem::refused("DeleteCompositeResource", "cannot remove the finalizer", &error);
            match removed.map_err(fail)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                Some(object) => it.live = object,
                None => return Ok(Next::Rest),
            }
        }
        if !finalizers::is_empty(&it.live) {
            self.settle(it, Ending::Deleting).await?;
        }
        Ok(Next::Rest)
    }

    /// What came of it could not even be told.
    fn requeue_unsettled(&self, name: &Name, problem: &Problem) -> Next {
        match problem {
            Problem::Gone | Problem::Early => return Next::Rest,
            Problem::Conflict => {}
            Problem::Trouble(report) => {
                let (namespace, name) = name.split_once('/').unwrap_or_default();
                let (kind, error) = (&self.kind.resource.kind, report.log_message());
                warn!(kind, namespace, name, error, "cannot write the status of a composite resource");
            }
        }
        self.memory.invalidate(name);
        if matches!(problem, Problem::Conflict) { Next::Conflict } else { Next::Retry }
    }

    fn forget(&self, name: &Name) {
        if let Some(last) = self.memory.last(name) {
            self.shared.dependencies.follow(&self.kind.definition, name, &last.requirements, &[]);
        }
        self.memory.forget(name);
        self.queue.forget(name);
    }
}

/// How a reconcile ended that could be told of. One that failed before has said so on its recording.
fn ending(next: &Result<Next, Problem>) -> RecordingEnding {
    match next {
        Ok(_) => RecordingEnding::Succeeded,
        Err(Problem::Conflict) => RecordingEnding::Conflict,
        Err(Problem::Gone | Problem::Early) => RecordingEnding::Gone,
        Err(Problem::Trouble(_)) => RecordingEnding::Failed,
    }
}

/// Write down who was kept from what is not theirs. Only once: what is the same as before was said before.
fn audit(composite: &Object, report: &Report) {
    let cause = report.trouble.failure.cause;
    if ![Cause::AccessNotGranted, Cause::ConnectionSecretControlled].contains(&cause) {
        return;
    }
    warn!(
        target: "audit",
        decision = "deny",
        cause = cause.code(),
        apiVersion = meta::api_version(composite),
        kind = meta::kind(composite),
        namespace = meta::namespace(composite),
        name = meta::name(composite),
        uid = meta::uid(composite),
        generation = meta::generation(composite),
        step = report.step().map(field::display),
        reason = report.trouble.message,
        "denied access to an object"
    );
}

fn late() -> Problem {
    let message = format!("composing took longer than {} seconds", PATIENCE.as_secs());
    Problem::new(COMPOSE, Cause::CompositionTimeout, message)
}

/// The composite resource as it will be once its status is written.
pub(super) fn foresee(live: &Object, seen: &Object, outcome: &Outcome) -> Object {
    let mut composite = live.clone();
    let status = outcome.result.as_ref().ok().and_then(|plan| plan.status.clone()).unwrap_or_default();
    // Over what functions saw, field by field, as the status will be merged.
    let mut foreseen = seen.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    foreseen.extend(status);
    if !foreseen.is_empty() {
        composite.insert("status".to_owned(), Value::Object(foreseen));
    }
    remove_own_status(&mut composite);
    composite
}
