//! A round of a reconcile: observe, call functions, and apply their plan. There are at most two.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_api::{Cause, Object};
use ferroplane_engine::composite::{COMPOSE, remove_own_status};
use ferroplane_engine::{
    CompositeSubject, Event, Grants, Inputs, NAMESPACE_OVERRIDDEN, Observed, Outcome, Pipeline, Requirement,
    Subject, Trouble,
};
use ferroplane_runner::drive_noting;
use ferroplane_wire::Struct;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{Reconciliation, Run};
use crate::apiextensions::composite::apply::Applied;
use crate::apiextensions::composite::controller::Controller;
use crate::apiextensions::composite::fingerprints::Basis;
use crate::apiextensions::composite::observe::{LiveSource, ObservedSource, ObservedState};
use crate::apiextensions::composite::problem::Problem;
use crate::apiextensions::composite::spans;
use crate::apiextensions::composite::trial::{Decided, Responses};
use crate::function_registry::CallableFunctions;

/// The inputs of functions.
pub(in crate::apiextensions::composite) struct Question<'a> {
    /// The composite resource as functions see it.
    pub(in crate::apiextensions::composite) composite: &'a Object,
    pub(in crate::apiextensions::composite) pipeline: &'a Arc<Pipeline>,
    pub(in crate::apiextensions::composite) observed: &'a BTreeMap<String, Observed>,
    /// The requirements of the last run.
    pub(in crate::apiextensions::composite) remembered: Vec<Requirement>,
    pub(in crate::apiextensions::composite) grants: &'a Arc<Grants>,
}

/// What a round starts from.
pub(super) struct Input {
    /// The composite resource as functions see it.
    pub(super) composite: Object,
    /// The requirements of the last run.
    pub(super) remembered: Arc<[Requirement]>,
    /// 1 or 2.
    pub(super) number: usize,
}

/// The inputs of a run of the pipeline.
pub(in crate::apiextensions::composite) struct Considered<'a> {
    /// The composite resource as functions see it.
    pub(in crate::apiextensions::composite) composite: &'a Object,
    pub(in crate::apiextensions::composite) state: &'a ObservedState,
    /// The requirements of the last run.
    pub(in crate::apiextensions::composite) remembered: &'a [Requirement],
}

/// A run of the pipeline whose plan was applied.
pub(super) struct Round {
    pub(super) outcome: Outcome,
    pub(super) applied: Applied,
    pub(super) basis: Basis,
    /// The composite resource as functions saw it.
    pub(super) composite: Object,
}

impl Controller {
    /// Observe, decide, apply.
    pub(super) async fn round(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        input: Input,
    ) -> Result<Round, Problem> {
        let Input { composite, remembered, number } = input;
        it.remembered = remembered.clone();
        let source = LiveSource { controller: self, required: &it.required };
        let observing = self.observe(&composite, &source).instrument(spans::phase("observe", number)).await;
        let mut state = match observing {
            Ok(state) => state,
            // The round failed, but the selection is kept.
            Err(problem) => return Err(self.record(it, &run.selected, None).await.err().unwrap_or(problem)),
        };
        for event in std::mem::take(&mut state.events) {
            // The first round may have recorded the same events.
            if !it.events.contains(&event) {
                it.events.push(event);
            }
        }
        let slot = it.slot;
        let considered = Considered { composite: &composite, state: &state, remembered: &remembered };
        let deciding = self.decide(it, run, &considered, number);
        // A function that hangs must not delay the calls of others.
        let mut outcome = slot.wait_for(deciding.instrument(spans::phase("decide", number))).await?;
        // The Secrets that functions were given are inputs, as much as their requirements.
        outcome.requirements.extend_from_slice(&state.secrets);
        outcome.requirements.extend(it.required.credentials());
        if let Err(failure) = &outcome.result {
            let problem = Problem::from(Trouble::of(failure));
            // The selection is recorded even if the pipeline failed: users look there to find out what failed.
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

    /// Call a developer's process with the same inputs, if one is to be compared. At the end, because it may take long.
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
            // Boxed: it is rare, and every reconcile would have to reserve space for it.
            slot.wait_for(Box::pin(self.run_shadow(it, run, shadow, considered, outcome))).await;
        }
    }

    /// Composed resources did not exist when functions were called: call them again with the status and resources that they returned.
    /// Only once: a function that never settles would be called for ever.
    pub(super) async fn round_again(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        first: Round,
    ) -> Result<Round, Problem> {
        let composite = foresee(&it.live, &first.composite, &first.outcome);
        it.events.extend(first.applied.events);
        // In the next round it is in its namespace, and the event would be lost.
        let is_about_namespace = |event: &Event| event.reason == NAMESPACE_OVERRIDDEN;
        it.events.extend(first.outcome.events.into_iter().filter(is_about_namespace));
        let input = Input { composite, remembered: first.outcome.requirements.into(), number: 2 };
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
        let long_calls = Some(&it.slot.long_calls);
        let outcome = drive_noting(inputs, &callables.directory, &it.required, notes, long_calls).await;
        let took = began_at.elapsed();
        it.recording.came_to(&outcome);
        // Runs that are only compared with this one are not counted.
        self.shared.context.metrics.count_versions(&outcome.ran);
        // Candidates that were refused once in a reconcile are not called again.
        match run.trial.as_ref().filter(|_| !it.is_refused) {
            // Boxed: trials are rare, and every reconcile would have to reserve space for one.
            Some(trial) => {
                let decided = Decided { outcome, took };
                Box::pin(self.judge(it, run, trial, considered, (decided, number))).await
            }
            None => Ok(outcome),
        }
    }

    /// Run another pipeline only for its decision. It is recorded as a trial.
    pub(in crate::apiextensions::composite) async fn decide_besides(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        pipeline: &Arc<Pipeline>,
        considered: &Considered<'_>,
        responses: Responses,
    ) -> Result<Decided, Problem> {
        let inputs = self.live_inputs(it, pipeline, considered).await?;
        let callables = self.callables(pipeline, &run.callables);
        let directory = match responses {
            Responses::Cached => Cow::Borrowed(&callables.directory),
            Responses::Fresh => Cow::Owned(callables.directory.without_answers()),
        };
        let notes = it.recording.try_run(&inputs);
        let began_at = Instant::now();
        let long_calls = Some(&it.slot.long_calls);
        let outcome = drive_noting(inputs, &directory, &it.required, notes, long_calls).await;
        it.recording.trial_came_to(&outcome);
        Ok(Decided { outcome, took: began_at.elapsed() })
    }

    /// The functions that the pipeline names. Their addresses are looked up now: they may have moved since the pipeline was resolved. A
    /// revision that is no longer listed still serves a reconcile that began with it.
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

    /// The inputs of a run of the pipeline. Plans use the same.
    pub(in crate::apiextensions::composite) async fn inputs(
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

    /// Apply a plan.
    async fn carry_out(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        outcome: &Outcome,
        state: &ObservedState,
    ) -> Result<Applied, Problem> {
        let Ok(plan) = &outcome.result else { return Ok(Applied::default()) };
        // Delete before references are rewritten, and record references before anything is created. In any other
        // order a crash halfway leaves a resource without a reference.
        let has_deleted = self.delete_unwanted(&it.live, &plan.delete).await?;
        self.record(it, run.selected(it.is_refused), Some(&plan.references)).await?;
        let mut applied = self.apply_wanted(&it.live, plan, state).await?;
        applied.has_news |= has_deleted;
        Ok(applied)
    }
}

/// The composite resource as it will be once its status is written.
fn foresee(live: &Object, seen: &Object, outcome: &Outcome) -> Object {
    let mut composite = live.clone();
    let status = outcome.result.as_ref().ok().and_then(|plan| plan.status.clone()).unwrap_or_default();
    // Merged into what functions saw, field by field, as the API server will merge the status.
    let mut foreseen = seen.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    foreseen.extend(status);
    if !foreseen.is_empty() {
        composite.insert("status".to_owned(), Value::Object(foreseen));
    }
    remove_own_status(&mut composite);
    composite
}
