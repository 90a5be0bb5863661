//! Reconciles a composite resource: select, observe, decide, apply, report.

mod round;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{ObjectPath, RequestCause};
use ferroplane_engine::composite::{
    Begin, COMPOSE, Ending, Published, SecretReference, Selected, begin, composite_for_functions,
    published_event,
};
use ferroplane_engine::{Event, Grants, Outcome, Pipeline, Requirement};
use ferroplane_recorder::{Ending as RecordingEnding, RecordingBuilder};
use tokio::time::Instant;
use tracing::{Instrument as _, debug, field, trace, warn};

use super::controller::Controller;
use super::fingerprints::{Basis, LastReconcile};
use super::intercept::{Intercepted, Shadow};
use super::memory::Name;
use super::problem::{Problem, Report};
use super::requeue::Failed;
use super::required::RequiredResources;
use super::secrets;
use super::select::{Epoch, Follows, Selection};
use super::spans;
use super::trial::{Instead, OnTrial};
use crate::function_registry::CallableFunctions;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Slot};

pub(super) use round::{Considered, Question};
use round::{Input, Round};

/// How long composing may take, without the report and without runs whose results are only compared.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
/// How many times to wait for the validation of a new revision before that is reported.
const PATIENT_LOOKS: u32 = 4;

/// A composite resource that is being reconciled. Each phase takes it, and records in it what it did.
pub(super) struct Reconciliation<'a> {
    pub(super) name: Name,
    /// The composite resource. Each write updates it with the response.
    pub(super) live: Object,
    /// Identifies the selection and its time.
    pub(super) identity: Arc<str>,
    pub(super) epoch: Epoch,
    /// The grants that apply to it.
    grants: Arc<Grants>,
    /// How many times functions had become reachable again by then.
    pub(super) returns: u64,
    /// The selected revision, if there is one.
    pub(super) revision: Arc<str>,
    /// Whether a rollout refuses the decision of its candidates, so that the stable revisions decide.
    pub(super) is_refused: bool,
    /// The events to record, in order.
    pub(super) events: Vec<Event>,
    pub(super) recording: RecordingBuilder,
    pub(super) required: RequiredResources<'a>,
    /// What steps asked for before, and were given at once in this round.
    pub(super) remembered: Arc<[Requirement]>,
    slot: &'a Slot,
}

/// The result of composing.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) outcome: Outcome,
    pub(super) unsynced: BTreeSet<String>,
    /// The inputs of the last run of the pipeline.
    pub(super) basis: Basis,
    /// The composite resource as functions saw it.
    pub(super) composite: Object,
    /// Whether the last run changed its own inputs.
    pub(super) has_news: bool,
    published: Published,
}

/// What is run.
pub(super) struct Run {
    selected: Selected,
    pipeline: Arc<Pipeline>,
    /// The candidates of rollouts that it calls.
    trial: Option<OnTrial>,
    /// A developer's process that is called with the same inputs.
    shadow: Option<Shadow>,
    callables: Arc<CallableFunctions>,
}

impl Run {
    /// The pipeline to run.
    pub(super) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The pipeline whose decision is applied, given whether candidates of rollouts are refused.
    fn decisive(&self, is_refused: bool) -> &Arc<Pipeline> {
        let trial = self.trial.as_ref().filter(|_| is_refused);
        trial.and_then(|trial| trial.other().ok()).unwrap_or(&self.pipeline)
    }

    /// The stable revision, if the candidate of a rollout of the composition is refused.
    fn instead(&self, is_refused: bool) -> Option<&Instead> {
        self.trial.as_ref().filter(|_| is_refused)?.instead()
    }

    /// The selection that is applied.
    fn selected(&self, is_refused: bool) -> &Selected {
        self.instead(is_refused).map_or(&self.selected, |instead| &instead.selected)
    }
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
        trace!("reconciling a composite resource");
        // Selected once, before anything else: whether anything changed depends on the selection, and everything
        // after uses the same one.
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
        let recording = recordings.begin(&live, self.shared.context.clock.milliseconds());
        let it = self.reconciliation(name, live, slot);
        let mut it = Reconciliation { identity, epoch, grants, recording, ..it };
        let began_at = Instant::now();
        let allowance = result.as_ref().map_or(Duration::ZERO, Follows::allowance);
        let composing = tokio::time::timeout(PATIENCE + allowance, self.compose(&mut it, result));
        let composed = composing.await.unwrap_or_else(|_| Err(late()));
        let next = self.conclude(&mut it, composed).await;
        let micros = began_at.elapsed().as_micros();
        if let Err(problem) = &next {
            // The report failed, so that nothing is remembered of this reconcile; but its requirements are watched,
            // and those watches have to end one day.
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
            remembered: Arc::default(),
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
        let last = self.memory.last(&it.name);
        // Another spec or another pipeline probably has other requirements. The engine discards responses to outdated
        // ones in any case; here, the call is saved.
        let is_same = |last: &&LastReconcile| {
            last.generation == meta::generation(&it.live) && last.revision == it.revision
        };
        let remembered = last.as_ref().filter(is_same).map(|last| last.requirements.clone());
        let before = last.map(|last| last.requirements).unwrap_or_default();
        // Functions see the composite resource as it will be: it gets the finalizer when references are recorded.
        let finalizer = Some(keys::COMPOSITE_FINALIZER);
        let composite = composite_for_functions(&it.live, self.layout, &run.selected, finalizer);
        let input = Input { composite, remembered: remembered.unwrap_or_default(), number: 1 };
        let mut round = self.round(it, &run, input).await?;
        let mut asked = before.to_vec();
        if round.applied.has_news {
            asked.extend_from_slice(&round.outcome.requirements);
            // Boxed: the future is large, and every reconcile would have to reserve space for it.
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

    /// Use a selection. It is recorded even if it cannot be used.
    async fn adopt(&self, it: &mut Reconciliation<'_>, follows: Follows) -> Result<Run, Problem> {
        let Follows { selected, revision, events, pipeline, trial, intercepted, callables, .. } = follows;
        let failures = self.memory.last(&it.name).map_or(0, |last| last.failures);
        // Another controller is validating the pipeline right now. A condition about it would only appear for an
        // instant.
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

    /// Publish the connection details of the last round. Its events come first.
    async fn publish_details(
        &self,
        it: &mut Reconciliation<'_>,
        round: &mut Round,
    ) -> Result<Published, Problem> {
        it.events.append(&mut round.applied.events);
        let Ok(plan) = &round.outcome.result else { return Ok(Published::Before) };
        let is_written = self.publish(&it.live, &plan.connection_details, &it.required).await?;
        // From now on the Secret is an input, too: it is written again if it is deleted or changed.
        if let Some(SecretReference { namespace, name }) = self.published_secret(&it.live) {
            let secret = secrets::requirement(namespace, name);
            round.basis.epochs.extend(it.required.epochs_of(std::slice::from_ref(&secret)));
            round.outcome.requirements.push(secret);
        }
        if !is_written {
            return Ok(Published::Before);
        }
        it.events.push(published_event());
        Ok(Published::Now)
    }

    /// Report the result, and decide when to reconcile again.
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
        let cause = cause_of_report(&it.live, &report);
        let settling = self.settle(it, ending).instrument(spans::phase("settle", 1));
        let settled = cause.scope(settling).await?;
        spans::fail(report.trouble.reason);
        // An event that was the same before was recorded before.
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
            is_unanswered: is_unanswered(it, &report),
        };
        let mut requirements = report.outcome.map(|outcome| outcome.requirements).unwrap_or_default();
        // The requirements of the failed run are watched: a change of them may solve the problem.
        requirements.extend(it.required.asked());
        Ok(self.requeue_failed(it, requirements, failed).await)
    }

    async fn pause(&self, it: &mut Reconciliation<'_>) -> Result<Next, Problem> {
        self.settle(it, Ending::Paused).await?;
        self.memory.invalidate(&it.name);
        Ok(Next::Rest)
    }

    /// It is being deleted: remove the finalizer. Garbage collection deletes its composed resources.
    async fn let_go(&self, it: &mut Reconciliation<'_>) -> Result<Next, Problem> {
        // Before everything else: changes of composed resources no longer concern it.
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

    /// The report itself failed.
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

/// The end of a reconcile for its recording. One that failed earlier has set it already.
fn ending(next: &Result<Next, Problem>) -> RecordingEnding {
    match next {
        Ok(_) => RecordingEnding::Succeeded,
        Err(Problem::Conflict) => RecordingEnding::Conflict,
        Err(Problem::Gone | Problem::Early) => RecordingEnding::Gone,
        Err(Problem::Trouble(_)) => RecordingEnding::Failed,
    }
}

/// Whether a step failed before its requirements were resolved. The next attempt resolves them.
fn is_unanswered(it: &Reconciliation<'_>, report: &Report) -> bool {
    let Some(outcome) = &report.outcome else { return false };
    // Requirements without a step are never resolved up front. One that could not be, although it was remembered,
    // cannot be the next time either.
    let is_open = |asked: &Requirement| {
        !asked.step.is_empty() && !it.required.has_read(&asked.selector) && !it.remembered.contains(asked)
    };
    if outcome.requirements.iter().any(is_open) {
        return true;
    }
    // Its requirements are unknown: the next attempt calls it without the remembered ones.
    report.trouble.failure.cause == Cause::FunctionTimeout
        && it.remembered.iter().any(|given| report.step() == Some(given.step.as_str()))
}

/// Whether a composite resource was denied an object that it has no right to.
fn is_denial(cause: Cause) -> bool {
    [Cause::AccessNotGranted, Cause::ConnectionSecretControlled].contains(&cause)
}

/// The cause of the write that reports a failure. Objects are denied before anything is requested, so that this write is where the
/// audit log of an API server in the same process can have the denial.
fn cause_of_report(composite: &Object, report: &Report) -> RequestCause {
    let (cause, failed) = (cause_of_writes(composite), report.trouble.failure.cause);
    if is_denial(failed) { cause.denied(failed.code(), &report.trouble.message) } else { cause }
}

/// Write to the log what was denied, for API servers elsewhere. Only once: a denial that was the same before was logged before.
fn audit(composite: &Object, report: &Report) {
    let cause = report.trouble.failure.cause;
    if !is_denial(cause) {
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
