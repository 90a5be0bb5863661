//! Writes the status of a claim after a reconcile. The only writer of it.

use std::time::Duration;

use ferroplane_api::{Cause, Condition, Object, Status, meta};
use ferroplane_client::{Error, Subresource};
use ferroplane_engine::composite::{PAUSED_CONDITION, PAUSED_EVENT, RECONCILIATION_PAUSED};
use ferroplane_engine::{chain, claim_status, set_claim_conditions};
use serde_json::{Value, json};
use tracing::debug;

use super::connection::{Handover, PROPAGATE};
use super::controller::Controller;
use super::reconcile::{BIND, Case};
use crate::runtime::queue::Next;
use crate::runtime::refused::cause_of;

/// After this time, a timestamp has a new second.
const NEXT_SECOND: Duration = Duration::from_secs(1);

/// The result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimOutcome {
    Paused,
    /// The composite resource is not ready yet.
    Waiting,
    /// With the result of copying connection details.
    Available(Handover),
    /// The composite resource still exists.
    Deleting,
    /// The claim is deleted: there is no status to write.
    Gone,
}

impl ClaimOutcome {
    fn next(self) -> Next {
        match self {
            // Times have a resolution of seconds: a second change within the same one looks like the first.
            Self::Available(Handover { is_fresh: true, .. }) => Next::After(NEXT_SECOND),
            _ => Next::Rest,
        }
    }
}

/// Why a claim is not reconciled.
#[derive(Debug)]
pub(crate) struct ClaimProblem {
    reason: &'static str,
    pub(crate) message: String,
    pub(super) cause: Cause,
    next: Next,
}

impl ClaimProblem {
    /// A problem that only a change can solve.
    pub(super) fn new(reason: &'static str, cause: Cause, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), cause, next: Next::Rest }
    }

    /// The same, but no watch event would report that it is solved, so that it is requeued.
    pub(super) fn requeued(self) -> Self {
        Self { next: Next::Retry, ..self }
    }

    /// Another claim is binding the composite resource right now. The next reconcile sees the result.
    pub(super) fn outrun(composite: &str) -> Self {
        let message =
            format!("cannot bind the composite resource `{composite}`: another claim is binding it");
        Self { next: Next::Conflict, ..Self::new(BIND, Cause::CompositeResourceBound, message) }
    }

    pub(super) fn doing(reason: &'static str, doing: &'static str) -> impl Fn(Error) -> Self {
        move |error| {
            // Not found, too: an object that was just read is deleted, which the next reconcile sees.
            let is_outrun = error.is_conflict() || error.is_already_exists() || error.is_not_found();
            let next = if is_outrun { Next::Conflict } else { Next::Retry };
            let message = format!("cannot {doing}: {}", chain(&error));
            Self { reason, message, cause: cause_of(&error), next }
        }
    }
}

impl Controller {
    pub(super) async fn settle(&self, case: &Case, result: Result<ClaimOutcome, ClaimProblem>) -> Next {
        let (conditions, next) = match &result {
            Ok(ClaimOutcome::Gone) => return Next::Rest,
            // Another writer was faster: reconcile again, without an event.
            Err(problem) if problem.next == Next::Conflict => return Next::Conflict,
            Ok(outcome) => (self.report(case, *outcome), outcome.next()),
            Err(problem) => (self.complain(case, problem), problem.next),
        };
        let (now, composite) = (self.context.clock.now(), case.composite.as_ref());
        let mut status = claim_status(&case.claim, composite);
        set_claim_conditions(&mut status, composite, conditions, meta::generation(&case.claim), &now);
        if matches!(result, Ok(ClaimOutcome::Available(Handover { is_changed: true, .. }))) {
            status.insert("connectionDetails".to_owned(), json!({"lastPublishedTime": now}));
        }
        match self.write_status(&case.claim, status).await {
            Next::Rest => next,
            other => other,
        }
    }

    fn report(&self, case: &Case, outcome: ClaimOutcome) -> Vec<Condition> {
        let normal = |reason: &str, message: &str| self.recorder.normal(&case.claim, reason, message);
        let synced = Condition::new("Synced", Status::True, "ReconcileSuccess");
        match outcome {
            ClaimOutcome::Paused => {
                normal(RECONCILIATION_PAUSED, PAUSED_EVENT);
                let paused = Condition::new("Synced", Status::False, "ReconcilePaused");
                vec![paused.with_message(PAUSED_CONDITION)]
            }
            ClaimOutcome::Waiting => {
                normal(BIND, "The composite resource is not ready yet");
                let waiting = Condition::new("Ready", Status::False, "Waiting");
                vec![synced, waiting.with_message("Waiting until the composite resource is ready")]
            }
            ClaimOutcome::Available(handover) => {
                if handover.is_changed {
                    normal(PROPAGATE, "Propagated the connection details of the composite resource");
                }
                vec![synced, Condition::new("Ready", Status::True, "Available")]
            }
            ClaimOutcome::Deleting | ClaimOutcome::Gone => vec![deleting()],
        }
    }

    fn complain(&self, case: &Case, problem: &ClaimProblem) -> Vec<Condition> {
        self.recorder.failure(&case.claim, problem.reason, problem.message.clone(), problem.cause);
        let failed = Condition::new("Synced", Status::False, "ReconcileError")
            .with_message(problem.message.clone())
            .with_failure(problem.cause.into());
        let mut conditions = vec![failed];
        if meta::is_being_deleted(&case.claim) {
            conditions.push(deleting());
        }
        conditions
    }

    /// Write the status, if it changed.
    async fn write_status(&self, claim: &Object, status: Object) -> Next {
        let status = Value::Object(status);
        if claim.get("status") == Some(&status) {
            return Next::Rest;
        }
        let mut changed = claim.clone();
        changed.insert("status".to_owned(), status);
        let path = self.path(meta::namespace(claim), meta::name(claim));
        match self.context.cluster.replace(path, Subresource::Status, &changed).await {
            Ok(bytes) => {
                self.claims.insert_written(&bytes);
                Next::Rest
            }
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) if error.is_not_found() => Next::Rest,
            Err(error) => {
                debug!(claim = meta::name(claim), error = chain(&error), "cannot write a status");
                Next::Retry
            }
        }
    }
}

fn deleting() -> Condition {
    Condition::new("Ready", Status::False, "Deleting")
}
