//! Decides whether the pipeline of a composition can be used at all, before any composite resource uses it.
//!
//! A function that is not there is no fault: it may come. One that is there and says that it cannot compose is.

use ferroplane_api::{Cause, CompositionSpec, Condition, FailurePoint, Status};
use serde_json::Value;

use crate::failure::chain;
use crate::pipeline::{Pipeline, PipelineError};
use crate::resources::to_pipeline;

/// What a function must be able to do to be part of a composition.
const COMPOSITION: &str = "composition";

/// Something that steps can call, and what it says that it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callable {
    /// What steps call it.
    pub function: String,
    /// Which of the things that are called so.
    pub revision: String,
    pub capabilities: Vec<String>,
}

/// Why a pipeline cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPipeline {
    #[error("cannot read the composition")]
    Unreadable(#[source] serde_json::Error),
    #[error("cannot make the pipeline ready")]
    NotReady(#[from] PipelineError),
    #[error("function `{function}` (active revision `{revision}`) does not have the capability `{missing}`")]
    MissingCapability { step: String, function: String, revision: String, missing: &'static str },
}

impl InvalidPipeline {
    /// What failed, and in which step.
    pub fn point(&self) -> FailurePoint {
        match self {
            Self::Unreadable(_) => Cause::PipelineInvalid.into(),
            Self::NotReady(error) => error.point(),
            Self::MissingCapability { step, .. } => {
                FailurePoint::new(Cause::FunctionCapabilityMissing).in_step(step)
            }
        }
    }
}

/// The pipeline in the spec of a composition or of one of its revisions: the functions that it calls.
pub fn functions_of(spec: &Value) -> Vec<String> {
    let steps = serde_json::from_value::<CompositionSpec>(spec.clone());
    let names =
        steps.map(|spec| to_pipeline(&spec).iter().map(|step| step.function_ref.name.clone()).collect());
    names.unwrap_or_default()
}

/// Whether a pipeline can be used, given everything that can be called.
pub fn validate_pipeline(spec: &Value, callables: &[Callable]) -> Result<(), InvalidPipeline> {
    let spec: CompositionSpec = serde_json::from_value(spec.clone()).map_err(InvalidPipeline::Unreadable)?;
    let steps = to_pipeline(&spec);
    // Only for its errors.
    Pipeline::new(&steps)?;
    let step_of = |callable: &Callable| {
        let step = steps.iter().find(|step| step.function_ref.name == callable.function)?;
        Some(step.step.clone())
    };
    let mut called = callables.iter().filter_map(|callable| Some((step_of(callable)?, callable)));
    match called.find(|(_, callable)| !can(callable, COMPOSITION)) {
        None => Ok(()),
        Some((step, callable)) => Err(InvalidPipeline::MissingCapability {
            step,
            function: callable.function.clone(),
            revision: callable.revision.clone(),
            missing: COMPOSITION,
        }),
    }
}

/// What a revision says about its pipeline.
pub fn pipeline_condition(verdict: &Result<(), InvalidPipeline>) -> Condition {
    match verdict {
        Ok(()) => Condition::new("ValidPipeline", Status::True, "ValidPipeline"),
        Err(invalid) => {
            let reason = match invalid {
                InvalidPipeline::MissingCapability { .. } => "MissingCapabilities",
                _ => "InvalidPipeline",
            };
            Condition::new("ValidPipeline", Status::False, reason)
                .with_message(chain(invalid))
                .with_failure(invalid.point())
        }
    }
}

/// However people write it: only letters and digits count.
fn can(callable: &Callable, wanted: &str) -> bool {
    let plain = |text: &str| -> String {
        let plain = text.chars().filter(char::is_ascii_alphanumeric);
        plain.map(|character| character.to_ascii_lowercase()).collect()
    };
    callable.capabilities.iter().any(|capability| plain(capability) == plain(wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(steps: &Value) -> Value {
        json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"}, "mode": "Pipeline", "pipeline": steps, "revision": 1})
    }

    fn callable(function: &str, capabilities: &[&str]) -> Callable {
        let capabilities = capabilities.iter().map(|capability| (*capability).to_owned()).collect();
        Callable { function: function.to_owned(), revision: format!("{function}-1"), capabilities }
    }

    /// The reason and message of the condition.
    fn verdict(spec: &Value, callables: &[Callable]) -> (String, String) {
        let condition = pipeline_condition(&validate_pipeline(spec, callables));
        assert_eq!(condition.status == Status::True, condition.reason == "ValidPipeline");
        (condition.reason, condition.message)
    }

    #[test]
    fn function_that_is_not_there_is_no_fault() {
        let spec = spec(&json!([{"step": "a", "functionRef": {"name": "f"}}]));
        assert_eq!(verdict(&spec, &[callable("g", &[])]).0, "ValidPipeline");
    }

    #[test]
    fn function_must_be_able_to_compose() {
        let spec = spec(&json!([{"step": "a", "functionRef": {"name": "f"}}]));
        for capabilities in [&["composition"][..], &["Composition"], &["operation", "comp-osition"]] {
            assert_eq!(verdict(&spec, &[callable("f", capabilities)]).0, "ValidPipeline", "{capabilities:?}");
        }
        for capabilities in [&[][..], &["operation"]] {
            let (reason, message) = verdict(&spec, &[callable("f", capabilities)]);
            assert_eq!(reason, "MissingCapabilities");
            let point = validate_pipeline(&spec, &[callable("f", capabilities)]).unwrap_err().point();
            assert_eq!(point, FailurePoint::new(Cause::FunctionCapabilityMissing).in_step("a"));
            assert!(message.contains("`f` (active revision `f-1`)"), "{message}");
        }
    }

    #[test]
    fn pipeline_that_cannot_be_made_ready_is_invalid() {
        let step = json!({"step": "a", "functionRef": {"name": "f"}});
        let mut secretless = step.clone();
        secretless["credentials"] = json!([{"name": "c", "source": "None"}]);
        let cases = [
            (json!([]), "no steps"),
            (json!([step, step]), "two steps are named `a`"),
            (json!([secretless]), "needs `source: Secret`"),
            (json!([{"step": "a"}]), "cannot read the composition: missing field `functionRef`"),
        ];
        for (steps, words) in cases {
            let (reason, message) = verdict(&spec(&steps), &[]);
            assert_eq!(reason, "InvalidPipeline");
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn compositions_that_list_resources_are_judged_by_the_functions_they_become() {
        let spec = json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"}, "mode": "Resources",
            "resources": [{"name": "r", "base": {"apiVersion": "v1", "kind": "ConfigMap"}}]});
        assert_eq!(functions_of(&spec), ["function-patch-and-transform"]);
        assert_eq!(verdict(&spec, &[callable("function-patch-and-transform", &[])]).0, "MissingCapabilities");
    }
}
