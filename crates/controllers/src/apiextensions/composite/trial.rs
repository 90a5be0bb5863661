//! Tries candidates of rollouts: both revisions run on the same inputs, and the result is applied unless the rollout refuses it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Object, RolloutDifference, keys, meta};
use ferroplane_engine::composite::{Machinery, Selected, composite_for_functions};
use ferroplane_engine::rollout::{
    Choice, Comparison, Overlay, compare, compare_alone, is_slow, is_uncallable, recorded_as,
};
use ferroplane_engine::{Grants, Layout, Outcome, Pipeline, Plan, Preferences, Trouble};
use ferroplane_recorder::RecordingBuilder;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};

use super::controller::Controller;
use super::fingerprints::Basis;
use super::problem::Problem;
use super::reconcile::{Considered, PATIENCE, Reconciliation, Run};
use super::select::Selection;
use crate::apiextensions::composition_cache::{CompositionCache, Revision};
use crate::function_registry::CallableFunctions;
use crate::rollout::{Cohort, Proof, Trial};

/// A trial, and the alternative if it is refused.
#[derive(Debug)]
pub(super) struct OnTrial {
    /// The pipeline to compare with: the one without candidates or, in a preview, the one with them. An error if it cannot be called.
    other: Result<Arc<Pipeline>, Trouble>,
    is_preview: bool,
    /// The rollouts of the candidates. If there are several, each is responsible for what any of them does.
    rollouts: Vec<Overlay>,
    /// The selection of the other pipeline, if it is another revision of the composition.
    instead: Option<Instead>,
    /// Identifies both pipelines, whichever of them is run, and how they are compared.
    identity: Arc<str>,
}

/// Another revision of the composition.
#[derive(Debug)]
pub(super) struct Instead {
    pub(super) selected: Selected,
    pub(super) revision: Arc<Revision>,
}

/// A composite resource whose composition is rolled out.
pub(super) struct Moving<'o> {
    overlay: &'o Overlay,
    stable: Arc<Revision>,
    candidate: Option<Arc<Revision>>,
    has_moved: bool,
}

impl<'o> Moving<'o> {
    /// None for composite resources that name their revision, and if the stable one no longer exists.
    pub(super) fn of(
        live: &Object,
        preferences: &Preferences,
        overlay: &'o Overlay,
        compositions: &CompositionCache,
    ) -> Option<Self> {
        let is_pinned = preferences.is_manual && preferences.revision.is_some();
        if is_pinned || preferences.revision_selector.is_some() {
            return None;
        }
        let of_overlay = |name: &str| {
            compositions.revision(name).filter(|revision| revision.composition == overlay.composition)
        };
        let candidate = overlay.candidate.as_deref().and_then(of_overlay);
        let is_chosen = !preferences.is_manual && overlay.choose(live, false) == Choice::Candidate;
        let has_moved = is_chosen && candidate.is_some();
        Some(Self { overlay, stable: of_overlay(&overlay.stable)?, candidate, has_moved })
    }

    pub(super) fn overlay(&self) -> &'o Overlay {
        self.overlay
    }

    /// The revision that it uses.
    pub(super) fn followed(&self) -> &Arc<Revision> {
        self.candidate.as_ref().filter(|_| self.has_moved).unwrap_or(&self.stable)
    }

    /// The revision to compare with.
    pub(super) fn other(&self) -> Option<&Arc<Revision>> {
        if self.has_moved {
            Some(&self.stable)
        } else {
            self.candidate.as_ref().filter(|_| self.overlay.is_preview)
        }
    }
}

/// Candidates that cannot be called.
#[derive(Debug)]
pub(super) struct Uncallable {
    rollouts: Vec<Overlay>,
    comparison: Comparison,
}

/// The resolved functions of a revision.
pub(super) struct Resolved {
    pub(super) pipeline: Result<Arc<Pipeline>, Problem>,
    pub(super) trial: Option<OnTrial>,
    pub(super) uncallable: Option<Uncallable>,
}

/// A run of a pipeline, and how long it took.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

/// Whether a response that is still valid may be used in place of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Responses {
    Cached,
    Fresh,
}

/// A trial whose other pipeline can be called, and what both pipelines are run with.
#[derive(Clone, Copy)]
struct Tried<'a> {
    trial: &'a OnTrial,
    /// The pipeline to compare with.
    other: &'a Arc<Pipeline>,
    run: &'a Run,
    considered: &'a Considered<'a>,
}

/// Runs of both revisions with the same inputs.
struct Runs {
    old: Decided,
    new: Decided,
    /// The old revision once more, to measure its calls.
    old_again: Option<Decided>,
    /// The new revision once more, to compare its responses.
    new_again: Option<Decided>,
}

/// One of two revisions that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

impl Controller {
    /// Resolve the functions of a revision for a cohort. If a candidate cannot be called, resolve without it. Nothing is recorded, as
    /// plans use this, too.
    pub(super) fn resolve_on_trial(
        &self,
        live: &Object,
        revision: &Revision,
        callables: &CallableFunctions,
        cohort: Cohort,
    ) -> Resolved {
        let pipeline = self.resolve(revision, callables, cohort);
        if let Some((trial, uncallable)) = self.preview(live, revision, callables, cohort) {
            return Resolved { pipeline, trial, uncallable };
        }
        let moved = cohort.moved(&revision.open_functions).filter_map(|it| callables.overlays.get(it));
        let rollouts: Vec<_> = moved.cloned().collect();
        if rollouts.is_empty() {
            return Resolved { pipeline, trial: None, uncallable: None };
        }
        match (pipeline, self.resolve(revision, callables, cohort.unmoved())) {
            (Ok(pipeline), stable) => {
                let trial = or_trouble(stable).map(|other| OnTrial {
                    other,
                    is_preview: false,
                    rollouts,
                    instead: None,
                    identity: Arc::default(),
                });
                Resolved { pipeline: Ok(pipeline), trial, uncallable: None }
            }
            // If the stable revision ran meanwhile, it would delete resources that only the candidate composes.
            (Err(problem), Ok(_)) if self.is_awaited(&problem, &rollouts) => {
                Resolved { pipeline: Err(problem), trial: None, uncallable: None }
            }
            (Err(problem), Ok(stable)) => {
                let uncallable = Uncallable::because(&problem, rollouts);
                Resolved { pipeline: Ok(stable), trial: None, uncallable }
            }
            (Err(problem), Err(_)) => Resolved { pipeline: Err(problem), trial: None, uncallable: None },
        }
    }

    /// The candidates to try for a composite resource that does not call them, if that was not done yet.
    fn preview(
        &self,
        live: &Object,
        revision: &Revision,
        callables: &CallableFunctions,
        cohort: Cohort,
    ) -> Option<(Option<OnTrial>, Option<Uncallable>)> {
        let trials = self.shared.functions.trials();
        let is_due = |overlay: &&Overlay| {
            let candidate = overlay.candidate.as_deref().filter(|_| overlay.is_preview);
            candidate.is_some_and(|candidate| !trials.has(candidate, meta::uid(live)))
        };
        let open = &revision.open_functions;
        let due =
            open.iter().filter(|_| cohort == Cohort::default()).filter_map(|it| callables.overlays.get(it));
        let rollouts: Vec<_> = due.filter(is_due).cloned().collect();
        if rollouts.is_empty() || Machinery::of(live, self.layout).is_manual() {
            return None;
        }
        let moved = Cohort::moving(open, rollouts.iter().map(|it| it.function.as_str()));
        Some(match self.resolve(revision, callables, moved) {
            Ok(other) => {
                let (is_preview, identity) = (true, Arc::default());
                (Some(OnTrial { other: Ok(other), is_preview, rollouts, instead: None, identity }), None)
            }
            Err(problem) if self.is_awaited(&problem, &rollouts) => (None, None),
            Err(problem) => (None, Uncallable::because(&problem, rollouts)),
        })
    }

    /// Whether to wait for candidates that cannot be called, because they may be starting with the control plane.
    fn is_awaited(&self, problem: &Problem, rollouts: &[Overlay]) -> bool {
        let Problem::Trouble(report) = problem else { return false };
        is_uncallable(report.trouble.failure.cause) && self.may_be_starting(rollouts)
    }

    /// The same for candidates whose run had this outcome.
    fn is_run_awaited(&self, outcome: &Outcome, rollouts: &[Overlay]) -> bool {
        let has_failed = outcome.result.as_ref().err().is_some_and(|it| is_uncallable(it.cause()));
        has_failed && self.may_be_starting(rollouts)
    }

    fn may_be_starting(&self, rollouts: &[Overlay]) -> bool {
        rollouts.iter().any(|it| {
            let candidate = it.candidate.as_deref();
            candidate.is_some_and(|candidate| self.shared.functions.may_be_starting(it, candidate))
        })
    }

    /// The same for a revision of the composition that is rolled out. Its functions are in `other` if it is only tried.
    pub(super) fn is_composition_awaited(
        &self,
        overlay: &Overlay,
        resolved: &Resolved,
        other: &Result<Arc<Pipeline>, Problem>,
    ) -> bool {
        let pipeline = if overlay.is_preview { other } else { &resolved.pipeline };
        let problem = pipeline.as_ref().err();
        problem.is_some_and(|problem| self.is_awaited(problem, std::slice::from_ref(overlay)))
    }

    /// Whether the candidate of a rollout was tried for a composite resource.
    pub(super) fn is_tried(&self, live: &Object, overlay: &Overlay) -> bool {
        let candidate = overlay.candidate.as_deref().unwrap_or_default();
        self.shared.functions.trials().has(candidate, meta::uid(live))
    }

    /// Record for the rollout that candidates cannot be called for a composite resource.
    pub(super) fn note_uncallable(&self, live: &Object, selection: &Selection) {
        let uncallable = selection.result.as_ref().ok().and_then(|follows| follows.uncallable.as_ref());
        if let Some(Uncallable { rollouts, comparison }) = uncallable {
            self.note_trial(live, rollouts, (comparison, None), "");
        }
    }

    /// The decision to apply: that of the candidates, or the one without them.
    pub(super) async fn judge(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        trial: &OnTrial,
        considered: &Considered<'_>,
        (decided, round): (Decided, usize),
    ) -> Result<Outcome, Problem> {
        let other = match &trial.other {
            Ok(other) => other,
            Err(trouble) => return self.judge_alone(it, trial, trouble, decided.outcome),
        };
        let tried = Tried { trial, other, run, considered };
        if trial.is_preview {
            if round == 1 {
                return self.judge_preview(it, tried, decided).await;
            }
            return Ok(decided.outcome);
        }
        if self.is_run_awaited(&decided.outcome, &trial.rollouts) {
            return Ok(decided.outcome);
        }
        let is_new = round == 1 && !trial.has_run(&it.live, self.layout);
        // Composite resources that the candidates composed before are not compared again, unless the candidates
        // fail now or delete something.
        if !is_new && is_harmless(&decided.outcome) {
            return Ok(decided.outcome);
        }
        if is_new && self.is_proven(it, trial, considered, &decided.outcome) {
            return Ok(decided.outcome);
        }
        let on_trial = it.recording.last_run();
        let stable = self.decide_other(it, tried, Responses::Cached).await?;
        let instead = it.recording.last_run();
        let mut runs = Runs::of(stable, decided);
        if is_new {
            if trial.is_first_wave() && runs.have_succeeded() {
                let again = self.decide_again(it, tried, Side::New).await?;
                runs.new_again = Some(again).filter(Decided::was_called);
            }
            self.measure_old(it, tried, &mut runs).await?;
        }
        let comparison = trial.compare(&runs);
        self.note_trial(&it.live, &trial.rollouts, (&comparison, None), &recording_of(it));
        if !trial.refuses(&comparison) {
            return Ok(runs.new.outcome);
        }
        trial.go_back(it);
        it.recording.set_trial(on_trial, true);
        it.recording.set_trial(instead, false);
        it.recording.came_to(&runs.old.outcome);
        Ok(runs.old.outcome)
    }

    /// Try the candidates of a preview. The decision without them is applied, however long the candidates take.
    async fn judge_preview(
        &self,
        it: &mut Reconciliation<'_>,
        tried: Tried<'_>,
        decided: Decided,
    ) -> Result<Outcome, Problem> {
        let (trial, deadline) = (tried.trial, Instant::now() + PATIENCE);
        let answered = timeout_at(deadline, self.decide_other(it, tried, Responses::Cached)).await;
        let Ok(candidate) = answered else {
            // A reconcile that uses them would fail for the same reason.
            let detail = format!("did not answer within {} seconds", PATIENCE.as_secs());
            let comparison = Comparison::new(RolloutDifference::Fails, detail);
            self.note_trial(&it.live, &trial.rollouts, (&comparison, None), &recording_of(it));
            return Ok(decided.outcome);
        };
        let candidate = candidate?;
        if self.is_run_awaited(&candidate.outcome, &trial.rollouts) {
            return Ok(decided.outcome);
        }
        let mut runs = Runs::of(decided, candidate);
        let trials = self.shared.functions.trials();
        // To call all a second time would cost as much as the preview.
        if let Some(sampling) = trial.candidate().filter(|_| runs.have_succeeded())
            && trials.take_sample(sampling)
        {
            let again = timeout_at(deadline, self.decide_again(it, tried, Side::New)).await;
            runs.new_again = again.ok().and_then(Result::ok).filter(Decided::was_called);
            if runs.new_again.is_none() {
                // It shows nothing: another composite resource is sampled in its place.
                trials.return_sample(sampling);
            }
        }
        // If there is no time left to measure it, the durations are not compared.
        if let Ok(measured) = timeout_at(deadline, self.measure_old(it, tried, &mut runs)).await {
            measured?;
        }
        // The own connection Secret of a legacy one is an input that is not watched.
        let is_watched = self.layout == Layout::Modern;
        let is_lasting = is_watched && holds_for_the_same_inputs(&runs.old.outcome);
        let proof = trial.proof(it, tried.considered, &runs.new.outcome).filter(|_| is_lasting);
        self.note_trial(&it.live, &trial.rollouts, (&trial.compare(&runs), proof), &recording_of(it));
        Ok(runs.old.outcome)
    }

    /// Call the old revision once more if responses of it were cached and the new one may be too slow: a cached response took no time.
    async fn measure_old(
        &self,
        it: &mut Reconciliation<'_>,
        tried: Tried<'_>,
        runs: &mut Runs,
    ) -> Result<(), Problem> {
        let (called, took) = runs.timed(Side::New);
        let may_be_slow = tried.trial.rollouts.iter().any(|it| is_slow(Duration::ZERO, took, &it.gates));
        if runs.have_succeeded() && may_be_slow && calls(&runs.old.outcome) < called {
            runs.old_again = Some(self.decide_again(it, tried, Side::Old).await?);
        }
        Ok(())
    }

    /// Run the pipeline of a revision once more, without cached responses.
    async fn decide_again(
        &self,
        it: &mut Reconciliation<'_>,
        tried: Tried<'_>,
        side: Side,
    ) -> Result<Decided, Problem> {
        let Tried { trial, run, considered, .. } = tried;
        // A preview runs the old revision, and tries the new one.
        let is_other = trial.is_preview == (side == Side::New);
        if is_other {
            return self.decide_other(it, tried, Responses::Fresh).await;
        }
        self.decide_besides(it, run, run.pipeline(), considered, Responses::Fresh).await
    }

    /// The decision to apply if the pipeline without candidates cannot be called: deletions that the candidates must not make are
    /// refused.
    fn judge_alone(
        &self,
        it: &mut Reconciliation<'_>,
        trial: &OnTrial,
        trouble: &Trouble,
        outcome: Outcome,
    ) -> Result<Outcome, Problem> {
        let comparison = compare_alone(&outcome.result);
        // Nothing was compared, so that there is nothing to record.
        if comparison.differences.gravest() == RolloutDifference::Equal {
            return Ok(outcome);
        }
        let may_start = |it: &Overlay| self.shared.functions.may_be_starting(it, &it.stable);
        if is_uncallable(trouble.failure.cause) && trial.rollouts.iter().any(may_start) {
            return Err(Problem::from(trouble.clone()));
        }
        self.note_trial(&it.live, &trial.rollouts, (&comparison, None), &recording_of(it));
        if !trial.refuses(&comparison) {
            return Ok(outcome);
        }
        trial.go_back(it);
        Err(Problem::from(trouble.clone()))
    }

    /// Run the other pipeline, with its selection.
    async fn decide_other(
        &self,
        it: &mut Reconciliation<'_>,
        Tried { trial, other, run, considered }: Tried<'_>,
        responses: Responses,
    ) -> Result<Decided, Problem> {
        let Some(instead) = &trial.instead else {
            return self.decide_besides(it, run, other, considered, responses).await;
        };
        let composite = instead.composite(&it.live, self.layout);
        let considered = Considered { composite: &composite, ..*considered };
        self.decide_besides(it, run, other, &considered, responses).await
    }

    /// Whether the preview compared what the candidates would do now, with the same inputs, and the rollouts accept the difference. To
    /// call the other pipeline again would show nothing new.
    fn is_proven(
        &self,
        it: &Reconciliation<'_>,
        trial: &OnTrial,
        considered: &Considered<'_>,
        outcome: &Outcome,
    ) -> bool {
        let trials = self.shared.functions.trials();
        let compared = trial.rollouts.iter().map(|rollout| {
            let candidate = rollout.candidate.as_deref()?;
            trials.compared(candidate, meta::uid(&it.live))
        });
        let Some(compared) = compared.collect::<Option<Vec<_>>>() else { return false };
        let is_accepted = compared.iter().all(|compared| {
            let mut refusing = trial.rollouts.iter();
            refusing.all(|rollout| compared.differences.refused(&rollout.refuse).is_none())
        });
        // Most have no preview, and need no hash.
        if !is_accepted || compared.iter().any(|compared| compared.proof.is_none()) {
            return false;
        }
        let proof = trial.proof(it, considered, outcome);
        proof.is_some() && compared.iter().all(|compared| compared.proof == proof)
    }

    fn note_trial(
        &self,
        live: &Object,
        rollouts: &[Overlay],
        (comparison, proof): (&Comparison, Option<Proof>),
        recording: &str,
    ) {
        let (uid, name) = (meta::uid(live), format!("{} {}", meta::kind(live), meta::name(live)));
        let is_refused =
            rollouts.iter().any(|rollout| comparison.differences.refused(&rollout.refuse).is_some());
        for rollout in rollouts {
            let Some(candidate) = rollout.candidate.as_deref() else { continue };
            let mut comparison = comparison.clone();
            if is_refused {
                // It is not applied, so that going back does not delete it.
                comparison.added.clear();
            }
            let (name, has_composed) = (&*name, has_composed(rollout, live, self.layout));
            let trial = Trial { candidate, uid, name, comparison, has_composed, proof, recording };
            self.shared.functions.trials().note(trial);
        }
    }
}

impl Instead {
    /// The composite resource as functions see it with this selection.
    pub(super) fn composite(&self, live: &Object, layout: Layout) -> Object {
        composite_for_functions(live, layout, &self.selected, Some(keys::COMPOSITE_FINALIZER))
    }
}

impl Resolved {
    /// Identify both pipelines of a trial. The revision is that of the pipeline that is run.
    pub(super) fn identify_trial(&mut self, revision: &Revision, grants: &Grants) {
        let (Ok(pipeline), Some(trial)) = (&self.pipeline, &mut self.trial) else { return };
        let Ok(other) = &trial.other else { return };
        let instead = trial.instead.as_ref().map_or(revision, |instead| &*instead.revision);
        let mut sides = [side(revision, pipeline), side(instead, other)];
        sides.sort_unstable();
        let rollouts = trial.rollouts.iter().map(|rollout| {
            let Overlay { stable, candidate, gates, .. } = rollout;
            format!("{stable}/{candidate:?}/{gates:?}")
        });
        let grants = if grants.is_empty() { String::new() } else { grants.to_json().to_string() };
        let parts: Vec<_> = sides.into_iter().chain(rollouts).chain([grants]).collect();
        trial.identity = parts.join("\n").into();
    }

    /// Compare with another revision of the composition. If the candidate cannot be used, that is the stable one, which is returned, as
    /// it has to be used.
    pub(super) fn try_composition(
        &mut self,
        overlay: &Overlay,
        other: Result<Arc<Pipeline>, Problem>,
        instead: Instead,
    ) -> Option<Arc<Revision>> {
        let is_preview = overlay.is_preview;
        let unusable = |problem: &Problem| Uncallable::because(problem, vec![overlay.clone()]);
        let uncallable = self.pipeline.as_ref().err().map(unusable);
        match (uncallable, other) {
            // Candidates of functions are compared first.
            (None, Ok(_)) if is_preview && self.trial.is_some() => None,
            (None, Err(problem)) if is_preview => {
                self.uncallable = unusable(&problem);
                None
            }
            (None, other) => {
                let other = or_trouble(other)?;
                let mut rollouts = vec![overlay.clone()];
                // Candidates of functions are compared with the pipeline without them, too.
                let besides = self.trial.take().filter(|trial| !trial.is_preview);
                rollouts.extend(besides.into_iter().flat_map(|trial| trial.rollouts));
                let (instead, identity) = (Some(instead), Arc::default());
                self.trial = Some(OnTrial { other, is_preview, rollouts, instead, identity });
                None
            }
            (Some(uncallable), Ok(stable)) if !is_preview => {
                (self.uncallable, self.pipeline) = (uncallable, Ok(stable));
                Some(instead.revision)
            }
            _ => None,
        }
    }
}

impl Uncallable {
    fn because(problem: &Problem, rollouts: Vec<Overlay>) -> Option<Self> {
        let Problem::Trouble(report) = problem else { return None };
        let comparison = Comparison::new(RolloutDifference::Fails, &*report.trouble.message);
        Some(Self { rollouts, comparison })
    }
}

impl OnTrial {
    /// How much longer a reconcile may take because of it. A preview must never make a reconcile fail.
    pub(super) fn allowance(&self) -> Duration {
        if self.is_preview { PATIENCE } else { Duration::ZERO }
    }

    /// Whether it has to run although nothing changed.
    pub(super) fn is_preview(&self) -> bool {
        self.is_preview
    }

    /// The pipeline to run if candidates are refused, or why it cannot be called.
    pub(super) fn other(&self) -> Result<&Arc<Pipeline>, &Trouble> {
        self.other.as_ref()
    }

    /// The selection to use if candidates are refused, if it is another revision of the composition.
    pub(super) fn instead(&self) -> Option<&Instead> {
        self.instead.as_ref()
    }

    /// Whether the decision of the candidates has to be compared with the one without them.
    pub(super) fn is_compared(&self, live: &Object, layout: Layout, outcome: &Outcome) -> bool {
        let is_proven = self.has_run(live, layout) && is_harmless(outcome);
        !self.is_preview && !is_proven
    }

    /// Whether all candidates have composed it before.
    fn has_run(&self, live: &Object, layout: Layout) -> bool {
        self.rollouts.iter().all(|rollout| has_composed(rollout, live, layout))
    }

    fn is_first_wave(&self) -> bool {
        self.rollouts.iter().any(|rollout| rollout.is_first_wave)
    }

    /// A hash of all inputs of both pipelines, and of the plan of the candidates. None if it is unknown whether something is an input.
    fn proof(
        &self,
        it: &Reconciliation<'_>,
        considered: &Considered<'_>,
        candidates: &Outcome,
    ) -> Option<Proof> {
        let plan = candidates.result.as_ref().ok().filter(|_| holds_for_the_same_inputs(candidates))?;
        // Everything that was read, by what selected it: the other pipeline must not have read anything else.
        let asked = it.required.asked();
        let epochs = it.required.epochs_of(&asked);
        let read: BTreeMap<_, _> =
            asked.iter().map(|asked| format!("{:?}", asked.selector)).zip(epochs).collect();
        let basis = Basis {
            identity: format!("{}\n{:?}", self.identity, read.keys()).into(),
            versions: considered.state.versions.clone(),
            epochs: read.values().copied().collect(),
        };
        let mut hash = Sha256::new_with_prefix(basis.fingerprint(&it.live));
        hash.update(digest(plan));
        Some(hash.finalize().into())
    }

    /// Discard the decision of refused candidates.
    fn go_back(&self, it: &mut Reconciliation<'_>) {
        it.is_refused = true;
        if let Some(Instead { selected, revision }) = &self.instead {
            // The response is not used after all.
            let is_told = format!("`{}`", it.revision);
            it.events.retain(|event| !event.message.ends_with(&is_told));
            it.revision = revision.name.clone();
            it.recording.follows(&selected.composition, &revision.name);
        }
    }

    pub(super) fn refuses(&self, comparison: &Comparison) -> bool {
        self.rollouts.iter().any(|rollout| comparison.differences.refused(&rollout.refuse).is_some())
    }

    /// The candidate whose sample of a preview counts.
    fn candidate(&self) -> Option<&str> {
        self.rollouts.iter().find_map(|rollout| rollout.candidate.as_deref())
    }

    fn compare(&self, runs: &Runs) -> Comparison {
        let (old, new) = (&runs.old.outcome.result, &runs.new.outcome.result);
        let mut comparison = compare(old, new);
        let ((old_calls, old_took), (new_calls, new_took)) = (runs.timed(Side::Old), runs.timed(Side::New));
        for rollout in &self.rollouts {
            comparison.note_size(old, new, &rollout.gates);
            // A cached response took no time.
            if old_calls == new_calls {
                comparison.note_time(old_took, new_took, &rollout.gates);
            }
        }
        if runs.differ_each_time() {
            let detail = || "returns different results for the same request".to_owned();
            comparison.note(RolloutDifference::NotDeterministic, detail);
        }
        comparison
    }
}

impl Decided {
    /// Whether its functions could be called.
    fn was_called(&self) -> bool {
        self.outcome.result.as_ref().err().is_none_or(|failure| !is_uncallable(failure.cause()))
    }
}

impl Runs {
    fn of(old: Decided, new: Decided) -> Self {
        Self { old, new, old_again: None, new_again: None }
    }

    /// Whether the new revision does not fail. Nothing else about one that fails matters.
    fn have_succeeded(&self) -> bool {
        self.new.outcome.result.is_ok()
    }

    /// The number of calls of a revision, and how long they took. Of two runs the one that called more counts, as the other one used
    /// cached responses. Of two that called as often the faster one counts: the first call may have taken longer because it was the first.
    fn timed(&self, side: Side) -> (u64, Duration) {
        let (first, again) = match side {
            Side::Old => (&self.old, &self.old_again),
            Side::New => (&self.new, &self.new_again),
        };
        let timed = |run: &Decided| (calls(&run.outcome), run.took);
        let (first, again) = (timed(first), again.as_ref().map(timed));
        match again {
            Some(again) if again.0 > first.0 || (again.0 == first.0 && again.1 < first.1) => again,
            _ => first,
        }
    }

    fn differ_each_time(&self) -> bool {
        let again =
            self.new_again.as_ref().map(|again| compare(&self.new.outcome.result, &again.outcome.result));
        again.is_some_and(|twice| twice.differences.gravest() != RolloutDifference::Equal)
    }
}

/// Whether the candidate of a rollout composed a composite resource last.
fn has_composed(rollout: &Overlay, live: &Object, layout: Layout) -> bool {
    let Some(candidate) = rollout.candidate.as_deref() else { return false };
    if !rollout.composition.is_empty() {
        return Machinery::of(live, layout).revision() == Some(candidate);
    }
    let status = live.get("status").and_then(|status| status.get("ferroplane"));
    let functions = status.and_then(|status| status.get("functions")?.as_array());
    functions.is_some_and(|functions| functions.iter().any(|ran| ran["revision"] == *candidate))
}

/// The pipeline without candidates, or why it cannot be called. None if that is no problem to report.
fn or_trouble(stable: Result<Arc<Pipeline>, Problem>) -> Option<Result<Arc<Pipeline>, Trouble>> {
    match stable {
        Ok(pipeline) => Some(Ok(pipeline)),
        Err(Problem::Trouble(report)) => Some(Err(report.trouble)),
        Err(_) => None,
    }
}

/// A pipeline of a revision, with the code that its steps call.
fn side(revision: &Revision, pipeline: &Pipeline) -> String {
    let callees = pipeline.steps().iter().filter_map(|step| step.callee.as_ref());
    let callees: Vec<_> = callees.map(|callee| format!("{}={}", callee.revision, callee.code())).collect();
    format!("{}/{}", revision.identity, callees.join("/"))
}

/// Whether functions would answer the same again, given the same inputs: they succeeded, do not say that their responses expire, and
/// depend on nothing that is not watched.
fn holds_for_the_same_inputs(outcome: &Outcome) -> bool {
    outcome.result.is_ok() && outcome.ttl.is_none() && outcome.schemas.is_empty()
}

/// A hash of everything that a plan does. The observed objects that it deletes are inputs, and hashed with them.
fn digest(plan: &Plan) -> [u8; 32] {
    let Plan { delete, references, apply, status, is_ready, connection_details } = plan;
    let deleted: Vec<_> = delete.iter().map(|deletion| &deletion.resource).collect();
    // Objects are maps in a fixed order, so that the same plan always has the same text.
    let text = format!("{deleted:?}{references:?}{apply:?}{status:?}{is_ready:?}{connection_details:?}");
    Sha256::digest(text).into()
}

/// Whether a run succeeded, and deletes nothing.
fn is_harmless(outcome: &Outcome) -> bool {
    outcome.result.as_ref().is_ok_and(|plan| plan.delete.is_empty())
}

fn calls(outcome: &Outcome) -> u64 {
    outcome.ran.iter().map(|ran| u64::from(ran.calls)).sum()
}

/// The name of the recording of this reconcile, for `ferroplane replay show`. Empty if nothing is recorded.
pub(super) fn recording_of(it: &Reconciliation<'_>) -> String {
    let began_at = RecordingBuilder::began_at(&it.recording).and_then(|it| i64::try_from(it).ok());
    let began_at = began_at.and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok());
    began_at.map(|began_at| format!("{} --at {began_at}", recorded_as(&it.live))).unwrap_or_default()
}
