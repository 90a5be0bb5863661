//! What becomes of the tags of resources.

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn answer(input: &Value, vpc: &Value) -> Value {
    let request = json!({
        "observed": {
            "composite": {"resource": {"spec": {"tags": {"cost": "12"}, "keys": ["scanned"], "odd": {"a": 1, "b": "x"}}}},
            "resources": {"vpc": {"resource": {"status": {"atProvider": {"tags": {"scanned": "today", "team": "theirs"}}}}}}
        },
        "desired": {"composite": {"resource": {"kind": "X"}}, "resources": {
            "vpc": {"resource": vpc, "ready": "READY_TRUE", "connectionDetails": {"a": "Yg=="}},
            "config": {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}},
        }},
        "context": {"apiextensions.crossplane.io/environment": {"tags": {"zone": "eu"}, "keys": ["team"]}},
        "input": input,
    });
    to_json(&run(&from_json(&request).unwrap())).unwrap()
}

fn vpc(tags: &Value) -> Value {
    json!({"apiVersion": "ec2.aws.upbound.io/v1beta1", "kind": "VPC", "spec": {"forProvider": {"tags": tags}}})
}

/// The tags of a VPC that were `{"team": "ours", "empty": ""}`.
fn tags(input: &Value) -> Value {
    let answer = answer(input, &vpc(&json!({"team": "ours", "empty": ""})));
    assert_eq!(answer["results"][0]["message"], "Successfully Processed tags", "{answer}");
    answer["desired"]["resources"]["vpc"]["resource"]["spec"]["forProvider"]["tags"].clone()
}

#[test]
fn tags_are_added() {
    let added = |policy: &str| {
        tags(
            &json!({"addTags": [{"type": "FromValue", "policy": policy, "tags": {"team": "new", "empty": "full", "a": "b"}}]}),
        )
    };
    assert_eq!(added("Replace"), json!({"team": "new", "empty": "full", "a": "b"}));
    assert_eq!(added("Retain"), json!({"team": "ours", "empty": "full", "a": "b"}));
}

#[test]
fn first_to_add_a_tag_decides() {
    let input = json!({"addTags": [{"tags": {"a": "1"}}, {"tags": {"a": "2", "b": "2"}}]});
    assert_eq!(tags(&input), json!({"team": "ours", "empty": "", "a": "1", "b": "2"}));
}

#[test]
fn tags_come_from_fields() {
    let input = json!({"addTags": [
        {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.tags"},
        {"type": "FromEnvironmentFieldPath", "fromFieldPath": "tags"},
        {"type": "FromEnvironmentFieldPath", "fromFieldPath": "missing"},
        {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.odd"},
    ]});
    assert_eq!(
        tags(&input),
        json!({"team": "ours", "empty": "", "cost": "12", "zone": "eu", "a": "", "b": "x"})
    );
}

#[test]
fn ignored_tags_are_those_of_the_observed_resource() {
    let input = json!({"ignoreTags": [
        {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.keys"},
        {"type": "FromEnvironmentFieldPath", "fromFieldPath": "keys", "policy": "Retain"},
    ]});
    assert_eq!(tags(&input), json!({"team": "ours", "empty": "", "scanned": "today"}));
    let input = json!({"ignoreTags": [{"type": "FromValue", "keys": ["team", "none"]}]});
    assert_eq!(tags(&input), json!({"team": "theirs", "empty": ""}));
}

#[test]
fn tags_are_removed_last() {
    let input = json!({"addTags": [{"tags": {"a": "1"}}], "removeTags": [{"type": "FromValue", "keys": ["a", "team", "none"]}]});
    assert_eq!(tags(&input), json!({"empty": ""}));
}

#[test]
fn resource_that_asks_to_be_left_alone_is() {
    let input = json!({"addTags": [{"tags": {"a": "1"}}]});
    let kept = |metadata: Value| {
        let mut vpc = vpc(&json!({}));
        vpc["metadata"] = metadata;
        answer(&input, &vpc)["desired"]["resources"]["vpc"]["resource"] == vpc
    };
    assert!(kept(json!({"annotations": {IGNORE: "True"}})));
    assert!(kept(json!({"labels": {IGNORE: "true"}})));
    assert!(!kept(json!({"annotations": {IGNORE: "no"}, "labels": {IGNORE: "true"}})));
    assert!(!kept(json!({"labels": {IGNORE: true}})));
}

#[test]
fn only_the_object_and_readiness_of_desired_resources_are_passed_on() {
    let answer = answer(&json!({}), &json!({"apiVersion": "v1", "kind": "VPC"}));
    assert_eq!(
        answer["desired"]["resources"],
        json!({
            "vpc": {"resource": {"apiVersion": "v1", "kind": "VPC"}, "ready": "READY_TRUE"},
            "config": {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}},
        })
    );
    assert_eq!(answer["desired"]["composite"], json!({"resource": {"kind": "X"}}));
}

#[test]
fn something_in_the_way_of_tags_stays() {
    let vpc = json!({"apiVersion": "ec2.aws.upbound.io/v1beta1", "kind": "VPC", "spec": "odd"});
    let answer = answer(&json!({"addTags": [{"tags": {"a": "1"}}]}), &vpc);
    assert_eq!(answer["desired"]["resources"]["vpc"]["resource"], vpc);
}

#[test]
fn mistakes_in_the_input_are_fatal() {
    for (input, expected) in [
        (
            json!({"addTags": [{"type": "FromCompositeFieldPath"}]}),
            "cannot get Function input: addTags[0]: fromFieldPath is required with type FromCompositeFieldPath",
        ),
        (
            json!({"removeTags": [{"keys": "a"}]}),
            "cannot get Function input: removeTags[0].keys: invalid type: string \"a\", expected a sequence",
        ),
    ] {
        let answer = answer(&input, &json!({}));
        assert_eq!(answer["results"][0]["severity"], "SEVERITY_FATAL");
        assert_eq!(answer["results"][0]["message"], expected);
    }
}

proptest! {
    #[test]
    fn no_path_or_key_makes_it_panic(path in "[a-z.\\[\\]0-9*]{0,8}", key in "\\PC{0,4}", kind in "From(Value|CompositeFieldPath|EnvironmentFieldPath)") {
        let entry = json!({"type": kind, "fromFieldPath": path, "keys": [key]});
        let input = json!({"addTags": [{"type": kind, "fromFieldPath": path, "tags": {key: "v"}}], "ignoreTags": [entry], "removeTags": [entry]});
        answer(&input, &vpc(&json!({"a": 1})));
    }
}
