//! Conditions of rules, in CEL.

use std::cell::OnceCell;

use ferroplane_cel::{Environment, Numbers, Type, Value};
use ferroplane_wire::v1::{Ready, RunFunctionRequest};

use crate::cel_state;
use crate::cost_budget::CostBudget;
use crate::pattern_budget::PatternBudget;

/// Evaluates conditions. What they check is prepared when the first of them is.
#[derive(Default)]
pub(super) struct Conditions<'a> {
    observed: OnceCell<Value<'a>>,
    /// While the composite resource is as it was, and once it cannot be ready.
    // Two, because `rsp.Desired` is `req.Desired` in the original: a rule that resets the readiness changes
    // what later conditions see.
    desired: [OnceCell<Value<'a>>; 2],
    budget: PatternBudget,
}

impl<'a> Conditions<'a> {
    /// Whether the condition holds for what is observed and desired. Earlier rules may have found that the composite
    /// resource cannot be ready; nothing else of what they do is seen.
    pub(super) fn holds(
        &mut self,
        source: &str,
        request: &'a RunFunctionRequest,
        is_unready: bool,
        costs: &CostBudget,
    ) -> Result<bool, String> {
        let environment = Environment::new()
            .variable("observed", cel_state::state_type())
            .variable("desired", cel_state::state_type())
            .variable("context", cel_state::struct_type())
            .numbers(Numbers::Double)
            .mixed_literals()
            .weighed_patterns();
        let program = environment.compile(source).map_err(|error| explain(&error.to_string()))?;
        // `dyn` is most of what one gets from a resource; its value is checked below.
        if !matches!(program.result_type(), Type::Bool | Type::Dyn) {
            return Err(format!("CEL condition must return bool, got {}", program.result_type()));
        }
        self.budget.spend(program.pattern_weight())?;
        let observed = || cel_state::state(request.observed.as_ref(), None);
        let ready = is_unready.then_some(Ready::False);
        let desired = || cel_state::state(request.desired.as_ref(), ready);
        let variables = [
            ("observed", self.observed.get_or_init(observed).clone()),
            ("desired", self.desired[usize::from(is_unready)].get_or_init(desired).clone()),
            ("context", cel_state::object(request.context.as_ref())),
        ];
        let value = costs.evaluate(&program, variables);
        let value = value.map_err(|error| format!("cannot evaluate CEL condition: {error}"))?;
        value.as_bool().ok_or_else(|| "CEL condition result is not bool".to_owned())
    }
}

/// The original parses first and checks then, and says which of the two failed.
fn explain(mistakes: &str) -> String {
    let failed = if mistakes.contains(": Syntax error: ") { "parse" } else { "type-check" };
    format!("cannot {failed} CEL condition: {mistakes}")
}
