//! Visits a composite resource the way it is reconciled: select, observe, decide. Writes go to the planned cluster.

mod write;

use std::sync::Arc;

use ferroplane_api::{Cause, Object, keys};
use ferroplane_client::ObjectPath;
use ferroplane_engine::changes::Verdict;
use ferroplane_engine::composite::{Begin, Selected, begin, composite_for_functions};
use ferroplane_engine::rollout::{compare, compare_alone};
use ferroplane_engine::{
    EngineInput, Inputs, Layout, Outcome, Requirement, Subject, TranscriptEntry, Trouble, chain,
};
use ferroplane_runner::drive_noting;
use ferroplane_wire::Struct;

use super::super::apply::name_of;
use super::super::controller::Controller;
use super::super::intercept::Intercepted;
use super::super::observe::ObservedState;
use super::super::problem::Problem;
use super::super::reconcile::Question;
use super::super::select::{Follows, Selection};
use super::super::trial::OnTrial;
use super::planned_cluster::Key;
use super::{Planning, Progress};
use crate::function_registry::CallableFunctions;

/// A run in place of another: its outcome, its notes, and its inputs.
type Rerun = (Outcome, Vec<TranscriptEntry>, Inputs);

/// Why a visit ended early.
enum Stop {
    /// The reconcile would fail.
    Fails(String),
    /// The result cannot be predicted.
    Refused(String),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Conflict => Self::Refused("something changed while the plan was made".to_owned()),
            Problem::Gone => Self::Refused("it was deleted while the plan was made".to_owned()),
            Problem::Early => {
                Self::Refused("the pipeline of its revision has not been checked yet".to_owned())
            }
            Problem::Trouble(report) => {
                let message = match report.denied {
                    Some(denied) => format!("{}: {denied}", report.trouble.message),
                    None => report.trouble.message,
                };
                if is_unknowable(report.trouble.failure.cause) {
                    Self::Refused(message)
                } else {
                    Self::Fails(message)
                }
            }
        }
    }
}

/// Whether a failure does not predict the result: it may be over when the change is made.
fn is_unknowable(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::FunctionUnreachable
            | Cause::FunctionNotConnectable
            | Cause::FunctionTlsFailed
            | Cause::FunctionTimeout
            | Cause::FunctionConnectionLost
            | Cause::FunctionExited
            | Cause::CompositionTimeout
            | Cause::CompositionRevisionNotValidated
            | Cause::PermissionDenied
            | Cause::ApiServerUnreachable
            | Cause::ApiServerOverloaded
            | Cause::WebhookUnreachable
    )
}

/// A composite resource that is visited.
struct Visited<'a> {
    controller: &'a Controller,
    /// The planned state. Writes are merged into it.
    live: Object,
    changed: Vec<Object>,
}

/// The decision of functions for a composite resource, and its inputs.
struct Decided {
    outcome: Outcome,
    notes: Vec<TranscriptEntry>,
    inputs: Inputs,
    selected: Selected,
    state: ObservedState,
    callables: Arc<CallableFunctions>,
}

impl Planning {
    /// Visit a composite resource. Returns the objects that changed.
    pub(super) async fn visit(&self, key: &Key, known: &mut Progress) -> Vec<Object> {
        let kind = (key.group.clone(), key.kind.clone());
        let Some(controller) = self.composites.of_kind(&kind) else { return Vec::new() };
        let path =
            ObjectPath { resource: &controller.kind.resource, namespace: &key.namespace, name: &key.name };
        let live = match self.planned.get(path).await {
            Ok(Some(live)) => live,
            // Its composer deletes it.
            Ok(None) => return Vec::new(),
            Err(error) => {
                known.verdict =
                    Some(Verdict::Refused { reason: format!("cannot read it: {}", chain(&error)) });
                return Vec::new();
            }
        };
        let skipped = match begin(&live) {
            Begin::Run => None,
            Begin::Paused => Some("it is paused"),
            Begin::Deleting => Some("it is being deleted"),
        };
        if let Some(reason) = skipped {
            known.verdict = Some(Verdict::Skipped { reason: reason.to_owned() });
            return Vec::new();
        }
        let mut visited = Visited { controller: &controller, live, changed: Vec::new() };
        known.verdict = match self.compose(&mut visited, known).await {
            Ok(()) => None,
            Err(Stop::Fails(reason)) => Some(Verdict::Fails { reason }),
            Err(Stop::Refused(reason)) => Some(Verdict::Refused { reason }),
        };
        visited.changed
    }

    /// Each line must hold before the next may happen, as in a reconcile.
    async fn compose(&self, visited: &mut Visited<'_>, known: &mut Progress) -> Result<(), Stop> {
        let Decided { outcome, notes, inputs, selected, state, callables } =
            self.decide(visited, known).await?;
        known.requirements = Some(outcome.requirements.clone());
        let plan = match &outcome.result {
            Ok(plan) => plan,
            Err(failure) => {
                self.record(visited, &selected, None).await;
                return Err(Problem::from(Trouble::of(failure)).into());
            }
        };
        self.delete_unwanted(visited, plan).await?;
        self.record(visited, &selected, Some(&plan.references)).await;
        known.refused.clear();
        self.apply_wanted(visited, plan, &state, known).await?;
        let published = self.publish(visited, plan).await?;
        self.conclude(visited, &outcome, known.refused.keys().cloned().collect(), published).await?;
        if visited.changed.is_empty() {
            // Nothing changes any more. The plan is exact only if functions return the same again.
            self.compare_runs(inputs, &callables, &outcome, &notes).await?;
        }
        Ok(())
    }

    /// Select, observe, and call functions. A rollout may replace their decision.
    async fn decide(&self, visited: &mut Visited<'_>, known: &mut Progress) -> Result<Decided, Stop> {
        let controller = visited.controller;
        let Selection { result, identity, grants, .. } =
            controller.select_from(&visited.live, &self.sources.of(controller));
        known.identity = identity;
        let follows = result?;
        known.revision.clone_from(&follows.selected.revision);
        if follows.revision.is_new {
            return Err(Problem::Early.into());
        }
        let Follows { selected, pipeline, trial, intercepted, callables, .. } = follows;
        let pipeline = match pipeline {
            Ok(pipeline) => pipeline,
            Err(problem) => {
                self.record(visited, &selected, None).await;
                return Err(problem.into());
            }
        };
        refuse_intercepted(&intercepted)?;
        let finalizer = Some(keys::COMPOSITE_FINALIZER);
        let composite = composite_for_functions(&visited.live, controller.layout, &selected, finalizer);
        let state = controller.observe(&composite, &self.planned).await?;
        let question = Question {
            composite: &composite,
            pipeline: &pipeline,
            observed: &state.observed,
            remembered: remembered(visited, known),
            grants: &grants,
        };
        let inputs = controller.inputs(question, &self.planned).await?;
        let (outcome, notes) = self.run(inputs.clone(), &callables).await;
        let mut decided = Decided { outcome, notes, inputs, selected, state, callables };
        self.replace_refused_trial(visited, trial.as_ref(), &mut decided).await?;
        known.revision.clone_from(&decided.selected.revision);
        decided.outcome.requirements.extend_from_slice(&decided.state.secrets);
        Ok(decided)
    }

    /// Where a rollout refuses the decision of its candidates, use the decision without them.
    async fn replace_refused_trial(
        &self,
        visited: &Visited<'_>,
        trial: Option<&OnTrial>,
        decided: &mut Decided,
    ) -> Result<(), Stop> {
        let seen = (&visited.live, visited.controller.layout);
        let Decided { outcome, inputs, callables, .. } = &*decided;
        let Some(stable) = self.refused_trial((trial, callables), seen, inputs, outcome).await? else {
            return Ok(());
        };
        (decided.outcome, decided.notes, decided.inputs) = stable;
        if let Some(instead) = trial.and_then(OnTrial::instead) {
            decided.selected = instead.selected.clone();
        }
        Ok(())
    }

    async fn run(
        &self,
        inputs: Inputs,
        callables: &Arc<CallableFunctions>,
    ) -> (Outcome, Vec<TranscriptEntry>) {
        let mut notes = Vec::new();
        let outcome = drive_noting(inputs, &callables.directory, &self.planned, Some(&mut notes), None).await;
        (outcome, notes)
    }

    /// The decision without candidates of rollouts, if those are refused.
    async fn refused_trial(
        &self,
        (trial, callables): (Option<&OnTrial>, &Arc<CallableFunctions>),
        (live, layout): (&Object, Layout),
        inputs: &Inputs,
        outcome: &Outcome,
    ) -> Result<Option<Rerun>, Stop> {
        let Some(trial) = trial.filter(|it| it.is_compared(live, layout, outcome)) else { return Ok(None) };
        let other = match trial.other() {
            Ok(other) => other,
            Err(trouble) if trial.refuses(&compare_alone(&outcome.result)) => {
                return Err(Problem::from(trouble.clone()).into());
            }
            Err(_) => return Ok(None),
        };
        let mut inputs = Inputs { pipeline: other.clone(), ..inputs.clone() };
        if let (Some(instead), Subject::Composite(subject)) = (trial.instead(), &mut inputs.subject) {
            let Ok(object) = Struct::try_from(instead.composite(live, layout)) else { return Ok(None) };
            subject.object = object;
        }
        let (stable, notes) = self.run(inputs.clone(), callables).await;
        let is_refused = trial.refuses(&compare(&stable.result, &outcome.result));
        Ok(is_refused.then_some((stable, notes, inputs)))
    }

    /// Refuse functions that return different responses to the same request.
    async fn compare_runs(
        &self,
        inputs: Inputs,
        callables: &Arc<CallableFunctions>,
        outcome: &Outcome,
        notes: &[TranscriptEntry],
    ) -> Result<(), Stop> {
        let (again, notes_again) = self.run(inputs, callables).await;
        let is_same = match (&outcome.result, &again.result) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        let step = differing_step(outcome, notes, &notes_again);
        Err(Stop::Refused(format!("step `{step}` returns different results for the same request")))
    }
}

/// Refuse intercepts: a plan must not depend on a process that its developer may change at any time.
fn refuse_intercepted(intercepted: &Intercepted) -> Result<(), Stop> {
    let Intercepted::ForReal(intercept) = intercepted else { return Ok(()) };
    let (function, name) = (intercept.function(), &intercept.name);
    Err(Stop::Refused(format!(
        "FunctionIntercept `{name}` sends the calls of function `{function}` to a developer's process"
    )))
}

/// The requirements of the last run: earlier in this plan, or in the last reconcile.
fn remembered(visited: &Visited<'_>, known: &Progress) -> Vec<Requirement> {
    known.requirements.clone().unwrap_or_else(|| {
        let last = visited.controller.memory.last(&name_of(&visited.live));
        last.map(|last| last.requirements.to_vec()).unwrap_or_default()
    })
}

/// The first step with a different response.
fn differing_step(outcome: &Outcome, notes: &[TranscriptEntry], again: &[TranscriptEntry]) -> String {
    let answers = |notes: &[TranscriptEntry]| -> Vec<_> {
        let answer = |note: &TranscriptEntry| match &note.input {
            EngineInput::Answered(response) | EngineInput::Recalled(response) => Some(Some(response.clone())),
            EngineInput::Failed { .. } => Some(None),
            EngineInput::Provided(_) => None,
        };
        notes.iter().filter_map(answer).collect()
    };
    let (one, other) = (answers(notes), answers(again));
    let first = one.iter().zip(&other).position(|(one, other)| one != other).unwrap_or_default();
    let calls = outcome.ran.iter().flat_map(|ran| {
        let calls = usize::try_from(ran.calls).unwrap_or(1);
        std::iter::repeat_n(ran.step.as_str(), calls)
    });
    calls.into_iter().nth(first).unwrap_or_default().to_owned()
}
