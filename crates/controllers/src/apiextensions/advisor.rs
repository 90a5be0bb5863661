//! Tells whoever applies a Composition of mistakes in its steps: functions that do not exist, inputs that their functions refuse,
//! bases and patches that do not fit the kinds that the API server serves, versions of functions that will not be there for long, and
//! fields that have no effect.
//!
//! An API server asks when a Composition is written, and hands the answer on as warnings, which `kubectl` prints. How the
//! question gets here is for whoever runs us to say. Nothing is refused.

mod served;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferroplane_api::{Object, keys};
use ferroplane_client::Error;
use ferroplane_engine::{ineffective_fields, version_warnings};
use serde_json::{Value, json};

use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::setup::webhook;
pub use served::ServedDefinitions;

/// Where questions are sent to.
pub const PATH: &str = "/advise-on-versions";
pub(crate) const CONFIGURATION: &str = "ferroplane-function-versions";
const WEBHOOK: &str = "functionversions.ferroplane.io";

/// How long the definitions of kinds may take to arrive. Whoever applies a Composition waits for that.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is wrong with a Composition by what the API server serves, each in a line.
pub type Examiner = Arc<dyn Fn(&Object, &ServedDefinitions) -> Vec<String> + Send + Sync>;

/// Knows which versions there are, for as long as controllers run.
#[derive(Clone)]
pub struct Advisor {
    context: Weak<Context>,
    functions: Weak<FunctionRegistry>,
    examiner: Option<Examiner>,
}

impl fmt::Debug for Advisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advisor").finish_non_exhaustive()
    }
}

impl Advisor {
    pub(crate) fn new(context: &Arc<Context>, functions: &Arc<FunctionRegistry>) -> Self {
        Self { context: Arc::downgrade(context), functions: Arc::downgrade(functions), examiner: None }
    }

    /// The same, which also tells what somebody else finds.
    #[must_use]
    pub fn with_examiner(self, examiner: Examiner) -> Self {
        Self { examiner: Some(examiner), ..self }
    }

    /// Have the API server ask whenever a Composition is written, at this address (a `clientConfig`).
    pub async fn announce(&self, address: &Value) -> Result<(), Error> {
        let Some(context) = self.context.upgrade() else { return Ok(()) };
        webhook::announce(&context.cluster, &webhook::configuration(CONFIGURATION, vec![hook(address)])).await
    }

    /// Answer an `AdmissionReview` with another.
    pub async fn review(&self, review: &Value) -> Value {
        let request = &review["request"];
        let mut response = json!({"uid": request["uid"], "allowed": true});
        let mut warnings = self.warnings(&request["object"]["spec"]);
        for found in self.examine(&request["object"]).await {
            if !warnings.contains(&found) {
                warnings.push(found);
            }
        }
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

    async fn examine(&self, composition: &Value) -> Vec<String> {
        let (Some(examiner), Some(context)) = (self.examiner.clone(), self.context.upgrade()) else {
            return Vec::new();
        };
        let Some(composition) = composition.as_object().cloned() else { return Vec::new() };
        let served = tokio::time::timeout(PATIENCE, ServedDefinitions::find(&context, &composition)).await;
        let Ok(served) = served else { return Vec::new() };
        // Schemas of some kinds are large, and others want to be answered meanwhile.
        let findings = tokio::task::spawn_blocking(move || examiner(&composition, &served)).await;
        findings.unwrap_or_default()
    }
}

/// The webhook, at an address.
pub(crate) fn hook(address: &Value) -> Value {
    json!({
        "name": WEBHOOK,
        "clientConfig": address,
        "rules": [{
            "apiGroups": [keys::APIEXTENSIONS], "apiVersions": ["v1", "v2alpha1"], "resources": ["compositions"],
            "operations": ["CREATE", "UPDATE"], "scope": "Cluster",
        }],
        // Advice is not worth waiting for, nor failing for.
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}
