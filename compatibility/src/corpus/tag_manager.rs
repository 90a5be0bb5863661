//! `function-tag-manager`: all ways to add, ignore and remove tags, on resources that have them and others.
//!
//! Left out: an entry that comes from a field but names none. The original crashes on it.

use serde_json::{Map, Value, json};

use super::{Corpus, Difference, INVALID_INPUT, adds_nothing, as_it_is, never, no_files};
use crate::dice::Dice;

pub(crate) const CORPUS: Corpus = Corpus {
    function: "function-tag-manager",
    generate,
    adapt: as_it_is,
    asks_formerly: never,
    files: no_files,
    by_hand,
    without_additions: adds_nothing,
    deliberate,
};

const KINDS: [(&str, &str); 14] = [
    ("ec2.aws.upbound.io/v1beta1", "VPC"),
    ("ec2.aws.m.upbound.io/v1beta1", "Subnet"),
    ("s3.aws.upbound.io/v1beta2", "Bucket"),
    ("rds.aws.upbound.io/v1beta1", "Instance"),
    ("network.azure.upbound.io/v1beta1", "VirtualNetwork"),
    ("azure.upbound.io/v1beta1", "ResourceGroup"),
    ("azure.m.upbound.io/v1beta1", "ResourceGroup"),
    ("ec2.aws.upbound.io/v1beta1", "Route"),
    ("v1", "ConfigMap"),
    ("example.org/v1", "Thing"),
    ("ec2.aws.upbound.io/v1beta1/x", "VPC"),
    ("ec2.aws.m.m.upbound.io/v1", "VPC"),
    ("ec2.aws.upbound.io", "VPC"),
    ("m.upbound.io/v1", "VPC"),
];

const KEYS: [&str; 7] = ["team", "cost-center", "env", "kubernetes.io/cluster", "Name", "", "empty"];

const VALUES: [&str; 5] = ["platform", "42", "prod", "", "größer"];

const PATHS: [&str; 11] = [
    "spec.tags",
    "spec.tags",
    "spec.keys",
    "spec.keys",
    "spec.mixed",
    "spec.mixedKeys",
    "spec.nothing",
    "spec.text",
    "spec.missing",
    "spec..bad[",
    "metadata.labels",
];

fn generate(dice: &mut Dice) -> Value {
    let mut desired = Map::new();
    let mut observed = Map::new();
    for name in ["a", "b", "c", "d"].into_iter().take(dice.below(4) + 1) {
        let &(version, kind) = if dice.chance(70) { dice.pick(&KINDS[..7]) } else { dice.pick(&KINDS) };
        desired.insert(name.to_owned(), desired_resource(dice, version, kind));
        if dice.chance(60) {
            observed.insert(name.to_owned(), observed_resource(dice, version, kind));
        }
    }
    let mut request = json!({
        "meta": {"tag": "t"},
        "observed": {"composite": {"resource": source(dice)}, "resources": observed},
        "desired": {"composite": {"resource": {"status": {"a": 1}}}, "resources": desired},
        "input": input(dice),
    });
    if dice.chance(70) {
        request["context"] = json!({"apiextensions.crossplane.io/environment": source(dice)});
    } else if dice.chance(10) {
        request["context"] = json!({"apiextensions.crossplane.io/environment": "odd"});
    }
    if dice.chance(2) {
        request["desired"] = json!({});
    }
    if dice.chance(1) {
        request.as_object_mut().map(|request| request.remove("desired"));
    }
    request
}

fn tags(dice: &mut Dice) -> Value {
    let count = dice.below(4);
    (0..count)
        .map(|_| ((*dice.pick(&KEYS)).to_owned(), json!(dice.pick(&VALUES))))
        .collect::<Map<_, _>>()
        .into()
}

/// Tags as users should not write them, too.
fn odd_tags(dice: &mut Dice) -> Value {
    match dice.below(25) {
        0 => json!(null),
        1 => json!({"team": 1, "env": "prod", "empty": null}),
        2 => json!(["team"]),
        3 => json!("team"),
        4 => json!({"nested": {"a": "b"}, "ok": true}),
        _ => tags(dice),
    }
}

fn desired_resource(dice: &mut Dice, version: &str, kind: &str) -> Value {
    let mut resource = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "n"},
        "spec": {"forProvider": {"region": "eu-1"}}});
    if dice.chance(60) {
        resource["spec"]["forProvider"]["tags"] = odd_tags(dice);
    }
    match dice.below(40) {
        0 => resource["spec"] = json!("odd"),
        1 => resource["spec"] = json!({}),
        2 => resource["spec"] = json!({"forProvider": null}),
        3 => resource["spec"]["forProvider"] = json!([1]),
        4 => resource["spec"] = json!(null),
        5 => resource = json!({"apiVersion": version, "kind": kind}),
        _ => {}
    }
    let says = |dice: &mut Dice| {
        json!({
            "tag-manager.fn.crossplane.io/ignore-resource": *dice.pick(&["true", "True", "TRUE", "false", "yes", ""])
        })
    };
    if dice.chance(10) {
        resource["metadata"]["annotations"] = says(dice);
    }
    if dice.chance(10) {
        resource["metadata"]["labels"] = says(dice);
    }
    match dice.below(60) {
        0 => {
            resource["metadata"]["annotations"] =
                json!({"a": 1, "tag-manager.fn.crossplane.io/ignore-resource": "true"});
        }
        1 => {
            resource["metadata"]["labels"] =
                json!({"a": 1, "tag-manager.fn.crossplane.io/ignore-resource": "true"});
        }
        2 => resource["metadata"]["labels"] = json!({"tag-manager.fn.crossplane.io/ignore-resource": true}),
        3 => resource["metadata"]["labels"] = json!(null),
        _ => {}
    }
    let mut resource = json!({"resource": resource, "ready": *dice.pick(&["READY_UNSPECIFIED", "READY_TRUE", "READY_FALSE"])});
    if dice.chance(5) {
        resource["connectionDetails"] = json!({"a": "Yg=="});
    }
    resource
}

fn observed_resource(dice: &mut Dice, version: &str, kind: &str) -> Value {
    let mut resource = json!({"apiVersion": version, "kind": kind, "status": {"atProvider": {}}});
    if dice.chance(85) {
        resource["status"]["atProvider"]["tags"] = odd_tags(dice);
    }
    json!({"resource": resource})
}

/// A composite resource or an environment to take tags and keys from.
fn source(dice: &mut Dice) -> Value {
    let keys = |dice: &mut Dice| (0..dice.below(4)).map(|_| json!(dice.pick(&KEYS))).collect::<Vec<_>>();
    json!({"apiVersion": "example.org/v1", "kind": "XThing", "metadata": {"labels": {"team": "labelled"}}, "spec": {
        "tags": tags(dice),
        "keys": keys(dice),
        "mixed": {"team": "mixed", "env": 3, "Name": null},
        "mixedKeys": ["team", 3, null, "env"],
        "nothing": null,
        "text": "team",
    }})
}

fn input(dice: &mut Dice) -> Value {
    let mut input = json!({"apiVersion": "tag-manager.fn.crossplane.io/v1beta1", "kind": "ManagedTags"});
    if dice.chance(85) {
        input["addTags"] = (0..dice.below(4)).map(|_| add_tag(dice)).collect();
    }
    if dice.chance(60) {
        input["ignoreTags"] = (0..dice.below(3)).map(|_| keys(dice, true)).collect();
    }
    if dice.chance(50) {
        input["removeTags"] = (0..dice.below(3)).map(|_| keys(dice, false)).collect();
    }
    match dice.below(80) {
        0 => input["unknown"] = json!(true),
        1 => input["addTags"] = json!([{"tags": {"a": 1}}]),
        2 => input["addTags"] = json!([{"type": "FromValue", "tags": {"a": null}}, null]),
        3 => input["removeTags"] = json!([{"keys": "team"}]),
        _ => {}
    }
    input
}

fn set_origin(dice: &mut Dice, entry: &mut Value) {
    let kinds = ["FromValue", "FromValue", "FromCompositeFieldPath", "FromEnvironmentFieldPath", "Odd", ""];
    if dice.chance(85) {
        entry["type"] = json!(dice.pick(&kinds));
    }
    entry["fromFieldPath"] = json!(dice.pick(&PATHS));
}

fn add_policy(dice: &mut Dice, entry: &mut Value) {
    if dice.chance(60) {
        entry["policy"] = json!(dice.pick(&["Replace", "Retain", "Retain", "Odd", ""]));
    }
}

fn add_tag(dice: &mut Dice) -> Value {
    let mut entry = json!({});
    set_origin(dice, &mut entry);
    add_policy(dice, &mut entry);
    if dice.chance(80) {
        entry["tags"] = tags(dice);
    }
    entry
}

fn keys(dice: &mut Dice, has_policy: bool) -> Value {
    let mut entry = json!({});
    set_origin(dice, &mut entry);
    if has_policy {
        add_policy(dice, &mut entry);
    }
    if dice.chance(80) {
        entry["keys"] = (0..dice.below(4)).map(|_| json!(dice.pick(&KEYS))).collect();
    }
    entry
}

fn by_hand() -> Vec<(&'static str, Value)> {
    let request = |input: Value| {
        json!({
            "observed": {
                "composite": {"resource": {"spec": {"tags": {"from": "composite"}, "keys": ["external"]}}},
                "resources": {"vpc": {"resource": {"status": {"atProvider": {"tags": {"external": "theirs", "team": "old"}}}}}}
            },
            "desired": {"resources": {
                "vpc": {"resource": {"apiVersion": "ec2.aws.upbound.io/v1beta1", "kind": "VPC",
                    "spec": {"forProvider": {"tags": {"team": "ours", "extra": "x"}}}}},
                "other": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}}
            }},
            "context": {"apiextensions.crossplane.io/environment": {"tags": {"from": "environment"}}},
            "input": input,
        })
    };
    vec![
        ("no input", json!({})),
        (
            "add tags",
            request(json!({"addTags": [{"type": "FromValue", "tags": {"team": "added", "new": "n"}}]})),
        ),
        (
            "keep what is there",
            request(
                json!({"addTags": [{"type": "FromValue", "tags": {"team": "added"}, "policy": "Retain"}]}),
            ),
        ),
        (
            "tags of the composite resource and the environment",
            request(json!({"addTags": [
                {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.tags"},
                {"type": "FromEnvironmentFieldPath", "fromFieldPath": "tags"}
            ]})),
        ),
        (
            "ignore tags that another system manages",
            request(json!({"ignoreTags": [
                {"type": "FromValue", "keys": ["team", "none"], "policy": "Retain"},
                {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.keys", "policy": "Replace"}
            ]})),
        ),
        ("remove tags", request(json!({"removeTags": [{"type": "FromValue", "keys": ["extra", "none"]}]}))),
        ("an unknown field", request(json!({"tags": {}}))),
    ]
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    let message = |answer: &Value| answer["results"][0]["message"].as_str().unwrap_or_default().to_owned();
    let is_input_mistake = message(difference.ours).starts_with("cannot get Function input: ")
        && message(difference.theirs).starts_with("cannot get Function input from *v1.RunFunctionRequest: ");
    is_input_mistake.then_some(INVALID_INPUT)
}
