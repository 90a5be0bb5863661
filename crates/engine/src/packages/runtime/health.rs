//! The health of the workload of a revision.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/runtime/runtime_function.go` and `runtime_provider.go`. The texts are Crossplane's.

use ferroplane_api::{Cause, Condition, Object, PackageKind};
use serde_json::Value;

use crate::packages::{revision_unhealthy, runtime_starting};

/// The condition `RuntimeHealthy` of a revision whose pods are not available. None if they are.
pub fn deployment_trouble(kind: PackageKind, deployment: &Object) -> Option<Condition> {
    let why = why_unavailable(kind, deployment)?;
    if has_missed_its_deadline(deployment) {
        return Some(revision_unhealthy("RuntimeHealthy", &why, Cause::PackageNotRun));
    }
    Some(runtime_starting(&why))
}

fn why_unavailable(kind: PackageKind, deployment: &Object) -> Option<String> {
    let what = kind.name().to_ascii_lowercase();
    match condition(deployment, "Available") {
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
    condition(deployment, "Available").is_some_and(|condition| condition["status"] == "True")
}

/// Whether Kubernetes has waited for the pods as long as the Deployment allows, by default ten minutes.
fn has_missed_its_deadline(deployment: &Object) -> bool {
    condition(deployment, "Progressing").is_some_and(|condition| {
        condition["status"] == "False" && condition["reason"] == "ProgressDeadlineExceeded"
    })
}

fn condition<'a>(deployment: &'a Object, kind: &str) -> Option<&'a Value> {
    let conditions = deployment.get("status")?.get("conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}
