//! What metadata may be like, and what may become of it.

use serde_json::json;

use super::*;
use crate::status::Resource;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { unreachable!() };
    object
}

fn problems(metadata: Value) -> Vec<String> {
    let errors = validate(&object(metadata), true, NameRule::Subdomain, &Path::new("metadata"));
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn good_metadata_is_accepted() {
    let metadata = json!({
        "name": "a.b", "namespace": "c", "labels": {"example.org/a": "b"}, "annotations": {"A": "anything"},
        "finalizers": ["example.org/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}],
    });
    assert_eq!(problems(metadata), Vec::<String>::new());
}

#[test]
fn only_one_owner_controls() {
    let owner = |name| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": "u", "controller": true});
    let metadata = json!({"name": "a", "namespace": "b", "ownerReferences": [owner("x"), owner("y")]});
    let [problem] = problems(metadata).try_into().unwrap();
    assert!(problem.ends_with("Found \"true\" in references for K/x and K/y"), "{problem}");
}

#[test]
fn annotations_are_limited_together() {
    let half = "x".repeat(MAX_ANNOTATION_BYTES / 2);
    let metadata = json!({"name": "a", "namespace": "b", "annotations": {"a": half, "b": half}});
    assert_eq!(problems(metadata), ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
}

#[test]
fn generated_name_has_room_for_its_end() {
    assert_eq!(generate_name("a-", "bcdfg"), "a-bcdfg");
    assert_eq!(generate_name(&"x".repeat(100), "bcdfg").len(), 63);
    assert_eq!(generate_name(&"é".repeat(100), "bcdfg").len(), 63);
}

#[test]
fn finalizers_cannot_be_added_while_deleting() {
    let old =
        object(json!({"name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["x/y"]}));
    let mut new = object(json!({"name": "a", "resourceVersion": "1", "finalizers": ["x/y", "x/z"]}));
    keep_system_fields(&mut new, &old);
    let errors = validate_update(&new, &old, &Path::new("metadata"));
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let expected = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
                    found new finalizers []string{\"x/z\"}";
    assert_eq!(texts, [expected]);
}

#[test]
fn generation_grows_with_what_is_wanted() {
    let old = object(json!({"metadata": {"generation": 3}, "spec": {"a": 1}, "status": {"b": 1}}));
    let mut new = old.clone();
    new["metadata"] = json!({"generation": 9, "labels": {"a": "b"}});
    new["status"] = json!({"b": 2});
    assert_eq!(generation_after(&new, &old, true), 3);
    assert_eq!(generation_after(&new, &old, false), 4);
    new["spec"] = json!({});
    assert_eq!(generation_after(&new, &old, true), 4);
}

#[test]
fn object_of_another_identity_is_not_updated() {
    let (new, old) = (object(json!({"uid": "a"})), object(json!({"uid": "b", "name": "n"})));
    let status =
        Preconditions::of_update(&new).check(&old, &Resource::new("", "pods"), "/pods/n").unwrap_err();
    let expected = "Operation cannot be fulfilled on pods \"n\": StorageError: invalid object, Code: 4, \
                    Key: /pods/n, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: a, \
                    UID in object meta: b";
    assert_eq!(status.message, expected);
    assert!(Preconditions::default().check(&old, &Resource::default(), "").is_ok());
}

#[test]
fn update_of_some_kinds_needs_a_resource_version() {
    let status = resource_version_required(&Resource::new("example.org", "widgets"), "w");
    let expected = "widgets.example.org \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
                    specified for an update";
    assert_eq!(status.message, expected);
}

#[test]
fn namespace_must_be_that_of_the_request() {
    let mut metadata = object(json!({}));
    match_namespace(&mut metadata, "a").unwrap();
    assert_eq!(metadata["namespace"], "a");
    assert_eq!(match_namespace(&mut metadata, "b").unwrap_err().code, 400);
    match_namespace(&mut metadata, "").unwrap();
    assert!(metadata.is_empty());
}
