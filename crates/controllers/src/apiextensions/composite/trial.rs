//! Tries candidates of rollouts: both revisions run on the same inputs, and only what the rollout does not refuse is carried out.

use std::sync::Arc;

use ferroplane_api::{Object, RolloutDifference, meta};
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::rollout::{Comparison, Overlay, compare, is_refused};
use ferroplane_engine::{Outcome, Pipeline};

use super::controller::Controller;
use super::problem::Problem;
use super::reconcile::{Considered, Reconciliation, Run};
use crate::apiextensions::composition_cache::Revision;
use crate::function_registry::CallableFunctions;
use crate::rollout::{Cohort, Trial};

/// What is tried, and what is carried out if that is refused.
#[derive(Debug)]
pub(super) struct OnTrial {
    /// What is compared with what is run: what would be run if there were no candidates or, in a preview, what would be run with them.
    other: Arc<Pipeline>,
    is_preview: bool,
    /// The rollouts of the candidates. If there are several, all are blamed for what any of them does.
    rollouts: Vec<Overlay>,
}

impl Controller {
    /// What the steps of a revision call for a cohort. Where a candidate cannot be called, that is what is called without it.
    pub(super) fn resolve_on_trial(
        &self,
        live: &Object,
        revision: &Revision,
        callables: &CallableFunctions,
        cohort: Cohort,
    ) -> (Result<Arc<Pipeline>, Problem>, Option<OnTrial>) {
        let pipeline = self.resolve(revision, callables, cohort);
        if let Some(preview) = self.preview(live, revision, callables, cohort) {
            return (pipeline, Some(preview));
        }
        let moved = cohort.moved(&revision.open_functions).filter_map(|it| callables.overlays.get(it));
        let rollouts: Vec<_> = moved.cloned().collect();
        if rollouts.is_empty() {
            return (pipeline, None);
        }
        let Ok(stable) = self.resolve(revision, callables, cohort.unmoved()) else { return (pipeline, None) };
        match pipeline {
            Ok(pipeline) => (Ok(pipeline), Some(OnTrial { other: stable, is_preview: false, rollouts })),
            Err(problem) => {
                self.note_failure(live, &rollouts, &problem);
                (Ok(stable), None)
            }
        }
    }

    /// The candidates that are to be tried for a composite resource that does not call them, if it has not been done.
    fn preview(
        &self,
        live: &Object,
        revision: &Revision,
        callables: &CallableFunctions,
        cohort: Cohort,
    ) -> Option<OnTrial> {
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
        match self.resolve(revision, callables, moved) {
            Ok(other) => Some(OnTrial { other, is_preview: true, rollouts }),
            Err(problem) => {
                self.note_failure(live, &rollouts, &problem);
                None
            }
        }
    }

    /// A candidate cannot be called.
    fn note_failure(&self, live: &Object, rollouts: &[Overlay], problem: &Problem) {
        let Problem::Trouble(report) = problem else { return };
        let detail = report.trouble.message.clone();
        self.note_trial(live, rollouts, &Comparison { difference: RolloutDifference::Fails, detail });
    }

    /// What is carried out: what the candidates decided, or what is decided without them.
    pub(super) async fn judge(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        trial: &OnTrial,
        considered: &Considered<'_>,
        (outcome, round): (Outcome, usize),
    ) -> Result<Outcome, Problem> {
        if trial.is_preview {
            if round == 1 {
                let candidate = self.decide_besides(it, run, &trial.other, considered).await?;
                self.note_trial(&it.live, &trial.rollouts, &compare(&outcome.result, &candidate.result));
            }
            return Ok(outcome);
        }
        let is_new = round == 1 && !trial.has_run(&it.live);
        let is_harmless = outcome.result.as_ref().is_ok_and(|plan| plan.delete.is_empty());
        // Who has been composed by the candidates is not compared again, unless they fail now, or delete something.
        if !is_new && is_harmless {
            return Ok(outcome);
        }
        let stable = self.decide_besides(it, run, &trial.other, considered).await?;
        let mut comparison = compare(&stable.result, &outcome.result);
        if is_new && trial.is_first_wave() && comparison.difference != RolloutDifference::Fails {
            let again = self.decide_besides(it, run, run.pipeline(), considered).await?;
            if compare(&outcome.result, &again.result).difference != RolloutDifference::Equal {
                let detail = "answers differently when it is asked the same twice".to_owned();
                comparison = gravest(comparison, trial, detail);
            }
        }
        self.note_trial(&it.live, &trial.rollouts, &comparison);
        Ok(if trial.refuses(comparison.difference) { stable } else { outcome })
    }

    fn note_trial(&self, live: &Object, rollouts: &[Overlay], comparison: &Comparison) {
        let name = format!("{} {}", meta::kind(live), meta::name(live));
        for candidate in rollouts.iter().filter_map(|rollout| rollout.candidate.as_deref()) {
            let comparison = comparison.clone();
            let trial = Trial { candidate, uid: meta::uid(live), name: &name, comparison };
            self.shared.functions.trials().note(trial);
        }
    }
}

impl OnTrial {
    /// Whether it has to run though nothing changed.
    pub(super) fn is_preview(&self) -> bool {
        self.is_preview
    }

    /// Whether all candidates have composed it before.
    fn has_run(&self, live: &Object) -> bool {
        let status = live.get("status").and_then(|status| status.get("ferroplane"));
        let functions = status.and_then(|status| status.get("functions")?.as_array());
        let has_run = |candidate: &String| {
            functions.is_some_and(|functions| functions.iter().any(|ran| ran["revision"] == **candidate))
        };
        self.rollouts.iter().filter_map(|rollout| rollout.candidate.as_ref()).all(has_run)
    }

    fn is_first_wave(&self) -> bool {
        self.rollouts.iter().any(|rollout| rollout.is_first_wave)
    }

    fn refuses(&self, difference: RolloutDifference) -> bool {
        self.rollouts.iter().any(|rollout| is_refused(difference, &rollout.refuse))
    }
}

/// That an answer changes counts, unless something else is refused.
fn gravest(comparison: Comparison, trial: &OnTrial, detail: String) -> Comparison {
    if trial.refuses(comparison.difference) {
        return comparison;
    }
    Comparison { difference: RolloutDifference::NotDeterministic, detail }
}
