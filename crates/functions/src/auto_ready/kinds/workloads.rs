//! Those that keep pods running, and those that say how many.

use serde_json::Value;

use super::typed::{Malformed, Typed};
use super::{JsonObject, field};

/// A daemon set is healthy when every node that should run its pod runs the newest one, ready and available.
pub(super) fn is_daemon_set_healthy(object: &JsonObject) -> bool {
    let count = |name| integer(object, &["status", name]);
    let wanted = count("desiredNumberScheduled");
    wanted.is_some()
        && ["numberReady", "updatedNumberScheduled", "numberAvailable"]
            .into_iter()
            .all(|name| count(name) == wanted)
}

/// A deployment is healthy when all replicas are up to date and available, and it says that it is available.
pub(super) fn is_deployment_healthy(object: &JsonObject) -> bool {
    let wanted = wanted_replicas(object);
    // A count that is not there is not zero, as in the original. Kubernetes leaves out counts of zero, so
    // that a deployment of no replicas is never healthy.
    let has_all = |name| integer(object, &["status", name]) == Some(wanted);
    has_all("updatedReplicas") && has_all("availableReplicas") && is_available(object)
}

fn is_available(object: &JsonObject) -> bool {
    let conditions = field(object, &["status", "conditions"]).and_then(Value::as_array);
    let says = |condition: &Value, field: &str, value: &str| {
        condition.get(field).and_then(Value::as_str) == Some(value)
    };
    conditions
        .into_iter()
        .flatten()
        .any(|condition| says(condition, "type", "Available") && says(condition, "status", "True"))
}

/// A stateful set is healthy when all replicas are ready and of the newest revision.
pub(super) fn is_stateful_set_healthy(object: &JsonObject) -> bool {
    let wanted = wanted_replicas(object);
    let has_all = |name| integer(object, &["status", name]) == Some(wanted);
    let revision = |name| field(object, &["status", name]).and_then(Value::as_str);
    let current = revision("currentRevision");
    has_all("readyReplicas")
        && has_all("currentReplicas")
        && current.is_some()
        && current == revision("updateRevision")
}

/// A replica set is healthy when its controller has seen its newest form, no replica failed, and enough are available.
pub(super) fn is_replica_set_healthy(object: &JsonObject) -> Result<bool, Malformed> {
    let set = Typed::new(object)?;
    let status = set.status()?;
    // Fields are read in full before anything is compared, because a malformed one makes the object unhealthy
    // whatever the others say.
    let seen = status.integer("observedGeneration")?.unwrap_or(0);
    let failed = status.conditions()?.contains(&("ReplicaFailure", "True"));
    let available = status.small_integer("availableReplicas")?.unwrap_or(0);
    let wanted = set.spec()?.small_integer("replicas")?.unwrap_or(1);
    let generation = set.object("metadata")?.integer("generation")?.unwrap_or(0);
    Ok(seen >= generation && !failed && available >= wanted)
}

/// An autoscaler is healthy when it scales, or would but for its limits, unless a condition before that one says why
/// it cannot.
pub(super) fn is_autoscaler_healthy(object: &JsonObject) -> Result<bool, Malformed> {
    let conditions = Typed::new(object)?.status()?.conditions()?;
    let decisive = conditions.iter().find(|(kind, status)| {
        *status == "True"
            && matches!(
                *kind,
                "FailedGetScale"
                    | "FailedUpdateScale"
                    | "FailedGetResourceMetric"
                    | "InvalidSelector"
                    | "ScalingActive"
                    | "ScalingLimited"
            )
    });
    Ok(decisive.is_some_and(|(kind, _)| matches!(*kind, "ScalingActive" | "ScalingLimited")))
}

fn wanted_replicas(object: &JsonObject) -> i64 {
    integer(object, &["spec", "replicas"]).unwrap_or(1)
}

/// The number at a path, without its fraction.
#[expect(clippy::cast_possible_truncation, reason = "the fraction is meant to be lost")]
fn integer(object: &JsonObject, path: &[&str]) -> Option<i64> {
    let number = field(object, path)?;
    number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))
}
