//! What is known of kinds that are part of Kubernetes: when is one of them healthy?
//!
//! Some checks read single fields and shrug at the rest. Others read the whole object as its type, to which an object
//! with a malformed field is not healthy: those go through [`Typed`], which reads the fields that decide and their
//! neighbours.

mod batch;
mod typed;
mod workloads;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use self::typed::{Malformed, Typed};

/// Whether the object is of a kind that is known, and healthy.
pub(super) fn is_healthy(object: &JsonObject) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    // An empty group may be spelled out, as in `/v1`.
    match (
        api_version.strip_prefix('/').filter(|version| !version.contains('/')).unwrap_or(api_version),
        text("kind"),
    ) {
        ("v1", "ConfigMap" | "Namespace" | "Secret" | "ServiceAccount") => true,
        ("v1", "PersistentVolumeClaim") => is_bound(object).unwrap_or(false),
        ("v1", "Pod") => is_pod_healthy(object).unwrap_or(false),
        ("v1", "Service") => is_service_healthy(object),
        ("apps/v1", "DaemonSet") => workloads::is_daemon_set_healthy(object),
        ("apps/v1", "Deployment") => workloads::is_deployment_healthy(object),
        ("apps/v1", "ReplicaSet") => workloads::is_replica_set_healthy(object).unwrap_or(false),
        ("apps/v1", "StatefulSet") => workloads::is_stateful_set_healthy(object),
        ("autoscaling/v2", "HorizontalPodAutoscaler") => {
            workloads::is_autoscaler_healthy(object).unwrap_or(false)
        }
        ("batch/v1", "CronJob") => batch::is_cron_job_healthy(object).unwrap_or(false),
        ("batch/v1", "Job") => batch::is_job_healthy(object).unwrap_or(false),
        ("networking.k8s.io/v1", "Ingress") => has_load_balancer(object),
        // Not a verdict: the condition `Ready` is still asked.
        _ => false,
    }
}

fn is_bound(object: &JsonObject) -> Result<bool, Malformed> {
    let status = Typed::new(object)?.status()?;
    // Only for the error: the original decodes the whole claim before it reads the phase.
    status.conditions()?;
    Ok(status.text("phase")? == "Bound")
}

/// A pod has succeeded, or is meant to run for good and is ready.
fn is_pod_healthy(object: &JsonObject) -> Result<bool, Malformed> {
    let pod = Typed::new(object)?;
    let status = pod.status()?;
    let conditions = status.conditions()?;
    // The object is an observed one, in which the API server has put the default.
    let restarts = pod.spec()?.text("restartPolicy")? == "Always";
    Ok(match status.text("phase")? {
        "Succeeded" => true,
        "Running" => restarts && conditions.contains(&("Ready", "True")),
        _ => false,
    })
}

/// A service is healthy once it exists, unless it needs a load balancer.
fn is_service_healthy(object: &JsonObject) -> bool {
    field(object, &["spec", "type"]).and_then(Value::as_str) != Some("LoadBalancer")
        || has_load_balancer(object)
}

fn has_load_balancer(object: &JsonObject) -> bool {
    let ingress = field(object, &["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    ingress.is_some_and(|ingress| !ingress.is_empty())
}

/// The value at a path of field names.
fn field<'a>(object: &'a JsonObject, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(*name))
}
