//! One call, and how far it may go: a brief one gives up where another one would continue.

use std::cell::Cell;
use std::time::Duration;

use ferroplane_template::{Budget, ExecuteError, Exhausted};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::RunFunctionRequest;

use super::input::Prepared;
use super::limits::{self, Limits};
use super::parsed::{Kept, Slot};
use super::release::Release;
use crate::effort::{Effort, TakesLong};

/// A text that is longer takes too long to parse for a brief call.
const BRIEF_TEXT: usize = 64 << 10;

/// A call.
pub(super) struct Attempt<'a> {
    effort: Effort<'a>,
    gave_up: Cell<bool>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(effort: Effort<'a>) -> Self {
        Self { effort, gave_up: Cell::new(false) }
    }

    /// The input of the request, read now or before.
    pub(super) fn read(
        &self,
        request: &RunFunctionRequest,
        release: Release,
    ) -> Result<std::sync::Arc<Kept>, TakesLong> {
        let nothing = Struct::default();
        let input = request.input.as_ref().unwrap_or(&nothing);
        let slot = input.reading(|_| Slot::default());
        let kept = match slot.get(release) {
            Some(kept) => kept,
            None if self.is_brief() && input.wire().len() > BRIEF_TEXT => return Err(TakesLong),
            None => slot.put(release, Prepared::read(input, release), input.wire().len()),
        };
        let parses_much = || kept.text_length(request) > BRIEF_TEXT;
        if self.is_brief() && (kept.takes_long() || parses_much()) { Err(TakesLong) } else { Ok(kept) }
    }

    /// What the templates may cost.
    pub(super) fn budget(&self, limits: &Limits) -> Budget {
        if self.is_brief() { limits.brief() } else { limits.budget }
    }

    /// The time that a template may take, if it is over.
    pub(super) fn expired(&self, limits: &Limits) -> Option<Duration> {
        match self.effort {
            // A brief call is ended by its budget, which needs no clock.
            Effort::Brief => None,
            Effort::Full(elapsed) => (elapsed() > limits.time).then_some(limits.time),
        }
    }

    /// Why a template could not be executed, and what to do if it came to a limit.
    pub(super) fn explain(&self, error: &ExecuteError, limits: &Limits) -> String {
        let problem = format!("cannot execute template: {error}");
        let Some(limit) = error.exhausted else { return problem };
        if self.is_brief() && !is_own(limit, &limits.budget) {
            self.gave_up.set(true);
        }
        limits::remedy(limit).map_or_else(|| problem.clone(), |remedy| format!("{problem}; {remedy}"))
    }

    /// Whether the call came to an end because it was brief.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.get()
    }

    fn is_brief(&self) -> bool {
        matches!(self.effort, Effort::Brief)
    }
}

/// Whether a limit is that of the step, and not the smaller one of a brief call.
fn is_own(limit: Exhausted, own: &Budget) -> bool {
    match limit {
        Exhausted::Steps(steps) => steps == own.steps,
        Exhausted::Memory(memory) => memory == own.memory,
        Exhausted::Output(output) => output == own.output,
        Exhausted::Time(_) => true,
    }
}
