//! Makes up definitions, objects and requests. The same number always makes the same.

pub(crate) mod kinds;
pub(crate) mod schema;
pub(crate) mod steps;
pub(crate) mod values;

use serde_json::{Value, json};

use crate::dice::Dice;

/// A definition of its own group, with one or two versions. The run is part of the name, because it takes a server some
/// time to forget a definition.
pub(crate) fn definition(dice: &mut Dice, number: u64) -> Value {
    if dice.chance(15) {
        return kinds::definition(number);
    }
    let group = format!("g{number}.r{}.example.org", std::process::id());
    let first = schema::root(dice);
    let mut versions = vec![version(dice, "v1", &first)];
    versions[0]["storage"] = true.into();
    if dice.chance(30) {
        let second = if dice.chance(60) { first } else { schema::evolve(dice, &first) };
        versions.push(version(dice, "v2", &second));
        versions[1]["subresources"] = versions[0]["subresources"].clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": dice.pick(&["Namespaced", "Namespaced", "Cluster"]),
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": versions,
        },
    })
}

/// A text without the run in its names.
pub(crate) fn without_run(text: &str) -> String {
    text.replace(&format!(".r{}.example.org", std::process::id()), ".example.org")
}

fn version(dice: &mut Dice, name: &str, schema: &Value) -> Value {
    let mut subresources = json!({});
    if dice.chance(65) {
        subresources["status"] = json!({});
    }
    if dice.chance(20) {
        subresources["scale"] =
            json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    }
    json!({
        "name": name, "served": true, "storage": false, "subresources": subresources,
        "schema": {"openAPIV3Schema": schema},
    })
}
