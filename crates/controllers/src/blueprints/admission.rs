//! Validates Blueprints when they are written: each phase against the version of its function that it would call.
//!
//! The API server calls the webhook that also warns about Compositions. A Blueprint that cannot run is refused; a version that will be
//! removed, or that another one replaces, is a warning, which `kubectl` prints.

use ferroplane_api::{Blueprint, keys};
use ferroplane_engine::action::{PhaseFunctions, validate_blueprint};
use ferroplane_engine::versions::Catalogue;
use serde_json::{Value, json};

use super::ActionSettings;

const WEBHOOK: &str = "blueprints.cr.kanister.io";

/// The response to an `AdmissionReview` of a Blueprint, without the uid of the request.
pub(crate) fn judge(
    object: &Value,
    catalogue: &Catalogue,
    functions: &dyn PhaseFunctions,
    settings: &ActionSettings,
) -> Value {
    let blueprint = object.as_object().map(Blueprint::of);
    let blueprint = match blueprint {
        Some(Ok(blueprint)) => blueprint,
        Some(Err(error)) => return refuse(&format!("cannot read the Blueprint: {error}"), &[]),
        None => return refuse("the request has no Blueprint", &[]),
    };
    let findings = validate_blueprint(&blueprint, catalogue, functions, settings.is_strict);
    if findings.errors.is_empty() {
        return with_warnings(json!({"allowed": true}), &findings.warnings);
    }
    refuse(&findings.errors.join("; "), &findings.warnings)
}

fn refuse(message: &str, warnings: &[String]) -> Value {
    let status = json!({"code": 422, "reason": "Invalid", "message": message});
    with_warnings(json!({"allowed": false, "status": status}), warnings)
}

fn with_warnings(mut response: Value, warnings: &[String]) -> Value {
    if !warnings.is_empty() {
        response["warnings"] = warnings.into();
    }
    response
}

/// The webhook configuration for an address.
pub(crate) fn hook(address: &Value) -> Value {
    json!({
        "name": WEBHOOK,
        "clientConfig": address,
        "rules": [{
            "apiGroups": [keys::KANISTER], "apiVersions": ["v1alpha1"], "resources": ["blueprints"],
            "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
        }],
        // A Blueprint is validated again before it runs, so that a failing webhook must not block writes.
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}
