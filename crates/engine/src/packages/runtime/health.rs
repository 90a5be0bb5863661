//! The health of the workload of a revision.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/runtime/runtime_function.go` and `runtime_provider.go`. The texts are Crossplane's.

use ferroplane_api::{Object, PackageKind};
use serde_json::Value;

/// Why the program of a package does not run, if it does not.
pub fn deployment_trouble(kind: PackageKind, deployment: &Object) -> Option<String> {
    let what = kind.name().to_ascii_lowercase();
    match available(deployment) {
        None => Some(format!("{what} package deployment has no condition of type \"Available\" yet")),
        Some(condition) if condition["status"] == "True" => None,
        Some(condition) => {
            let message = condition["message"].as_str().unwrap_or_default();
            Some(format!("{what} package deployment is unavailable with message: {message}"))
        }
    }
}

/// Whether enough pods of a Deployment answer.
pub fn is_available(deployment: &Object) -> bool {
    available(deployment).is_some_and(|condition| condition["status"] == "True")
}

fn available(deployment: &Object) -> Option<&Value> {
    let conditions = deployment.get("status")?.get("conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Available")
}
