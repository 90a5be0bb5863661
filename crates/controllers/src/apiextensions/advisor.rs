//! Tells whoever applies a Composition of mistakes in its steps: functions that do not exist, inputs that their functions refuse,
//! versions of functions that will not be there for long, and fields that have no effect.
//!
//! An API server asks when a Composition is written, and hands the answer on as warnings, which `kubectl` prints. How the
//! question gets here is for whoever runs us to say. Nothing is refused.

use std::sync::{Arc, Weak};

use ferroplane_api::keys;
use ferroplane_client::Error;
use ferroplane_engine::{ineffective_fields, version_warnings};
use serde_json::{Value, json};

use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::setup::webhook;

/// Where questions are sent to.
pub const PATH: &str = "/advise-on-versions";
pub(crate) const CONFIGURATION: &str = "ferroplane-function-versions";
const WEBHOOK: &str = "functionversions.ferroplane.io";

/// Knows which versions there are, for as long as controllers run.
#[derive(Debug, Clone)]
pub struct Advisor {
    context: Weak<Context>,
    functions: Weak<FunctionRegistry>,
}

impl Advisor {
    pub(crate) fn new(context: &Arc<Context>, functions: &Arc<FunctionRegistry>) -> Self {
        Self { context: Arc::downgrade(context), functions: Arc::downgrade(functions) }
    }

    /// Have the API server ask whenever a Composition is written, at this address (a `clientConfig`).
    pub async fn announce(&self, address: &Value) -> Result<(), Error> {
        let Some(context) = self.context.upgrade() else { return Ok(()) };
        webhook::announce(&context.cluster, &webhook::configuration(CONFIGURATION, hook(address))).await
    }

    /// Answer an `AdmissionReview` with another.
    pub fn review(&self, review: &Value) -> Value {
        let request = &review["request"];
        let mut response = json!({"uid": request["uid"], "allowed": true});
        let warnings = self.warnings(&request["object"]["spec"]);
        if !warnings.is_empty() {
            response["warnings"] = warnings.into();
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    fn warnings(&self, spec: &Value) -> Vec<String> {
        let Some(functions) = self.functions.upgrade() else { return Vec::new() };
        let warnings = version_warnings(spec, &functions.current().catalogue);
        let mistakes = functions.step_mistakes(spec);
        let ineffective = ineffective_fields(spec).into_iter().map(|field| field.message);
        warnings.iter().map(ToString::to_string).chain(mistakes).chain(ineffective).collect()
    }
}

/// The webhook, at an address.
pub(crate) fn hook(address: &Value) -> Value {
    json!({
        "name": WEBHOOK,
        "clientConfig": address,
        "rules": [{
            "apiGroups": [keys::APIEXTENSIONS], "apiVersions": ["v1"], "resources": ["compositions"],
            "operations": ["CREATE", "UPDATE"], "scope": "Cluster",
        }],
        // Advice is not worth waiting for, nor failing for.
        "failurePolicy": "Ignore",
        "timeoutSeconds": 1,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}
