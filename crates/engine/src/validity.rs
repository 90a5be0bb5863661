//! Decides whether a pipeline is valid: that of a composition, before any composite resource uses it, and that of an operation, before
//! its first function is called.
//!
//! A missing function is an error until it is installed; so is one without the required capability. Only the revision that a step would
//! call counts: another one of the same function, such as a candidate, does not matter.

use std::collections::BTreeMap;

use ferroplane_api::{Cause, CompositionSpec, Condition, FailurePoint, Status, Step};
use serde_json::Value;

use crate::failure::chain;
use crate::pipeline::{Pipeline, PipelineError, UnresolvedStep};
use crate::resources::to_pipeline;
use crate::versions::{Catalogue, resolve};

/// The capability of functions in compositions.
pub const COMPOSITION: &str = "composition";
/// The capability of functions in operations.
pub const OPERATION: &str = "operation";

/// The capability of functions that phases of Blueprints call.
const ACTION: &str = "action";

/// The capabilities of revisions of functions, by their names. A revision that has not reported any yet is not listed.
pub type Capabilities = BTreeMap<String, Vec<String>>;

/// Why a pipeline is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPipeline {
    #[error("cannot read the composition")]
    Unreadable(#[source] serde_json::Error),
    #[error("cannot read the operation")]
    UnreadableOperation(#[source] serde_json::Error),
    #[error("cannot make the pipeline ready")]
    NotReady(#[from] PipelineError),
    /// A step calls a function that does not exist, so that no composite resource can use the pipeline.
    #[error(transparent)]
    Uncallable(#[from] UnresolvedStep),
    #[error("function `{function}` (active revision `{revision}`) does not have the capability `{missing}`")]
    MissingCapability { step: String, function: String, revision: String, missing: &'static str },
    /// A phase waits, and sees what the one before it has done. A step does neither.
    #[error(
        "function `{function}` can be called by phases of Blueprints only: have a step return an ActionSet that runs it"
    )]
    OnlyForPhases { step: String, function: String },
}

impl InvalidPipeline {
    /// The cause and the step.
    pub fn point(&self) -> FailurePoint {
        match self {
            Self::Unreadable(_) => Cause::PipelineInvalid.into(),
            Self::UnreadableOperation(_) => Cause::OperationInvalid.into(),
            Self::NotReady(error) => error.point(),
            Self::Uncallable(error) => error.point(),
            Self::MissingCapability { step, .. } | Self::OnlyForPhases { step, .. } => {
                FailurePoint::new(Cause::FunctionCapabilityMissing).in_step(step)
            }
        }
    }
}

/// The functions that the pipeline in the spec of a composition or of a revision calls.
pub fn functions_of(spec: &Value) -> Vec<String> {
    let steps = serde_json::from_value::<CompositionSpec>(spec.clone());
    let names =
        steps.map(|spec| to_pipeline(&spec).iter().map(|step| step.function_ref.name.clone()).collect());
    names.unwrap_or_default()
}

/// Whether a pipeline is valid, given the catalogue and the capabilities.
pub fn validate_pipeline(
    spec: &Value,
    catalogue: &Catalogue,
    capabilities: &Capabilities,
) -> Result<(), InvalidPipeline> {
    let spec: CompositionSpec = serde_json::from_value(spec.clone()).map_err(InvalidPipeline::Unreadable)?;
    check(&Pipeline::of(&spec)?, COMPOSITION, catalogue, capabilities)
}

/// The pipeline in the spec of an operation, if it is valid.
pub fn validate_operation(
    spec: &Value,
    catalogue: &Catalogue,
    capabilities: &Capabilities,
) -> Result<Pipeline, InvalidPipeline> {
    let steps = spec.get("pipeline").cloned().unwrap_or_default();
    let steps: Vec<Step> = serde_json::from_value(steps).map_err(InvalidPipeline::UnreadableOperation)?;
    let pipeline = Pipeline::new(&steps)?;
    check(&pipeline, OPERATION, catalogue, capabilities)?;
    Ok(pipeline)
}

/// Check that everything that a pipeline calls exists and has the capability.
fn check(
    pipeline: &Pipeline,
    needed: &'static str,
    catalogue: &Catalogue,
    capabilities: &Capabilities,
) -> Result<(), InvalidPipeline> {
    for (index, step) in pipeline.steps().iter().enumerate() {
        let resolution = match resolve(catalogue, step.question()) {
            Ok(resolution) => resolution,
            // Unlike in Crossplane: every composite resource that uses the pipeline would fail.
            Err(source) if is_missing(source.cause()) => {
                return Err(UnresolvedStep { index, step: step.name.clone(), source }.into());
            }
            // An active revision or another version may be installed later; until then composite resources report
            // it.
            Err(_) => continue,
        };
        let revision = &resolution.record.revision.name;
        check_capability((&step.name, &step.function), revision, needed, capabilities)?;
    }
    Ok(())
}

/// Check that the steps of a composition can call the revisions that they were resolved to. A pipeline is validated with the revisions
/// that the catalogue prefers, and a rollout may have chosen others.
pub fn check_callees(pipeline: &Pipeline, capabilities: &Capabilities) -> Result<(), InvalidPipeline> {
    for step in pipeline.steps() {
        let Some(callee) = &step.callee else { continue };
        check_capability((&step.name, &step.function), &callee.revision, COMPOSITION, capabilities)?;
    }
    Ok(())
}

/// Check that a step can call a revision of its function.
pub fn check_capability(
    (step, function): (&str, &str),
    revision: &str,
    needed: &'static str,
    capabilities: &Capabilities,
) -> Result<(), InvalidPipeline> {
    let said = capabilities.get(revision).filter(|capabilities| !can(capabilities, needed));
    let Some(capabilities) = said else { return Ok(()) };
    let (step, function) = (step.to_owned(), function.to_owned());
    if can_act(capabilities) {
        return Err(InvalidPipeline::OnlyForPhases { step, function });
    }
    let revision = revision.to_owned();
    Err(InvalidPipeline::MissingCapability { step, function, revision, missing: needed })
}

/// Whether no version of the function can be called.
fn is_missing(cause: Cause) -> bool {
    matches!(cause, Cause::FunctionNotFound | Cause::FunctionNotRunnable)
}

/// The condition about the pipeline of a revision or an operation.
pub fn pipeline_condition<T>(verdict: &Result<T, InvalidPipeline>) -> Condition {
    match verdict {
        Ok(_) => Condition::new("ValidPipeline", Status::True, "ValidPipeline"),
        Err(invalid) => {
            let reason = match invalid {
                InvalidPipeline::MissingCapability { .. } | InvalidPipeline::OnlyForPhases { .. } => {
                    "MissingCapabilities"
                }
                InvalidPipeline::Uncallable(_) => "MissingFunctions",
                _ => "InvalidPipeline",
            };
            Condition::new("ValidPipeline", Status::False, reason)
                .with_message(chain(invalid))
                .with_failure(invalid.point())
        }
    }
}

/// Whether phases of Blueprints may call a function with these capabilities.
pub fn can_act(capabilities: &[String]) -> bool {
    can(capabilities, ACTION)
}

/// Compare in any spelling: only letters and digits count.
fn can(capabilities: &[String], wanted: &str) -> bool {
    let plain = |text: &str| -> String {
        let plain = text.chars().filter(char::is_ascii_alphanumeric);
        plain.map(|character| character.to_ascii_lowercase()).collect()
    };
    capabilities.iter().any(|capability| plain(capability) == plain(wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::versions::{Family, Lifecycle, Record, Revision, VersionSource};

    fn spec(steps: &Value) -> Value {
        json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"}, "mode": "Pipeline", "pipeline": steps, "revision": 1})
    }

    /// One active revision of a function, which can do this.
    fn function(name: &str, capabilities: &[&str]) -> (Catalogue, Capabilities) {
        functions(&[(name, 1, Some(capabilities))])
    }

    /// Active revisions of functions, with what they say that they can do.
    fn functions(revisions: &[(&str, u64, Option<&[&str]>)]) -> (Catalogue, Capabilities) {
        let (mut families, mut all) = (BTreeMap::<_, Vec<_>>::new(), Capabilities::new());
        for (name, number, capabilities) in revisions {
            let revision = Revision { name: format!("{name}-{number}"), number: *number };
            if let Some(capabilities) = capabilities {
                let capabilities = capabilities.iter().map(|capability| (*capability).to_owned());
                all.insert(revision.name.clone(), capabilities.collect());
            }
            families.entry((*name).to_owned()).or_default().push(Record {
                revision,
                version: None,
                labels: BTreeMap::from([("number".to_owned(), number.to_string())]),
                lifecycle: Lifecycle::default(),
                is_active: true,
                is_serving: true,
                built_in: None,
                source: VersionSource::Package,
                is_implemented: true,
            });
        }
        let mut catalogue = Catalogue::new("v0.1.0".parse().unwrap());
        for (function, records) in families {
            catalogue.add(Family { function, stable: None, records }).unwrap();
        }
        (catalogue, all)
    }

    /// The reason and message of the condition.
    fn verdict(spec: &Value, (catalogue, capabilities): &(Catalogue, Capabilities)) -> (String, String) {
        let condition = pipeline_condition(&validate_pipeline(spec, catalogue, capabilities));
        assert_eq!(condition.status == Status::True, condition.reason == "ValidPipeline");
        (condition.reason, condition.message)
    }

    #[test]
    fn function_that_does_not_exist_is_a_fault_and_one_that_is_inactive_is_none() {
        let missing = spec(&json!([{"step": "a", "functionRef": {"name": "nope"}}]));
        let known = function("f", &["composition"]);
        let (reason, message) = verdict(&missing, &known);
        assert_eq!(reason, "MissingFunctions");
        assert!(message.contains("step `a`") && message.contains("there is no function `nope`"), "{message}");
        let point = validate_pipeline(&missing, &known.0, &known.1).unwrap_err().point();
        assert_eq!(point, FailurePoint::new(Cause::FunctionNotFound).in_step("a"));
        let pinned = spec(
            &json!([{"step": "a", "functionRef": {"name": "f"}, "functionRevisionRef": {"name": "f-9"}}]),
        );
        assert_eq!(verdict(&pinned, &known).0, "ValidPipeline");
    }

    #[test]
    fn function_must_be_able_to_compose() {
        let spec = spec(&json!([{"step": "a", "functionRef": {"name": "f"}}]));
        for capabilities in [&["composition"][..], &["Composition"], &["operation", "comp-osition"]] {
            assert_eq!(verdict(&spec, &function("f", capabilities)).0, "ValidPipeline", "{capabilities:?}");
        }
        for capabilities in [&[][..], &["operation"]] {
            let (catalogue, said) = function("f", capabilities);
            let point = validate_pipeline(&spec, &catalogue, &said).unwrap_err().point();
            let (reason, message) = verdict(&spec, &(catalogue, said));
            assert_eq!(reason, "MissingCapabilities");
            assert_eq!(point, FailurePoint::new(Cause::FunctionCapabilityMissing).in_step("a"));
            assert!(message.contains("`f` (active revision `f-1`)"), "{message}");
        }
    }

    #[test]
    fn function_of_an_operation_must_be_able_to_operate() {
        let spec =
            json!({"pipeline": [{"step": "a", "functionRef": {"name": "f"}, "input": {"any": "thing"}}]});
        let (catalogue, able) = function("f", &["operation"]);
        assert_eq!(validate_operation(&spec, &catalogue, &able).unwrap().steps().len(), 1);
        let (catalogue, unable) = function("f", &["composition"]);
        let invalid = validate_operation(&spec, &catalogue, &unable).unwrap_err();
        assert_eq!(invalid.point(), FailurePoint::new(Cause::FunctionCapabilityMissing).in_step("a"));
        let garbled = validate_operation(&json!({"pipeline": [{}]}), &catalogue, &unable).unwrap_err();
        assert_eq!(garbled.point(), Cause::OperationInvalid.into());
    }

    #[test]
    fn function_of_phases_is_refused_with_what_to_do_instead() {
        let steps = json!([{"step": "a", "functionRef": {"name": "KubeOps"}}]);
        let (catalogue, able) = function("KubeOps", &["action"]);
        let invalid = validate_operation(&json!({"pipeline": steps}), &catalogue, &able).unwrap_err();
        assert_eq!(invalid.point(), FailurePoint::new(Cause::FunctionCapabilityMissing).in_step("a"));
        assert!(invalid.to_string().contains("return an ActionSet"), "{invalid}");
        assert_eq!(verdict(&spec(&steps), &(catalogue, able)).0, "MissingCapabilities");
        let (catalogue, both) = function("KubeOps", &["action", "operation"]);
        assert!(validate_operation(&json!({"pipeline": steps}), &catalogue, &both).is_ok());
    }

    #[test]
    fn only_the_revision_that_a_step_calls_has_to_be_able_to_compose() {
        let canary = functions(&[("f", 1, Some(&["composition"])), ("f", 2, Some(&["operation"]))]);
        let calls = |number: &str| {
            spec(&json!([{
                "step": "a", "functionRef": {"name": "f"},
                "functionRevisionSelector": {"matchLabels": {"number": number}},
            }]))
        };
        assert_eq!(verdict(&calls("1"), &canary).0, "ValidPipeline");
        assert_eq!(verdict(&calls("2"), &canary).0, "MissingCapabilities");
    }

    #[test]
    fn revision_that_has_not_said_what_it_can_do_is_not_judged() {
        let spec = spec(&json!([{"step": "a", "functionRef": {"name": "f"}}]));
        assert_eq!(verdict(&spec, &functions(&[("f", 1, None)])).0, "ValidPipeline");
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
            let (reason, message) = verdict(&spec(&steps), &functions(&[]));
            assert_eq!(reason, "InvalidPipeline");
            assert!(message.contains(words), "{message}");
            let (catalogue, capabilities) = functions(&[]);
            let invalid = validate_pipeline(&spec(&steps), &catalogue, &capabilities).unwrap_err();
            assert_eq!(invalid.point().cause, Cause::PipelineInvalid, "{message}");
        }
    }

    #[test]
    fn compositions_that_list_resources_are_judged_by_the_functions_they_become() {
        let spec = json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"}, "mode": "Resources",
            "resources": [{"name": "r", "base": {"apiVersion": "v1", "kind": "ConfigMap"}}]});
        assert_eq!(functions_of(&spec), ["function-patch-and-transform"]);
        assert_eq!(verdict(&spec, &function("function-patch-and-transform", &[])).0, "MissingCapabilities");
    }
}
