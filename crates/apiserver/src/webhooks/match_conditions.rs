//! Expressions that must hold for a webhook to be asked.

use std::sync::OnceLock;

use ferroplane_cel::{EvaluateError, Limits, Program};
use ferroplane_schema::admission::{self, Refusal};
use ferroplane_schema::status::Status;
use serde_json::Value;

use super::admission_request::{AdmissionRequest, VersionedAttributes};

/// What all conditions of one webhook may cost together.
const BUDGET: u64 = 2_500_000;

/// The conditions of a webhook.
#[derive(Debug)]
pub(super) struct MatchConditions {
    conditions: Vec<MatchCondition>,
    fails_open: bool,
}

#[derive(Debug)]
struct MatchCondition {
    expression: String,
    /// Made when it is first needed: a client that stores a webhook does not wait for it.
    program: OnceLock<Result<Program, Refusal>>,
}

/// Why it is not known whether a condition holds. The words are those of Kubernetes.
#[derive(Debug, thiserror::Error)]
enum ConditionError {
    #[error("compilation error: {0}")]
    Compile(String),
    #[error("expression '{expression}' resulted in error: {error}")]
    Evaluate { expression: String, error: EvaluateError },
    #[error("expression '{0}' resulted in error: it is neither true nor false")]
    NotBoolean(String),
}

impl MatchConditions {
    pub(super) fn read(conditions: &Value, fails_open: bool) -> Self {
        let conditions = conditions.as_array().into_iter().flatten();
        let conditions = conditions.map(|condition| MatchCondition {
            expression: condition["expression"].as_str().unwrap_or_default().to_owned(),
            program: OnceLock::new(),
        });
        Self { conditions: conditions.collect(), fails_open }
    }

    /// Whether all hold. One that does not hold decides, whatever is wrong with others.
    pub(super) fn hold(
        &self,
        request: &AdmissionRequest<'_>,
        shown: &VersionedAttributes,
    ) -> Result<bool, Status> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let VersionedAttributes { object, old, .. } = shown;
        let mut json = request.to_request("", shown);
        if let Some(json) = json.as_object_mut() {
            for name in ["uid", "object", "oldObject"] {
                json.remove(name);
            }
        }
        let variables =
            [("object", object), ("oldObject", old), ("namespaceObject", &Value::Null), ("request", &json)];
        let mut budget = BUDGET;
        let mut errors = Vec::new();
        for condition in &self.conditions {
            match condition.holds(&variables, &mut budget) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if errors.is_empty() || self.fails_open {
            return Ok(errors.is_empty());
        }
        let why =
            if let [error] = errors.as_slice() { error.clone() } else { format!("[{}]", errors.join(", ")) };
        Err(Status::forbidden(&request.resource.identity, request.name, &why))
    }
}

impl MatchCondition {
    fn holds(&self, variables: &[(&str, &Value)], budget: &mut u64) -> Result<bool, ConditionError> {
        let expression = &self.expression;
        let program = self.program.get_or_init(|| admission::condition(expression));
        let program = program.as_ref().map_err(|refusal| match refusal {
            Refusal::Invalid(words) | Refusal::Internal(words) => ConditionError::Compile(words.clone()),
        })?;
        let limits = Limits { cost: (*budget).min(Limits::PER_CALL.cost) };
        let values = variables.iter().map(|(name, json)| (*name, program.borrow(json)));
        let (evaluated, cost) = program.evaluate_with(values, limits);
        *budget = budget.saturating_sub(cost);
        let evaluated =
            evaluated.map_err(|error| ConditionError::Evaluate { expression: expression.clone(), error })?;
        evaluated.value.as_bool().ok_or_else(|| ConditionError::NotBoolean(expression.clone()))
    }
}
