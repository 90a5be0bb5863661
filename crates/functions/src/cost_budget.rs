//! What one call may cost in expressions: those in CEL, and regular expressions that are matched.
//!
//! Our own design: the originals have no bound. A brief call that comes to its end is given up, and made again on the threads for long
//! calls; only one that has had all of it fails.

use std::cell::Cell;

use ferroplane_cel::{EvaluateError, Limits, Program, Value, matching_cost};
use ferroplane_golang::regexp::Expression;
use ferroplane_wire::v1::RunFunctionResponse;

use crate::effort::{BRIEF_COST, Effort, TakesLong};

/// What all expressions of a call may cost together, in the unit of CEL. One in CEL may cost a tenth of it.
const COST: u64 = Limits::PER_OBJECT.cost;

/// Why a regular expression is not matched.
const TOO_MUCH: &str = "matching the regular expressions of the step up to this one takes too long; repeat large character classes less often, or match shorter texts";

/// What is left for expressions in a call.
#[derive(Debug)]
pub(crate) struct CostBudget {
    left: Cell<u64>,
    is_brief: bool,
}

impl CostBudget {
    pub(crate) fn new(effort: Effort<'_>) -> Self {
        let is_brief = matches!(effort, Effort::Brief);
        Self { left: Cell::new(if is_brief { BRIEF_COST } else { COST }), is_brief }
    }

    /// Counts what it costs to match an expression against so many bytes, before that is done.
    pub(crate) fn spend_match(&self, expression: &Expression, length: usize) -> Result<(), &'static str> {
        let left = self.left.get().checked_sub(matching_cost(expression.weight(), length));
        // Nothing is left for what is cheaper, either, so that a brief call is given up although its error may be passed over.
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(TOO_MUCH)
    }

    /// Evaluates an expression, which may cost what one alone may, or what is left if that is less.
    pub(crate) fn evaluate<'n, 'v>(
        &self,
        program: &Program,
        given: impl IntoIterator<Item = (&'n str, Value<'v>)>,
    ) -> Result<Value<'v>, EvaluateError> {
        let left = self.left.get();
        let limits = Limits { cost: Limits::PER_CALL.cost.min(left) };
        let (outcome, cost) = program.evaluate_with(given, limits);
        // One that does more than its cost shows leaves nothing for others.
        let is_excessive = matches!(&outcome, Err(EvaluateError::Cancelled(_))) && cost <= limits.cost;
        self.left.set(if is_excessive { 0 } else { left.saturating_sub(cost.min(limits.cost)) });
        outcome.map(|evaluated| evaluated.value)
    }

    /// The response, unless the call was brief and came to its end.
    pub(crate) fn conclude(&self, response: RunFunctionResponse) -> Result<RunFunctionResponse, TakesLong> {
        if self.is_brief && self.left.get() == 0 { Err(TakesLong) } else { Ok(response) }
    }
}
