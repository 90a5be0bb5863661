//! Warns about mistakes in the steps of Compositions and operations when they are written: missing functions, inputs that their functions
//! refuse, bases and patches that do not match the served kinds, versions of functions that will be removed, and fields without an
//! effect.
//!
//! The API server calls this webhook for every write, and returns the answer as warnings, which `kubectl` prints. The process that runs
//! the controllers serves it. Only invalid Blueprints are refused, by the same webhook.

mod served;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::Error;
use ferroplane_engine::{ADVICE_WEBHOOKS, ineffective_fields, version_warnings};
use serde_json::{Value, json};

use crate::blueprints::{ActionSettings, admission};
use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::setup::webhook;
pub use served::ServedDefinitions;

/// The path of the webhook.
pub const PATH: &str = "/advise-on-versions";
pub(crate) const CONFIGURATION: &str = ADVICE_WEBHOOKS;
const WEBHOOK: &str = "functionversions.ferroplane.io";

/// How long reading the definitions of kinds may take. The user who applies a Composition waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Finds mistakes in a Composition with the served definitions, one per line.
pub type Examiner = Arc<dyn Fn(&Object, &ServedDefinitions) -> Vec<String> + Send + Sync>;

/// Knows the current catalogue while the controllers run.
#[derive(Clone)]
pub struct Advisor {
    context: Weak<Context>,
    functions: Weak<FunctionRegistry>,
    examiner: Option<Examiner>,
    actions: Option<ActionSettings>,
}

impl fmt::Debug for Advisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advisor").finish_non_exhaustive()
    }
}

impl Advisor {
    pub(crate) fn new(
        context: &Arc<Context>,
        functions: &Arc<FunctionRegistry>,
        actions: Option<ActionSettings>,
    ) -> Self {
        Self {
            context: Arc::downgrade(context),
            functions: Arc::downgrade(functions),
            examiner: None,
            actions,
        }
    }

    /// The same advisor, with the warnings of an examiner added.
    #[must_use]
    pub fn with_examiner(self, examiner: Examiner) -> Self {
        Self { examiner: Some(examiner), ..self }
    }

    /// Register the webhook at this address (a `clientConfig`).
    pub async fn announce(&self, address: &Value) -> Result<(), Error> {
        let Some(context) = self.context.upgrade() else { return Ok(()) };
        webhook::announce(&context.cluster, &webhook::configuration(CONFIGURATION, hooks(address))).await
    }

    /// Answer an `AdmissionReview`.
    pub async fn review(&self, review: &Value) -> Value {
        let request = &review["request"];
        if request["kind"]["kind"] == "Blueprint" {
            let mut response = self.judge_blueprint(&request["object"]);
            response["uid"] = request["uid"].clone();
            return json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        }
        let mut response = json!({"uid": request["uid"], "allowed": true});
        let object = &request["object"];
        let warnings = if let Some(pipeline) = pipeline_of(object) {
            // The resources of an operation are known only when it runs.
            self.warnings(&pipeline)
        } else {
            let mut warnings = self.warnings(&object["spec"]);
            for found in self.examine(object).await {
                if !warnings.contains(&found) {
                    warnings.push(found);
                }
            }
            warnings
        };
        if !warnings.is_empty() {
            response["warnings"] = warnings.iter().map(|warning| in_one_line(warning)).collect();
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    fn judge_blueprint(&self, blueprint: &Value) -> Value {
        match (self.functions.upgrade(), &self.actions) {
            (Some(functions), Some(actions)) => {
                let current = functions.current();
                let phases = functions.phases_among(&current);
                admission::judge(blueprint, &current.catalogue, &phases, actions)
            }
            _ => json!({"allowed": true}),
        }
    }

    fn warnings(&self, spec: &Value) -> Vec<String> {
        let Some(functions) = self.functions.upgrade() else { return Vec::new() };
        let warnings = version_warnings(spec, &functions.current().catalogue);
        let mistakes = functions.step_mistakes(spec);
        let ineffective = ineffective_fields(spec).into_iter().map(|field| field.message);
        warnings.iter().map(ToString::to_string).chain(mistakes).chain(ineffective).collect()
    }

    async fn examine(&self, composition: &Value) -> Vec<String> {
        let (Some(examiner), Some(context)) = (self.examiner.clone(), self.context.upgrade()) else {
            return Vec::new();
        };
        let Some(composition) = composition.as_object().cloned() else { return Vec::new() };
        let served = tokio::time::timeout(PATIENCE, ServedDefinitions::find(&context, &composition)).await;
        let Ok(served) = served else { return Vec::new() };
        // Schemas of some kinds are large, and other requests should be answered meanwhile.
        let findings = tokio::task::spawn_blocking(move || examiner(&composition, &served)).await;
        findings.unwrap_or_default()
    }
}

/// Join the lines of a warning, such as a compiler's. An API server drops a warning with control characters in it: `NewWarningHeader` in
/// k8s.io/apimachinery 0.36.4, `pkg/util/net/http.go`, refuses them.
fn in_one_line(warning: &str) -> String {
    let lines = warning.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").replace(char::is_control, " ")
}

/// The steps of an operation, or of the template of a schedule or a watch, in the form of a Composition. None for other objects.
fn pipeline_of(object: &Value) -> Option<Value> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    if meta::group(api_version) != keys::OPS {
        return None;
    }
    let template = &object["spec"]["operationTemplate"]["spec"];
    let spec = if template.is_null() { &object["spec"] } else { template };
    let kind = json!({"apiVersion": api_version, "kind": object["kind"]});
    Some(json!({"compositeTypeRef": kind, "mode": "Pipeline", "pipeline": spec["pipeline"]}))
}

/// The webhook configuration for an address.
pub(crate) fn hooks(address: &Value) -> Vec<Value> {
    vec![hook(address), admission::hook(address)]
}

fn hook(address: &Value) -> Value {
    json!({
        "name": WEBHOOK,
        "clientConfig": address,
        "rules": [
            {
                "apiGroups": [keys::APIEXTENSIONS], "apiVersions": ["v1", "v2alpha1"], "resources": ["compositions"],
                "operations": ["CREATE", "UPDATE"], "scope": "Cluster",
            },
            {
                "apiGroups": [keys::OPS], "apiVersions": ["v1alpha1"],
                "resources": ["operations", "cronoperations", "watchoperations"],
                "operations": ["CREATE", "UPDATE"], "scope": "Cluster",
            },
        ],
        // A warning is worth neither a long wait nor a refused write.
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_has_no_control_characters() {
        let warning = "step `one`: input.rules: ERROR: <input>:1:4: Syntax error\n | 1 +\r\n | \t..^";
        let expected = "step `one`: input.rules: ERROR: <input>:1:4: Syntax error | 1 + |  ..^";
        assert_eq!(in_one_line(warning), expected);
    }
}
