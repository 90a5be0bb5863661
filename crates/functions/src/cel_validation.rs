//! `function-cel-validation`: checks what earlier steps want against rules, as the last step of a pipeline.
//!
//! A rule is an expression that must be true, of the whole request or of each composed resource that it is about.
//! Changes nothing. Rules are compiled once and kept with the input, however often the step runs.

mod compiled;
mod input;
#[cfg(test)]
mod tests;
mod variables;

use ferroplane_cel::Value;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::v1::{Result as FunctionResult, RunFunctionRequest, RunFunctionResponse, Severity};
use ferroplane_wire::{Struct, StructError};

use crate::cost_budget::CostBudget;
use crate::effort::{Effort, TakesLong};
use crate::response;
use compiled::{Rule, Rules};
use variables::Variables;

/// How many violations are listed one by one.
const TOLD: usize = 100;
/// A longer message is cut.
const LONGEST_MESSAGE: usize = 2_048;

pub(crate) fn run(
    request: &RunFunctionRequest,
    effort: Effort<'_>,
) -> Result<RunFunctionResponse, TakesLong> {
    let mut response = response::to(request);
    let budget = CostBudget::new(effort);
    match check_all(request, &budget) {
        Ok(results) => response.results.extend(results),
        Err(problem) => response = response::fatal(response, problem),
    }
    budget.conclude(response)
}

/// A rule that does not hold, or cannot be told to.
struct Violation<'r> {
    rule: &'r Rule,
    message: String,
}

fn check_all(request: &RunFunctionRequest, budget: &CostBudget) -> Result<Vec<FunctionResult>, String> {
    let empty = Struct::default();
    let rules = request.input.as_ref().unwrap_or(&empty).reading(Rules::read);
    let rules = rules.as_ref().as_ref().map_err(String::clone)?;
    let invalid = |error: StructError| format!("cannot read the request: {error}");
    let variables = Variables::of(request, rules).map_err(invalid)?;
    let mut found = Vec::new();
    for rule in &rules.0 {
        match &rule.selector {
            None => found.extend(check(rule, None, &variables, budget)),
            Some(selector) => {
                if let Some(pattern) = selector.pattern() {
                    let spent = budget.spend_match(pattern, variables.length_of_names());
                    spent.map_err(|problem| {
                        format!("cannot match resources.pattern of rule {}: {problem}", quote(&rule.name))
                    })?;
                }
                for resource in variables.matching(selector) {
                    found.extend(check(rule, Some(&resource), &variables, budget));
                }
            }
        }
    }
    Ok(results_of(found))
}

/// Whether a rule holds for a composed resource, or for the request.
fn check<'r, 'v>(
    rule: &'r Rule,
    resource: Option<&(&'v str, Value<'v>)>,
    variables: &Variables<'v>,
    budget: &CostBudget,
) -> Option<Violation<'r>> {
    let subject = resource.map(|(name, _)| format!("composed resource {}", quote(name)));
    let evaluate =
        |program| budget.evaluate(program, variables.with(resource.map(|(_, value)| value.clone())));
    let problem = match evaluate(&rule.program) {
        Ok(Value::Bool(true)) => return None,
        Ok(Value::Bool(false)) => None,
        Ok(other) => Some(format!("it gives {} instead of true or false", article(other.type_name()))),
        Err(error) => Some(error.to_string()),
    };
    let name = quote(&rule.name);
    let message = match (problem, subject) {
        (Some(problem), Some(subject)) => format!("rule {name} cannot be evaluated for {subject}: {problem}"),
        (Some(problem), None) => format!("rule {name} cannot be evaluated: {problem}"),
        (None, subject) => {
            // It draws on the same budget. If it fails the violation is still told, with less to say.
            let computed = rule.message_program.as_ref().and_then(|program| evaluate(program).ok());
            let by = subject.map(|subject| format!(" by {subject}")).unwrap_or_default();
            format!("rule {name} is violated{by}: {}", explanation(rule, computed.as_ref()))
        }
    };
    Some(Violation { rule, message: cut(message) })
}

/// What the rule says for itself, if it has something sensible to say, or else what it is.
fn explanation(rule: &Rule, computed: Option<&Value<'_>>) -> String {
    let computed = computed.and_then(Value::as_str).map(str::trim);
    // The rules that Kubernetes has for `messageExpression` in a CRD.
    let computed = computed.filter(|message| !message.is_empty() && !message.contains('\n'));
    match (computed, &rule.message) {
        (Some(message), _) => message.to_owned(),
        (None, Some(message)) => message.clone(),
        (None, None) => format!("failed rule: {}", rule.source),
    }
}

fn article(kind: &str) -> String {
    // `uint` is spoken with a consonant first.
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']) && !kind.starts_with("uint");
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

fn cut(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Violations as results. The pipeline ends at the first fatal one, so warnings go first, and that one says
/// how many there are.
fn results_of(violations: Vec<Violation<'_>>) -> Vec<FunctionResult> {
    let (warnings, mut fatal): (Vec<_>, Vec<_>) =
        violations.into_iter().partition(|violation| violation.rule.severity == Severity::Warning);
    let others = fatal.len().saturating_sub(1);
    if let Some(first) = fatal.first_mut().filter(|_| others > 0) {
        first.message.push_str(&format!(" (and {others} more violations)"));
    }
    let untold = warnings.len().saturating_sub(TOLD);
    let mut results: Vec<_> = warnings.into_iter().take(TOLD).map(result).collect();
    if let Some(last) = results.last_mut().filter(|_| untold > 0) {
        last.message.push_str(&format!(" (and {untold} more violations)"));
    }
    results.extend(fatal.into_iter().take(TOLD).map(result));
    results
}

fn result(violation: Violation<'_>) -> FunctionResult {
    let Violation { rule, message } = violation;
    FunctionResult {
        severity: rule.severity.into(),
        message,
        reason: rule.reason.clone(),
        target: Some(rule.target.into()),
    }
}
