//! Makes up objects of Kubernetes' own kinds, from fields that each of them has.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// What stands for a definition: where a kind is, and nothing of what it is like.
pub(crate) fn definition(number: u64) -> Value {
    let (group, version, plural, kind) = [
        ("", "v1", "configmaps", "ConfigMap"),
        ("", "v1", "secrets", "Secret"),
        ("apps", "v1", "deployments", "Deployment"),
        ("", "v1", "serviceaccounts", "ServiceAccount"),
        ("coordination.k8s.io", "v1", "leases", "Lease"),
    ][usize::try_from(number % 5).unwrap()];
    let has_status = kind == "Deployment";
    let subresources = if has_status { json!({"status": {}}) } else { json!({}) };
    json!({
        "builtin": true,
        "metadata": {"name": plural},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "subresources": subresources}],
        },
    })
}

/// Some fields of an object of a kind.
pub(crate) fn fields(dice: &mut Dice, kind: &str) -> Value {
    match kind {
        "ConfigMap" => some(
            dice,
            70,
            &[
                ("data", json!({"a": "1"})),
                ("data", json!({"a": "2", "b": "x"})),
                ("binaryData", json!({"c": "aGk="})),
                ("data", json!({"b": "y"})),
            ],
        ),
        "Secret" => some(
            dice,
            60,
            &[
                ("data", json!({"a": "aGk="})),
                ("stringData", json!({"b": "x"})),
                ("data", json!({"a": "aGFsbG8=", "c": ""})),
                ("type", json!("Opaque")),
            ],
        ),
        "ServiceAccount" => some(
            dice,
            60,
            &[
                ("automountServiceAccountToken", json!(false)),
                ("imagePullSecrets", json!([{"name": "a"}, {"name": "b"}])),
                ("secrets", json!([{"name": "s"}])),
            ],
        ),
        "Lease" => {
            let durations = [("leaseDurationSeconds", json!(5)), ("leaseTransitions", json!(1))];
            let mut spec = some(dice, 60, &durations);
            spec["holderIdentity"] = dice.pick(&["a", "b"]).into();
            json!({"spec": spec})
        }
        _ => deployment(dice),
    }
}

/// Some of these fields; the last of those with one name counts.
fn some(dice: &mut Dice, percent: usize, choices: &[(&str, Value)]) -> Value {
    let mut fields = Map::new();
    for (name, value) in choices {
        if dice.chance(percent) {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
    fields.into()
}

fn deployment(dice: &mut Dice) -> Value {
    let containers = [
        json!({"name": "a", "image": dice.pick(&["img:1", "img:2", "img"])}),
        json!({"name": "b", "image": "other:1", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": dice.pick(&["1", "2"])}]}),
        json!({"name": "c", "image": "third", "args": ["x", dice.pick(&["y", "z"])], "resources": {"limits": {"cpu": dice.pick(&["1", "1000m", "0.5"])}}}),
    ];
    let mut containers: Vec<_> = containers.into_iter().filter(|_| dice.chance(60)).collect();
    if containers.is_empty() {
        containers.push(json!({"name": "a", "image": "img"}));
    }
    let mut spec = some(
        dice,
        35,
        &[
            ("replicas", json!(2)),
            ("replicas", json!(0)),
            ("paused", json!(true)),
            ("minReadySeconds", json!(3)),
        ],
    );
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    spec["template"] = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}});
    json!({"spec": spec})
}

/// A strategic merge patch.
pub(crate) fn strategic_patch(dice: &mut Dice, kind: &str) -> Value {
    let mut patch = fields(dice, kind);
    match kind {
        "Deployment" => {
            let spec = patch["spec"].as_object_mut().unwrap();
            spec.remove("selector");
            match dice.below(6) {
                0 => {
                    patch["spec"]["template"]["spec"]["containers"] =
                        json!([{"name": "a", "$patch": "delete"}]);
                }
                1 => {
                    patch["spec"]["template"]["spec"]["$setElementOrder/containers"] =
                        json!([{"name": "b"}, {"name": "a"}]);
                }
                2 => patch["spec"]["template"] = json!({"metadata": {"annotations": {"restarted": "now"}}}),
                3 => patch["spec"]["strategy"] = json!({"$retainKeys": ["type"], "type": "Recreate"}),
                _ => {}
            }
        }
        "ConfigMap" | "Secret" if dice.chance(20) => patch["data"] = json!({"a": null}),
        _ => {}
    }
    patch
}
