//! The conditions of packages and their revisions. Reasons and messages are Crossplane's.
//!
//! Follows Crossplane 2.4.0, `apis/pkg/v1/conditions.go`.

use ferroplane_api::{Cause, Condition, Object, PackageKind, Status};

use crate::settle::conditions_in;

/// The reasons that the conditions of health have.
const HEALTHY: &str = "HealthyPackageRevision";
const UNHEALTHY: &str = "UnhealthyPackageRevision";
pub(super) const AWAITING_ACTIVATION: &str = "AwaitingActivation";

/// Whether a package is healthy: its current revision is, and so is the program of that revision.
pub fn package_health(kind: PackageKind, revision: Option<&Object>) -> Condition {
    let of_revision = |kind: &str| revision.and_then(|revision| condition(revision, kind));
    let own = of_revision("RevisionHealthy");
    if !is_true(own.as_ref()) {
        return unhealthy("revision", own.as_ref(), "");
    }
    if !kind.has_runtime() {
        return Condition::new("Healthy", Status::True, HEALTHY);
    }
    let (runtime, active) = (of_revision("RuntimeHealthy"), of_revision("RuntimeActive"));
    let waiting = active.filter(|active| active.reason == AWAITING_ACTIVATION);
    match waiting {
        _ if !is_true(runtime.as_ref()) => {
            let note = if waiting.is_some() { "; runtime is scaled to zero awaiting activation" } else { "" };
            unhealthy("runtime", runtime.as_ref(), note)
        }
        Some(waiting) => {
            Condition::new("Healthy", Status::True, AWAITING_ACTIVATION).with_message(waiting.message)
        }
        None => Condition::new("Healthy", Status::True, HEALTHY),
    }
}

/// Whether the current revision of a package is active.
pub fn installed(is_active: bool) -> Condition {
    if is_active {
        return Condition::new("Installed", Status::True, "ActivePackageRevision");
    }
    Condition::new("Installed", Status::False, "InactivePackageRevision").with_message("Package is inactive")
}

/// The conditions of a package that cannot be fetched, for this reason.
pub fn unpacking(why: &str, cause: Cause) -> [Condition; 2] {
    [("Installed", "UnpackingPackage"), ("Healthy", UNHEALTHY)].map(|(kind, reason)| {
        Condition::new(kind, Status::False, reason).with_message(why).with_failure(cause.into())
    })
}

/// The condition `RevisionHealthy` or `RuntimeHealthy` of a healthy revision.
pub fn revision_healthy(kind: &str) -> Condition {
    Condition::new(kind, Status::True, HEALTHY)
}

/// The condition `RevisionHealthy` or `RuntimeHealthy` of a revision that has failed.
pub fn revision_unhealthy(kind: &str, why: &str, cause: Cause) -> Condition {
    Condition::new(kind, Status::False, UNHEALTHY).with_message(why).with_failure(cause.into())
}

/// The condition of a revision whose program is being started, or whose pods are not available yet. It has no code: nothing has failed
/// before the deadline of the Deployment is over.
pub fn runtime_starting(why: &str) -> Condition {
    Condition::new("RuntimeHealthy", Status::False, UNHEALTHY).with_message(why)
}

/// The condition of a revision that has responded since it was activated.
const IN_SERVICE: &str = "InService";

/// The conditions about the program of a revision. They are removed when the revision is deactivated.
pub const RUNTIME_CONDITIONS: [&str; 2] = ["RuntimeHealthy", IN_SERVICE];

/// The condition of a revision once it has responded, until it is deactivated.
///
/// It survives failures of the revision and restarts of the plane: composite resources that moved to a revision stay with it.
pub fn in_service() -> Condition {
    Condition::new(IN_SERVICE, Status::True, "Answered").with_message(
        "The revision has answered: steps that do not name a revision call the newest one in service",
    )
}

/// Whether steps that do not name a revision may call this one.
pub fn is_in_service(revision: &Object) -> bool {
    let is_so = |kind: &str| condition(revision, kind).map(|condition| condition.status == Status::True);
    // Other package managers only report whether a revision responds now. Revisions that a user wrote by hand have
    // an endpoint.
    let has_endpoint = || {
        let endpoint = revision.get("status").and_then(|status| status.get("endpoint")?.as_str());
        endpoint.is_some_and(|endpoint| !endpoint.is_empty())
    };
    is_so(IN_SERVICE).or_else(|| is_so("RuntimeHealthy")).unwrap_or_else(has_endpoint)
}

/// Whether the program of the revision responds.
pub(super) fn is_serving(revision: &Object) -> bool {
    is_true(condition(revision, "RuntimeHealthy").as_ref())
}

fn is_true(condition: Option<&Condition>) -> bool {
    condition.is_some_and(|condition| condition.status == Status::True)
}

fn unhealthy(what: &str, condition: Option<&Condition>, note: &str) -> Condition {
    let status = match condition.map_or(Status::Unknown, |condition| condition.status) {
        Status::True => "True",
        Status::False => "False",
        Status::Unknown => "Unknown",
    };
    let mut message = format!("Package {what} health is \"{status}\"");
    if let Some(condition) = condition.filter(|condition| !condition.message.is_empty()) {
        message = format!("{message} with message: {}", condition.message);
    }
    let mut healthy = Condition::new("Healthy", Status::False, UNHEALTHY).with_message(message + note);
    healthy.code = condition.map(|condition| condition.code.clone()).unwrap_or_default();
    healthy
}

fn condition(object: &Object, kind: &str) -> Option<Condition> {
    let conditions = object.get("status")?.get("conditions")?;
    conditions_in(conditions).into_iter().find(|condition| condition.kind == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn revision(conditions: &Value) -> Object {
        let Value::Object(revision) = json!({"status": {"conditions": conditions}}) else { unreachable!() };
        revision
    }

    #[test]
    fn package_is_as_healthy_as_its_current_revision() {
        let good = json!({"type": "RevisionHealthy", "status": "True"});
        let bad = json!({"type": "RevisionHealthy", "status": "False", "message": "no such tag"});
        let running = json!({"type": "RuntimeHealthy", "status": "True"});
        let crashed = json!({"type": "RuntimeHealthy", "status": "False", "message": "it ended"});
        let waiting = json!({"type": "RuntimeActive", "status": "False", "reason": "AwaitingActivation", "message": "none wanted"});
        for (kind, conditions, status, reason, message) in [
            (
                PackageKind::Function,
                json!([]),
                Status::False,
                UNHEALTHY,
                "Package revision health is \"Unknown\"",
            ),
            (
                PackageKind::Function,
                json!([bad]),
                Status::False,
                UNHEALTHY,
                "Package revision health is \"False\" with message: no such tag",
            ),
            (
                PackageKind::Function,
                json!([good]),
                Status::False,
                UNHEALTHY,
                "Package runtime health is \"Unknown\"",
            ),
            (
                PackageKind::Function,
                json!([good, crashed]),
                Status::False,
                UNHEALTHY,
                "Package runtime health is \"False\" with message: it ended",
            ),
            (PackageKind::Function, json!([good, running]), Status::True, HEALTHY, ""),
            (PackageKind::Configuration, json!([good]), Status::True, HEALTHY, ""),
            (
                PackageKind::Provider,
                json!([good, running, waiting]),
                Status::True,
                AWAITING_ACTIVATION,
                "none wanted",
            ),
        ] {
            let health = package_health(kind, Some(&revision(&conditions)));
            let said = (health.status, &*health.reason, &*health.message);
            assert_eq!(said, (status, reason, message), "{kind} {conditions}");
        }
        assert_eq!(package_health(PackageKind::Function, None).status, Status::False);
    }

    #[test]
    fn revision_that_has_answered_stays_in_service_when_it_fails() {
        let runtime = |status: &str| json!({"type": "RuntimeHealthy", "status": status});
        let in_service = json!({"type": "InService", "status": "True"});
        for (conditions, is_called) in [
            (json!([]), false),
            (json!([runtime("False")]), false),
            // Crossplane has no more details here.
            (json!([runtime("True")]), true),
            (json!([runtime("False"), in_service]), true),
        ] {
            assert_eq!(is_in_service(&revision(&conditions)), is_called, "{conditions}");
        }
        let Value::Object(by_hand) = json!({"status": {"endpoint": "here:9443"}}) else { unreachable!() };
        assert!(is_in_service(&by_hand));
    }
}
