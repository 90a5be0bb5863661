//! Writes the conditions of a definition after a reconcile. The only writer of them.

use ferroplane_api::{Cause, Condition, Object, Status, meta, set_condition};
use ferroplane_client::{Error, ObjectPath, Subresource};
use ferroplane_engine::{NotOurs, Underivable, chain, conditions_in, conditions_to_json};
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::Observed;
use super::definer::Definer;
use super::side::Side;
use crate::runtime::queue::Next;
use crate::runtime::refused::cause_of;

/// The state of a definition.
#[derive(Debug)]
pub(super) enum DefinitionState {
    /// There is nothing to report.
    Idle,
    /// The controller of the kind runs.
    Watching {
        api_version: String,
        kind: String,
    },
    Terminating,
}

/// Why a definition is not established.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionFailure {
    #[error("cannot make a CustomResourceDefinition of this")]
    Underivable(#[from] Underivable),
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
    #[error("cannot {doing}")]
    Request { doing: &'static str, source: Error },
}

impl DefinitionFailure {
    pub(super) fn doing(doing: &'static str) -> impl Fn(Error) -> Self {
        move |source| Self::Request { doing, source }
    }

    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Underivable(_) => Cause::DefinitionInvalid,
            Self::NotOurs(_) => Cause::ObjectControlled,
            // The API server refuses the derived definition, so that the mistake is in this one.
            Self::Request { source, .. } if source.is_invalid() => Cause::DefinitionInvalid,
            Self::Request { source, .. } => cause_of(source),
        }
    }

    /// Another writer was faster: reconcile again, without an event.
    pub(crate) fn is_conflict(&self) -> bool {
        let Self::Request { source, .. } = self else { return false };
        source.is_conflict() || source.is_already_exists() || source.is_not_found()
    }

    /// Whether a retry is useless before something changes.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Underivable(_) | Self::NotOurs(_) => true,
            Self::Request { source, .. } => source.is_invalid(),
        }
    }
}

/// The controller of the kind in the status.
pub(super) fn observed<S: Side>(xrd: &Object) -> Observed<'_> {
    let status = xrd.get("status").unwrap_or(&Value::Null);
    let condition = conditions(xrd)
        .into_iter()
        .find(|condition| condition.kind == S::WORDS.condition && condition.reason == S::WORDS.watching);
    Observed {
        generation: condition.map(|condition| condition.observed_generation).unwrap_or_default(),
        api_version: status["controllers"][S::WORDS.status]["apiVersion"].as_str().unwrap_or_default(),
    }
}

impl<S: Side> Definer<S> {
    pub(super) async fn settle(
        &self,
        xrd: &Object,
        result: Result<DefinitionState, DefinitionFailure>,
    ) -> Next {
        match result {
            Ok(DefinitionState::Idle) => Next::Rest,
            Ok(DefinitionState::Watching { api_version, kind }) => {
                let condition = Condition::new(S::WORDS.condition, Status::True, S::WORDS.watching);
                let reference = json!({"apiVersion": api_version, "kind": kind});
                self.write(xrd, at(xrd, condition), Some(reference)).await
            }
            Ok(DefinitionState::Terminating) => {
                let condition = Condition::new(S::WORDS.condition, Status::False, S::WORDS.terminating);
                self.write(xrd, at(xrd, condition), None).await
            }
            Err(failure) if failure.is_conflict() => Next::Conflict,
            Err(failure) => self.complain(xrd, &failure).await,
        }
    }

    async fn complain(&self, xrd: &Object, failure: &DefinitionFailure) -> Next {
        let message = chain(failure);
        warn!(definition = meta::name(xrd), problem = message, "cannot reconcile a definition");
        let reason = match failure {
            DefinitionFailure::Underivable(_) => "RenderCRD",
            _ if meta::is_being_deleted(xrd) => S::WORDS.terminate,
            _ => S::WORDS.establish,
        };
        self.recorder.failure(xrd, reason, message.clone(), failure.cause());
        let complaint = self.complaint(xrd, message, failure.cause());
        let written = self.write(xrd, complaint, None).await;
        if written != Next::Rest {
            return written;
        }
        if failure.is_final() { Next::Rest } else { Next::Retry }
    }

    /// An established definition stays established: its condition stays true, with the problem of the change as its message.
    fn complaint(&self, xrd: &Object, message: String, cause: Cause) -> Condition {
        let present = conditions(xrd).into_iter().find(|condition| condition.kind == S::WORDS.condition);
        match present {
            Some(present) if self.side.is_running(meta::name(xrd)) => {
                present.with_message(message).with_failure(cause.into())
            }
            _ => {
                let condition = Condition::new(S::WORDS.condition, Status::False, "ReconcileError");
                at(xrd, condition.with_message(message).with_failure(cause.into()))
            }
        }
    }

    /// Write the status, if it changed.
    async fn write(&self, xrd: &Object, mut condition: Condition, reference: Option<Value>) -> Next {
        condition.last_transition_time = self.context.clock.now();
        let before = conditions(xrd);
        let mut conditions = before.clone();
        set_condition(&mut conditions, condition);
        let present = xrd.get("status").and_then(|status| status.get("controllers")?.get(S::WORDS.status));
        if conditions == before && (reference.is_none() || reference.as_ref() == present) {
            return Next::Rest;
        }
        let mut status = json!({"conditions": conditions_to_json(&conditions)});
        if let Some(reference) = reference {
            status["controllers"] = json!({S::WORDS.status: reference});
        }
        let patch = json!({"metadata": {"resourceVersion": meta::resource_version(xrd)}, "status": status});
        let resource = self.context.definitions.resource();
        let target = ObjectPath { resource, namespace: "", name: meta::name(xrd) };
        match self.context.cluster.merge(target, Subresource::Status, &patch).await {
            Ok(bytes) => {
                self.context.definitions.insert_written(&bytes);
                Next::Rest
            }
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) if error.is_not_found() => Next::Rest,
            Err(error) => {
                debug!(definition = meta::name(xrd), error = chain(&error), "cannot write a status");
                Next::Retry
            }
        }
    }
}

fn conditions(xrd: &Object) -> Vec<Condition> {
    let conditions = xrd.get("status").and_then(|status| status.get("conditions"));
    conditions.map(conditions_in).unwrap_or_default()
}

fn at(xrd: &Object, mut condition: Condition) -> Condition {
    condition.observed_generation = meta::generation(xrd);
    condition
}
