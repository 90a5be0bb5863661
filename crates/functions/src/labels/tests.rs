//! What rules do to resources.

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn answer(rules: &Value, resources: &Value) -> Value {
    let request = json!({
        "observed": {"composite": {"resource": {
            "metadata": {"labels": {"team": "data", "crossplane.io/composite": "x"}},
            "spec": {"owner": "ann", "replicas": 3, "list": [1], "note": "two words", "nothing": null}
        }}},
        "desired": {"composite": {"resource": {"kind": "X"}}, "resources": resources},
        "input": {"apiVersion": "labels.fn.ferroplane.io/v1beta1", "kind": "Labels", "rules": rules},
    });
    to_json(&run(&from_json(&request).unwrap())).unwrap()
}

/// The metadata of one resource of kind `Bucket` after these rules.
fn metadata(rules: &Value, metadata: &Value) -> Value {
    let bucket = json!({"apiVersion": "s3.example.org/v1", "kind": "Bucket", "metadata": metadata});
    let answer = answer(rules, &json!({"bucket": {"resource": bucket, "ready": "READY_TRUE"}}));
    assert_eq!(answer["results"], Value::Null, "{answer}");
    assert_eq!(answer["desired"]["resources"]["bucket"]["ready"], "READY_TRUE");
    answer["desired"]["resources"]["bucket"]["resource"]["metadata"].clone()
}

fn problem(rules: &Value) -> String {
    let answer = answer(rules, &json!({"a": {"resource": {"metadata": {"labels": ["odd"]}}}}));
    assert_eq!(answer["results"][0]["severity"], "SEVERITY_FATAL", "{answer}");
    answer["results"][0]["message"].as_str().unwrap().to_owned()
}

#[test]
fn labels_and_annotations_are_added() {
    let rules = json!([{
        "labels": [{"key": "team", "value": "web"}, {"key": "owner", "fromFieldPath": "spec.owner"}],
        "annotations": [{"key": "note", "fromFieldPath": "spec.note"}, {"key": "n", "fromFieldPath": "spec.replicas"}],
    }]);
    assert_eq!(
        metadata(&rules, &json!({"name": "b", "labels": {"team": "old", "kept": "yes"}})),
        json!({
            "name": "b",
            "labels": {"team": "web", "kept": "yes", "owner": "ann"},
            "annotations": {"note": "two words", "n": "3"},
        })
    );
}

#[test]
fn what_is_there_can_be_retained() {
    let rules = json!([{"labels": [
        {"key": "team", "value": "web", "policy": "Retain"}, {"key": "new", "value": "1", "policy": "Retain"}
    ]}]);
    assert_eq!(
        metadata(&rules, &json!({"labels": {"team": "old"}})),
        json!({"labels": {"team": "old", "new": "1"}})
    );
}

#[test]
fn labels_of_the_composite_resource_are_copied_without_those_of_crossplane() {
    let rules = json!([{"labels": [{"fromFieldPath": "metadata.labels"}]}]);
    assert_eq!(metadata(&rules, &json!({})), json!({"labels": {"team": "data"}}));
}

#[test]
fn labels_are_removed_before_others_are_added() {
    let rules = json!([{"removeLabels": ["temp-*"], "removeAnnotations": ["a"], "labels": [{"key": "temp-x", "value": "1"}]}]);
    assert_eq!(
        metadata(&rules, &json!({"labels": {"temp-a": "1", "b": "2"}, "annotations": {"a": "1"}})),
        json!({"labels": {"temp-x": "1", "b": "2"}})
    );
}

#[test]
fn rules_are_for_selected_resources() {
    let rule =
        |select: Value, value: &str| json!({"select": select, "labels": [{"key": value, "value": "1"}]});
    let rules = json!([
        rule(json!({"names": ["db-*"]}), "name"),
        rule(json!({"kinds": ["Bucket"]}), "kind"),
        rule(json!({"kinds": ["*.db.example.org"]}), "group"),
        rule(json!({"names": ["db-?"], "kinds": ["Bucket"]}), "both"),
        rule(json!({"names": [], "kinds": null}), "all"),
    ]);
    let answer = answer(
        &rules,
        &json!({
            "db-1": {"resource": {"apiVersion": "db.example.org/v1", "kind": "Database"}},
            "files": {"resource": {"apiVersion": "v1", "kind": "Bucket"}},
        }),
    );
    let labels = |name: &str| answer["desired"]["resources"][name]["resource"]["metadata"]["labels"].clone();
    assert_eq!(labels("db-1"), json!({"all": "1", "group": "1", "name": "1"}));
    assert_eq!(labels("files"), json!({"all": "1", "kind": "1"}));
}

#[test]
fn field_that_is_missing_counts_only_if_it_is_required() {
    for path in ["spec.missing", "spec.nothing"] {
        assert_eq!(
            metadata(&json!([{"labels": [{"key": "a", "fromFieldPath": path}]}]), &json!({})),
            json!({})
        );
    }
    assert_eq!(
        problem(&json!([{}, {"labels": [{"key": "a", "fromFieldPath": "spec.missing", "required": true}]}])),
        "rules[1]: labels[0]: fromFieldPath: spec.missing: no such field"
    );
}

#[test]
fn mistakes_are_named() {
    for (rules, expected) in [
        (json!([{"labels": [{"key": "a"}]}]), "rules[0]: labels[0]: value or fromFieldPath is required"),
        (json!([{"labels": [{"value": "a"}]}]), "rules[0]: labels[0]: key is required with value"),
        (
            json!([{"annotations": [{"key": "a", "value": "b", "policy": "Keep"}]}]),
            "rules[0]: annotations[0]: policy \"Keep\" is none of Replace, Retain",
        ),
        (
            json!([{"labels": [{"key": "note", "fromFieldPath": "spec.note"}]}]),
            "rules[0]: labels[0]: value \"two words\" of \"note\" may have only letters, digits, '-', '_' and '.'",
        ),
        (
            json!([{"labels": [{"key": "a", "fromFieldPath": "spec.list"}]}]),
            "rules[0]: labels[0]: spec.list is not text, a number or a boolean",
        ),
        (
            json!([{"labels": [{"fromFieldPath": "spec.owner"}]}]),
            "rules[0]: labels[0]: key is required: spec.owner is not an object of labels or annotations",
        ),
        (
            json!([{"labels": [{"key": "a", "value": "b"}]}]),
            "cannot label resource \"a\": metadata.labels is not an object",
        ),
        (
            json!([{"lables": []}]),
            "cannot get Function input: rules[0].lables: unknown field `lables`, expected one of `select`, `labels`, \
             `annotations`, `removeLabels`, `removeAnnotations`",
        ),
    ] {
        assert_eq!(problem(&rules), expected);
    }
}

#[test]
fn nothing_is_touched_without_need() {
    let resources =
        json!({"a": {"resource": {"metadata": {"labels": {"a": "b"}}}, "connectionDetails": {"k": "dg=="}}});
    for rules in [json!(null), json!([{"labels": [{"key": "a", "value": "b"}], "removeAnnotations": ["*"]}])]
    {
        let answer = answer(&rules, &resources);
        assert_eq!(answer["desired"]["resources"], resources);
        assert_eq!(answer["results"], Value::Null);
    }
}

proptest! {
    #[test]
    fn no_input_makes_it_panic(key in "[a-z./-]{0,5}", value in "\\PC{0,5}", path in "[a-z.\\[\\]0-9*]{0,8}", pattern in "[a-z*?]{0,5}") {
        let rules = json!([
            {"labels": [{"key": key, "value": value}], "removeLabels": [pattern], "select": {"names": [pattern]}},
            {"annotations": [{"key": key, "fromFieldPath": path}]},
        ]);
        answer(&rules, &json!({"a": {"resource": {"metadata": {"labels": {"a": "b"}}}}, "b": {}}));
    }
}
