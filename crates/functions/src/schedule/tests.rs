//! What is placed where, and what is not.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::fleet::tests::{call, refusal, said};
use crate::selection::tests::any_json;

fn input(changes: &Value) -> Value {
    let mut input = json!({
        "objects": {"apiVersion": "example.org/v1", "kind": "App"},
        "targets": {"apiVersion": "example.org/v1", "kind": "Cluster"},
        "assignmentField": "spec.cluster", "capacityField": "spec.capacity", "demandField": "spec.size", "sameLabels": ["region"],
    });
    for (field, value) in changes.as_object().unwrap() {
        input[field] = value.clone();
    }
    input
}

fn object(kind: &str, name: &str, region: &str, spec: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    if !region.is_empty() {
        object["metadata"]["labels"] = json!({ "region": region });
    }
    object
}

fn app(name: &str, size: u64) -> Value {
    object("App", name, "", &json!({ "size": size }))
}

fn cluster(name: &str, capacity: u64) -> Value {
    object("Cluster", name, "", &json!({ "capacity": capacity }))
}

fn answer(input: &Value, apps: &[Value], clusters: &[Value]) -> Value {
    let answer = call(run, input, &[(OBJECTS, apps), (TARGETS, clusters)]);
    assert_ne!(said(&answer).0, "SEVERITY_FATAL", "{answer}");
    answer
}

/// Where apps are placed now.
fn places(input: &Value, apps: &[Value], clusters: &[Value]) -> Vec<(String, String)> {
    let answer = answer(input, apps, clusters);
    let nothing = serde_json::Map::new();
    let resources = answer["desired"]["resources"].as_object().unwrap_or(&nothing);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let place =
        |it: &Value| (text(&it["resource"]["metadata"]["name"]), text(&it["resource"]["spec"]["cluster"]));
    resources.values().map(place).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(app, cluster)| ((*app).to_owned(), (*cluster).to_owned())).collect()
}

#[test]
fn first_call_asks_for_objects_and_targets() {
    let answer = call(run, &input(&json!({})), &[]);
    let kinds = ["objects", "targets"].map(|name| answer["requirements"]["resources"][name]["kind"].clone());
    assert_eq!(kinds, ["App", "Cluster"]);
    assert_eq!(answer["output"], Value::Null);
}

#[test]
fn objects_are_spread_over_targets_or_packed_into_few() {
    let (apps, clusters) = ([app("a", 2), app("b", 2), app("c", 2)], [cluster("x", 10), cluster("y", 8)]);
    assert_eq!(places(&input(&json!({})), &apps, &clusters), pairs(&[("a", "x"), ("b", "y"), ("c", "x")]));
    let pack = input(&json!({"strategy": "Pack"}));
    assert_eq!(places(&pack, &apps, &clusters), pairs(&[("a", "y"), ("b", "y"), ("c", "y")]));
    // Without capacity, the number of objects decides.
    let endless = input(&json!({"capacityField": null}));
    assert_eq!(places(&endless, &apps, &clusters), pairs(&[("a", "x"), ("b", "y"), ("c", "x")]));
}

#[test]
fn what_is_placed_stays_and_takes_its_room() {
    let mut placed = app("a", 7);
    placed["spec"]["cluster"] = "x".into();
    let (apps, clusters) = ([placed, app("b", 4)], [cluster("x", 10), cluster("y", 5)]);
    let answer = answer(&input(&json!({})), &apps, &clusters);
    assert_eq!(answer["output"]["placements"], json!([{"object": "b", "target": "y"}]));
    assert_eq!(answer["output"]["targets"][0]["used"], "7");
    assert_eq!(said(&answer), ("SEVERITY_NORMAL", "Placed 1 of 2: b on y"));
}

#[test]
fn object_without_room_is_told_of_and_others_are_placed() {
    let answer =
        answer(&input(&json!({})), &[app("big", 9), app("small", 1)], &[cluster("x", 5), cluster("y", 4)]);
    assert_eq!(answer["output"]["placedObjects"].as_f64(), Some(1.0));
    let told = &answer["results"][1];
    assert_eq!(told["severity"], "SEVERITY_WARNING");
    assert_eq!(told["message"], "Found no place for 1: big (it takes 9, and no target has more room than 5)");
}

#[test]
fn labels_have_to_be_the_same_if_the_object_has_them() {
    let apps = [
        object("App", "anywhere", "", &json!({})),
        object("App", "east", "east", &json!({})),
        object("App", "north", "north", &json!({})),
    ];
    let clusters = [
        object("Cluster", "e", "east", &json!({"capacity": 1})),
        object("Cluster", "w", "west", &json!({"capacity": 9})),
    ];
    let answer = answer(&input(&json!({})), &apps, &clusters);
    let placements = json!([{"object": "anywhere", "target": "w"}, {"object": "east", "target": "e"}]);
    assert_eq!(answer["output"]["placements"], placements);
    assert_eq!(
        answer["output"]["unplaced"],
        json!([{"object": "north", "reason": "no target has the labels region=north"}])
    );
}

#[test]
fn targets_that_are_not_healthy_paused_leaving_or_wrong_are_not_used() {
    let mut clusters = ["ill", "paused", "leaving", "wrong", "good"].map(|name| cluster(name, 9));
    for cluster in &mut clusters {
        cluster["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    }
    clusters[0]["status"]["conditions"][0]["status"] = "False".into();
    clusters[1]["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    clusters[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    clusters[3]["spec"]["capacity"] = "plenty".into();
    let healthy = input(&json!({"healthyConditions": ["Ready"]}));
    assert_eq!(places(&healthy, &[app("a", 1)], &clusters), pairs(&[("a", "good")]));
    let answer = answer(&healthy, &[app("a", 1)], &clusters[..1]);
    let reason = "no target can be used, for example ill: Ready is False";
    assert_eq!(answer["output"]["unplaced"][0]["reason"], reason);
}

#[test]
fn oldest_objects_are_placed_first() {
    let (mut old, mut young) = (app("z", 1), app("a", 1));
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    young["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z".into();
    assert_eq!(places(&input(&json!({})), &[young, old], &[cluster("x", 1)]), pairs(&[("z", "x")]));
}

#[test]
fn quantities_are_compared_as_kubernetes_does() {
    let mut app = app("a", 1);
    app["spec"]["size"] = "1500Mi".into();
    let mut small = cluster("small", 0);
    small["spec"]["capacity"] = "1Gi".into();
    let mut large = cluster("large", 0);
    large["spec"]["capacity"] = "2Gi".into();
    assert_eq!(
        places(&input(&json!({"strategy": "Pack"})), &[app], &[large, small]),
        pairs(&[("a", "large")])
    );
}

#[test]
fn namespace_of_the_target_is_written_if_there_is_a_field_for_it() {
    let in_namespace = |name: &str, namespace: &str| {
        let mut cluster = cluster(name, 5);
        cluster["metadata"]["namespace"] = namespace.into();
        cluster
    };
    let twins = [in_namespace("x", "one"), in_namespace("x", "two")];
    let refused = call(run, &input(&json!({})), &[(OBJECTS, &[app("a", 1)]), (TARGETS, &twins)]);
    assert!(
        said(&refused).1.contains("several targets are called x: set assignmentNamespaceField"),
        "{refused}"
    );
    let both = input(&json!({"assignmentNamespaceField": "spec.clusterNamespace"}));
    let mut placed = app("b", 4);
    placed["spec"]["cluster"] = "x".into();
    placed["spec"]["clusterNamespace"] = "one".into();
    let answer = answer(&both, &[app("a", 1), placed], &twins);
    let spec = &answer["desired"]["resources"]["App.example.org/a"]["resource"]["spec"];
    assert_eq!(spec, &json!({"cluster": "x", "clusterNamespace": "two"}));
}

#[test]
fn object_whose_target_is_gone_stays_and_is_told_of() {
    let mut lost = app("a", 1);
    lost["spec"]["cluster"] = "gone".into();
    let answer = answer(&input(&json!({})), &[lost], &[cluster("x", 5)]);
    assert_eq!(answer["output"]["lostObjects"].as_f64(), Some(1.0));
    assert!(said(&answer).1.starts_with("1 stay on targets that no longer match: a on gone;"), "{answer}");
    assert_eq!(answer["desired"]["resources"], Value::Null);
}

#[test]
fn mistakes_are_named_with_their_field() {
    for (changes, words) in [
        (json!({"objects": null}), "objects: is required"),
        (json!({"targets": {"apiVersion": "v1"}}), "targets.kind: is required"),
        (json!({"assignmentField": null}), "assignmentField: is required"),
        (json!({"assignmentField": "spec.clusters[0]"}), "assignmentField: leads into a list"),
        (json!({"strategy": "Random"}), "strategy: \"Random\" is none of Spread, Pack"),
        (json!({"capacityField": "a["}), "capacityField: cannot parse path"),
    ] {
        let said = refusal(run, &input(&changes));
        assert!(said.starts_with(&format!("invalid Function input: {words}")), "{changes}: {said}");
    }
}

proptest! {
    #[test]
    fn no_target_is_given_more_than_its_capacity(
        sizes in prop::collection::vec(0_u64..8, 0..20),
        capacities in prop::collection::vec(0_u64..20, 0..6),
        packs in any::<bool>(),
    ) {
        let apps: Vec<_> = sizes.iter().enumerate().map(|(index, size)| app(&format!("a{index:02}"), *size)).collect();
        let clusters: Vec<_> =
            capacities.iter().enumerate().map(|(index, capacity)| cluster(&format!("c{index}"), *capacity)).collect();
        let strategy = if packs { "Pack" } else { "Spread" };
        let mut used = BTreeMap::<String, u64>::new();
        for (app, cluster) in places(&input(&json!({"strategy": strategy})), &apps, &clusters) {
            *used.entry(cluster).or_default() += sizes[app[1..].parse::<usize>().unwrap()];
        }
        for (index, capacity) in capacities.iter().enumerate() {
            let used = used.get(&format!("c{index}")).copied().unwrap_or_default();
            prop_assert!(used <= *capacity, "{used} of {capacity}");
        }
    }

    #[test]
    fn no_input_makes_it_panic(anything in any_json(), object in any_json()) {
        call(run, &json!({"objects": anything, "targets": anything, "assignmentField": anything}), &[]);
        if object.is_object() {
            let odd = [object.clone()];
            call(run, &input(&json!({})), &[(OBJECTS, &odd), (TARGETS, &odd)]);
        }
    }
}
