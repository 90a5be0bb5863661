//! Wait: until conditions hold, or for too long.
//!
//! * v0.0.0 follows Kanister 0.119, pkg/function/wait.go: a condition is a Go template with sprig, in which `{$.path}` was replaced with what
//!   the JSONPath finds in the object. A condition that cannot be evaluated ends the round.
//! * v2.0.0 follows pkg/function/waitv2.go, which Kanister calls WaitV2: a condition is a template as `kubectl -o go-template` has it, over
//!   the object. Other than there, a template that cannot be parsed fails the phase at once, `timeout` may be a template, and a
//!   condition that cannot be evaluated does not keep others from being checked.
//!
//! Kanister asks the API server again and again. Here a phase waits for changes of the objects, which costs nothing, and asks again on its
//! own only where that is no help: when a request was refused.

mod condition;
mod conditions;

use ferroplane_api::Object;
use ferroplane_engine::action::{
    Answer, ArgumentMistake, Move, Need, Phase, PhaseContract, PhaseFunction, Request,
};
use ferroplane_golang::time::duration;
use serde::{Deserialize, Serialize};

use super::arguments::{Arguments, is_template, milliseconds, mistake};
use super::moves::{Failure, NextMove, checkpoint, done, perform, settle, wait};
use conditions::Conditions;

/// How soon to ask again after a refusal: twice as long each time, as Kanister does.
const FIRST_PAUSE: i64 = 100;
const LONGEST_PAUSE: i64 = 10_000;
/// How much of an error is kept until the time is over.
const LONGEST_ERROR: usize = 1000;

/// A version of Wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    V0_0,
    V2,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    /// Milliseconds since 1970.
    deadline: i64,
    /// Why a condition could not be evaluated last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// How often in a row something was refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    refusals: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PhaseFunction for Wait {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(self.next(phase))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["timeout", "conditions"],
            optional: &[],
            outputs: &[],
            needs: &[Need::Api],
        }
    }

    fn renders_arguments_itself(&self) -> bool {
        true
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        let mut mistakes = self.contract().mistakes(arguments);
        match Arguments(arguments).optional_text("timeout") {
            Ok(Some(text)) if !is_template(text) => {
                mistakes
                    .extend(milliseconds("timeout", text).err().map(|failure| mistake(failure, "timeout")));
            }
            Ok(_) => {}
            Err(failure) => mistakes.push(mistake(failure, "timeout")),
        }
        if let Some(conditions) = arguments.get("conditions") {
            mistakes.extend(conditions::mistakes(conditions, *self));
        }
        mistakes
    }
}

impl Wait {
    fn next(self, phase: &Phase<'_>) -> NextMove {
        let conditions = Conditions::read(phase, self)?;
        let mut state = match checkpoint::<Waiting>(phase)? {
            Some(state) => state,
            None => Waiting { deadline: phase.now.saturating_add(timeout(phase)?), ..Waiting::default() },
        };
        if phase.answers.is_empty() {
            let requests = conditions.objects().into_iter().map(Request::Get).collect();
            return Ok(perform(&state, requests));
        }
        if phase.answers.len() != conditions.objects().len() {
            return Err(Failure::unexpected(phase.answers));
        }
        let round = conditions.evaluate(phase, self);
        if round.holds {
            return Ok(done([]));
        }
        state.last_error = round.error.map(|error| shortened(&phase.secrets.redact(&error)));
        if phase.now >= state.deadline {
            return Err(overdue(phase, &state)?);
        }
        let is_refused = phase.answers.iter().any(|answer| matches!(answer, Answer::Refused(_)));
        state.refusals = if is_refused { state.refusals.saturating_add(1) } else { 0 };
        let wake_at = if is_refused { phase.now + pause(state.refusals) } else { state.deadline };
        Ok(wait(&state, Some(wake_at.min(state.deadline)), conditions.objects()))
    }
}

fn timeout(phase: &Phase<'_>) -> Result<i64, Failure> {
    let text = Arguments(phase.arguments).text("timeout")?;
    let rendered = phase.scope.render("args.timeout", text);
    let rendered = rendered.map_err(|error| conditions::not_rendered(&error))?;
    milliseconds("timeout", &rendered)
}

fn pause(refusals: u32) -> i64 {
    FIRST_PAUSE
        .saturating_mul(1_i64.checked_shl(refusals.saturating_sub(1).min(30)).unwrap_or(i64::MAX))
        .min(LONGEST_PAUSE)
}

fn overdue(phase: &Phase<'_>, state: &Waiting) -> Result<Failure, Failure> {
    let timeout = duration::format(timeout(phase)?.saturating_mul(1_000_000));
    let why = state.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    Ok(Failure::timeout(format!("the conditions did not hold within {timeout}{why}")))
}

fn shortened(text: &str) -> String {
    let end = (0..=LONGEST_ERROR.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or_default()].to_owned()
}

#[cfg(test)]
pub(super) mod tests;
