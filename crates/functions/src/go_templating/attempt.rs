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
use super::yaml;
use crate::effort::{Effort, TakesLong};

/// A text that is longer takes too long to parse for a brief call.
const BRIEF_TEXT: usize = 64 << 10;

/// An output whose values can take more takes too long to read for a brief call. Manifests seldom have as many in the output that a brief
/// call may print.
const BRIEF_VALUES: u64 = 8 << 20;

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
        with_remedy(problem, limit)
    }

    /// Refuses an output that is not to be read, because its values could take more memory or time than the templates may.
    pub(super) fn check_output(&self, output: &str, limits: &Limits) -> Result<(), String> {
        let (size, memory) = (yaml::size_of_nodes(output) as u64, limits.budget.memory);
        if size > memory {
            let problem = format!(
                "cannot decode manifests: the values in the output of the template can take more than {memory} bytes"
            );
            return Err(with_remedy(problem, Exhausted::Memory(memory)));
        }
        if self.is_brief() && size > BRIEF_VALUES {
            self.gave_up.set(true);
            return Err("cannot decode manifests: the output takes too long to read".to_owned());
        }
        Ok(())
    }

    /// Whether the call came to an end because it was brief.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.get()
    }

    fn is_brief(&self) -> bool {
        matches!(self.effort, Effort::Brief)
    }
}

fn with_remedy(problem: String, limit: Exhausted) -> String {
    match limits::remedy(limit) {
        Some(remedy) => format!("{problem}; {remedy}"),
        None => problem,
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
