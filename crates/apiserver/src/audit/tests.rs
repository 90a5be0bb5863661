//! What a line of the log says, and what it never says.

use std::sync::Arc;

use ferroplane_schema::status::{Resource, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::event::{Authorization, Event, LazyObject, Level, ObjectReference, Outcome, Stage};
use super::*;
use crate::auth::identity::Identity;
use crate::request::ResourcePath;

fn path(group: &str, resource: &str, subresource: &str) -> ResourcePath {
    ResourcePath {
        group: group.to_owned(),
        version: "v1".to_owned(),
        namespace: "default".to_owned(),
        resource: resource.to_owned(),
        name: "x".to_owned(),
        subresource: subresource.to_owned(),
    }
}

fn reference(path: ResourcePath) -> ObjectReference {
    ObjectReference { path, uid: String::new(), generation: 0 }
}

fn lazy(object: Value) -> LazyObject {
    LazyObject { bytes: 10, read: Arc::new(move || Some(object.clone())) }
}

fn named(name: &str) -> Identity {
    Identity { name: name.to_owned(), ..Identity::default() }
}

fn event() -> Event {
    Event {
        level: Level::Request,
        stage: Stage::ResponseComplete,
        id: "id".to_owned(),
        received: Timestamp::from_microsecond(1_800_000_000_000_001).unwrap(),
        reached: Timestamp::from_second(1_800_000_001).unwrap(),
        uri: "/apis/example.org/v1/namespaces/default/widgets?dryRun=All".to_owned(),
        verb: "create".into(),
        user: Some(named("bob")),
        impersonated: None,
        source: Some("10.0.0.1".parse().unwrap()),
        user_agent: "kubectl".to_owned(),
        object: Some(reference(path("example.org", "widgets", ""))),
        outcome: Some(Outcome::Success(201)),
        authorization: Some(Authorization { is_allowed: true, reason: "RBAC: allowed".to_owned() }),
        request: Some(lazy(json!({"metadata": {"managedFields": []}, "spec": {"size": 1}}))),
        response: Some(lazy(
            json!({"metadata": {"managedFields": [], "uid": "u"}, "items": [{"metadata": {"managedFields": []}}]}),
        )),
        omits_managed_fields: false,
        cause: None,
        annotations: Vec::new(),
    }
}

fn line(change: impl FnOnce(&mut Event)) -> Value {
    let mut event = event();
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
        "requestObject": {"metadata": {"managedFields": []}, "spec": {"size": 1}},
        "requestReceivedTimestamp": "2027-01-15T08:00:00.000001Z",
        "stageTimestamp": "2027-01-15T08:00:01.000000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC: allowed",
        },
    });
    assert_eq!(line(|_| ()), expected);
}

#[test]
fn level_says_which_objects_are_shown() {
    let shown = |level| {
        let line = line(|event| (event.level, event.omits_managed_fields) = (level, true));
        (line["level"].clone(), line.get("requestObject").cloned(), line.get("responseObject").cloned())
    };
    let request = json!({"metadata": {}, "spec": {"size": 1}});
    let response = json!({"metadata": {"uid": "u"}, "items": [{"metadata": {}}]});
    assert_eq!(shown(Level::Metadata), (json!("Metadata"), None, None));
    assert_eq!(shown(Level::Request), (json!("Request"), Some(request.clone()), None));
    assert_eq!(shown(Level::RequestResponse), (json!("RequestResponse"), Some(request), Some(response)));
}

#[test]
fn refusal_says_why() {
    let status = Status::forbidden(&Resource::new("", "pods"), "x", "no");
    let line = line(|event| {
        event.outcome = Some(Outcome::Failure(Arc::new(status)));
        event.impersonated = Some(named("eve"));
        event.authorization = Some(Authorization { is_allowed: false, reason: String::new() });
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
fn nobody_else_says_what_the_server_says() {
    let line = line(|event| {
        event.annotations = vec![
            ("authorization.k8s.io/decision".to_owned(), "allow".to_owned()),
            ("audit.ferroplane.io/cause-name".to_owned(), "innocent".to_owned()),
            ("audit.ferroplane.io/denied".to_owned(), "nothing".to_owned()),
            ("hook/note".to_owned(), "text".to_owned()),
        ];
        event.authorization = Some(Authorization { is_allowed: false, reason: String::new() });
        event.cause = Some("example.org/App//shop/uid-1/7/NotGranted/no Secret of a/b".to_owned());
        event.object.as_mut().unwrap().generation = 3;
    });
    let expected = json!({
        "authorization.k8s.io/decision": "forbid",
        "authorization.k8s.io/reason": "",
        "audit.ferroplane.io/generation": "3",
        "audit.ferroplane.io/cause-group": "example.org",
        "audit.ferroplane.io/cause-kind": "App",
        "audit.ferroplane.io/cause-name": "shop",
        "audit.ferroplane.io/cause-uid": "uid-1",
        "audit.ferroplane.io/cause-generation": "7",
        "audit.ferroplane.io/denied": "NotGranted",
        "audit.ferroplane.io/denied-reason": "no Secret of a/b",
        "hook/note": "text",
    });
    assert_eq!(line["annotations"], expected);
}

#[test]
fn bodies_with_secrets_are_never_written() {
    for object in [
        Some(reference(path("", "secrets", ""))),
        Some(reference(path("", "secrets", "status"))),
        Some(reference(path("", "serviceaccounts", "token"))),
        Some(reference(path("authentication.k8s.io", "tokenreviews", ""))),
        None,
    ] {
        let line = line(|event| (event.level, event.object) = (Level::RequestResponse, object));
        assert_eq!(line["level"], "Metadata");
        assert_eq!((line.get("requestObject"), line.get("responseObject")), (None, None));
    }
    let line = line(|event| event.level = Level::Metadata);
    assert_eq!(line.get("requestObject"), None);
}

#[test]
fn line_stays_within_limits() {
    let long = "é".repeat(1 << 20);
    let line = line(|event| {
        event.request = Some(lazy(json!({"data": "x".repeat(1 << 20)})));
        event.uri.clone_from(&long);
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
    for number in 0..100 {
        log.record(Event { id: number.to_string(), ..event() });
    }
    assert_eq!(log.recorded(), 100);
    assert_eq!(log.close(Duration::from_mins(1)), 0);
    let text = std::fs::read_to_string(&path).unwrap();
    let ids: std::collections::HashSet<_> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["auditID"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 100);
}

#[test]
fn strangers_do_not_push_others_out_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let log = AuditLog::open(&path, &Settings::default()).unwrap();
    let refused = |user| Event {
        user,
        outcome: Some(Outcome::Failure(Arc::new(Status::unauthorized("Unauthorized")))),
        ..event()
    };
    for _ in 0..2_000 {
        log.record(refused(None));
        log.record(refused(Some(Identity::anonymous())));
    }
    for _ in 0..500 {
        log.record(refused(Some(named("bob"))));
    }
    log.close(Duration::from_mins(1));
    let text = std::fs::read_to_string(&path).unwrap();
    let of_bob = text.lines().filter(|line| line.contains("bob")).count();
    assert_eq!(of_bob, 500);
    assert!(text.lines().count() - of_bob < 400, "{}", text.lines().count());
}
