//! What a line of the log says, and what it never says.

use ferroplane_schema::status::{Resource, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::auth::identity::Identity;

fn line(change: impl FnOnce(&mut Event<'_>)) -> Value {
    let user = Identity { name: "bob".to_owned(), ..Identity::default() };
    let sources = ["10.0.0.1".parse().unwrap()];
    let object = ObjectReference {
        group: "example.org",
        version: "v1",
        resource: "widgets",
        namespace: "default",
        name: "x",
        ..ObjectReference::default()
    };
    let body = json!({"spec": {"size": 1}});
    let mut event = Event {
        level: Level::Request,
        id: "id",
        received: Timestamp::from_microsecond(1_800_000_000_000_001).unwrap(),
        answered: Timestamp::from_second(1_800_000_001).unwrap(),
        uri: "/apis/example.org/v1/namespaces/default/widgets?dryRun=All",
        verb: "create",
        user: &user,
        impersonated: None,
        sources: &sources,
        user_agent: "kubectl",
        object: Some(object),
        outcome: Outcome::Success(201),
        reason: Some("RBAC: allowed"),
        request: Some(&body),
        annotations: &[],
    };
    change(&mut event);
    serde_json::from_slice(&event.to_line()).unwrap()
}

#[test]
fn line_says_who_did_what_when_and_how_it_ended() {
    let expected = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Event",
        "level": "Request",
        "auditID": "id",
        "stage": "ResponseComplete",
        "requestURI": "/apis/example.org/v1/namespaces/default/widgets?dryRun=All",
        "verb": "create",
        "user": {"username": "bob"},
        "sourceIPs": ["10.0.0.1"],
        "userAgent": "kubectl",
        "objectRef": {
            "resource": "widgets", "namespace": "default", "name": "x", "apiGroup": "example.org", "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "requestObject": {"spec": {"size": 1}},
        "requestReceivedTimestamp": "2027-01-15T08:00:00.000001Z",
        "stageTimestamp": "2027-01-15T08:00:01.000000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC: allowed",
        },
    });
    assert_eq!(line(|_| ()), expected);
}

#[test]
fn refusal_says_why() {
    let status = Status::forbidden(&Resource::new("", "pods"), "x", "no");
    let impersonated = Identity { name: "eve".to_owned(), ..Identity::default() };
    let line = line(|event| {
        // The event lives for this test only.
        event.outcome = Outcome::Failure(Box::leak(Box::new(status)));
        event.impersonated = Some(Box::leak(Box::new(impersonated)));
        event.reason = None;
    });
    let expected = json!({
        "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "pods \"x\" is forbidden: no",
    });
    assert_eq!(line["responseStatus"], expected);
    assert_eq!(line["impersonatedUser"], json!({"username": "eve"}));
    assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "forbid");
}

#[test]
fn bodies_with_secrets_are_never_written() {
    let about = |group, resource, subresource| {
        Some(ObjectReference { group, resource, subresource, ..ObjectReference::default() })
    };
    for object in [
        about("", "secrets", ""),
        about("", "secrets", "status"),
        about("", "serviceaccounts", "token"),
        about("authentication.k8s.io", "tokenreviews", ""),
        None,
    ] {
        let line = line(|event| event.object = object);
        assert_eq!((&line["level"], line.get("requestObject")), (&json!("Metadata"), None));
    }
    let line = line(|event| event.level = Level::Metadata);
    assert_eq!(line.get("requestObject"), None);
}

#[test]
fn line_stays_within_limits() {
    let huge: &'static Value = Box::leak(Box::new(json!({"data": "x".repeat(1 << 20)})));
    let long: &'static str = Box::leak("é".repeat(1 << 20).into_boxed_str());
    let line = line(|event| {
        event.request = Some(huge);
        event.uri = long;
        event.user_agent = long;
    });
    assert_eq!(line.get("requestObject"), None);
    assert_eq!(line["annotations"]["audit.k8s.io/truncated"], "true");
    assert!(line.to_string().len() < 16 << 10);
}

#[test]
fn log_is_complete_when_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit/audit.log");
    let log = AuditLog::open(&path, &Settings::default()).unwrap();
    let user = Identity::anonymous();
    let now = Timestamp::now();
    let event = Event {
        level: Level::Metadata,
        id: "",
        received: now,
        answered: now,
        uri: "/",
        verb: "delete",
        user: &user,
        impersonated: None,
        sources: &[],
        user_agent: "",
        object: None,
        outcome: Outcome::Success(200),
        reason: None,
        request: None,
        annotations: &[],
    };
    for _ in 0..100 {
        log.record(&event);
    }
    assert_eq!(log.close(Duration::from_mins(1)), 0);
    let text = std::fs::read_to_string(&path).unwrap();
    let ids: std::collections::HashSet<_> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["auditID"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 100);
}
