//! Whole upgrades, batch by batch.

use proptest::prelude::*;

use super::*;
use crate::fleet::tests::{call, refusal, said};
use crate::selection::tests::any_json;

fn input(changes: &Value) -> Value {
    let mut input = json!({
        "targets": {"apiVersion": "example.org/v1", "kind": "Cluster", "selector": {"matchLabels": {"roll": "true"}}},
        "batches": [0.01, 0.1, 0.5, 1.0], "fromVersions": ["v1.29"], "toVersion": "v1.30", "healthyConditions": ["Synced", "Ready"],
    });
    for (field, value) in changes.as_object().unwrap() {
        input[field] = value.clone();
    }
    input
}

fn cluster(number: usize, version: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Cluster",
        "metadata": {"name": format!("c{number:03}"), "namespace": "default"},
        "spec": {"version": version},
        "status": {"conditions": [{"type": "Synced", "status": "True"}, {"type": "Ready", "status": ready, "reason": "Said"}]},
    })
}

fn fleet(size: usize) -> Vec<Value> {
    (0..size).map(|number| cluster(number, "v1.29", "True")).collect()
}

fn decide(input: &Value, fleet: &[Value]) -> Value {
    let answer = call(run, input, &[(TARGETS, fleet)]);
    assert_ne!(said(&answer).0, "SEVERITY_FATAL", "{answer}");
    answer
}

/// Does to the fleet what an answer wants. Returns how many objects that are.
fn carry_out(answer: &Value, fleet: &mut [Value]) -> usize {
    let nothing = serde_json::Map::new();
    let wanted = answer["desired"]["resources"].as_object().unwrap_or(&nothing);
    for resource in wanted.values() {
        let wanted = &resource["resource"];
        let found = fleet.iter_mut().find(|it| it["metadata"] == wanted["metadata"]).unwrap();
        found["spec"]["version"] = wanted["spec"]["version"].clone();
    }
    wanted.len()
}

#[test]
fn first_call_asks_for_the_fleet_by_its_labels() {
    let answer = call(run, &input(&json!({})), &[]);
    let asked = json!({"apiVersion": "example.org/v1", "kind": "Cluster", "matchLabels": {"labels": {"roll": "true"}}});
    assert_eq!(answer["requirements"]["resources"], json!({"targets": asked}));
    assert_eq!((&answer["results"], &answer["output"]), (&Value::Null, &Value::Null));
}

#[test]
fn every_run_upgrades_a_batch_until_all_have_the_version() {
    let (input, mut fleet) = (input(&json!({})), fleet(100));
    for (count, batch, upgraded) in [(1, 1, 1), (9, 2, 10), (40, 3, 50), (50, 4, 100)] {
        let answer = decide(&input, &fleet);
        assert_eq!(carry_out(&answer, &mut fleet), count);
        let output = &answer["output"];
        assert_eq!((&output["state"], &output["batch"]), (&json!("Upgrading"), &json!(batch)));
        assert_eq!(output["upgradedTargets"], upgraded);
        assert_eq!(output["matchedTargets"], 100);
    }
    let answer = decide(&input, &fleet);
    assert_eq!((&answer["output"]["state"], carry_out(&answer, &mut fleet)), (&json!("Complete"), 0));
    assert_eq!(said(&answer), ("SEVERITY_NORMAL", "All batches are complete: 100 have v1.30"));
}

#[test]
fn nothing_is_upgraded_while_an_upgraded_object_is_not_healthy() {
    let mut fleet = fleet(10);
    fleet[0] = cluster(0, "v1.30", "False");
    let answer = decide(&input(&json!({})), &fleet);
    assert_eq!(carry_out(&answer, &mut fleet), 0);
    assert_eq!(answer["output"]["state"], "Holding");
    assert_eq!(
        answer["output"]["unhealthy"],
        json!([{"name": "default/c000", "reason": "Ready is False: Said"}])
    );
    let message = "Holding at batch 1 of 4: 1 of 1 that have v1.30 are not healthy: default/c000 (Ready is False: Said)";
    assert_eq!(said(&answer), ("SEVERITY_WARNING", message));
    // One that was not upgraded may be ill: that is no fault of the upgrade.
    let mut fleet = self::fleet(10);
    fleet[9] = cluster(9, "v1.29", "False");
    assert_eq!(carry_out(&decide(&input(&json!({})), &fleet), &mut fleet), 1);
}

#[test]
fn object_is_healthy_when_it_has_come_to_the_version_if_it_says_so() {
    let input = input(&json!({"observedVersionField": "status.version"}));
    let mut fleet = fleet(10);
    fleet[0] = cluster(0, "v1.30", "True");
    let reason = |fleet: &[Value]| decide(&input, fleet)["output"]["unhealthy"][0]["reason"].clone();
    assert_eq!(reason(&fleet), "status.version is not set");
    fleet[0]["status"]["version"] = "v1.29".into();
    assert_eq!(reason(&fleet), "status.version is v1.29");
    fleet[0]["status"]["version"] = "v1.30".into();
    assert_eq!(reason(&fleet), Value::Null);
}

#[test]
fn batch_that_was_broken_off_is_completed() {
    let mut fleet = fleet(100);
    for (number, upgraded) in fleet.iter_mut().take(4).enumerate() {
        *upgraded = cluster(number, "v1.30", "True");
    }
    let answer = decide(&input(&json!({})), &fleet);
    assert_eq!(carry_out(&answer, &mut fleet), 6);
    assert_eq!(answer["output"]["batch"], 2);
}

#[test]
fn other_versions_and_objects_that_are_paused_or_leaving_are_left_alone() {
    let mut fleet = fleet(4);
    fleet[0]["spec"]["version"] = "v1.28".into();
    fleet[1]["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    fleet[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let answer = decide(&input(&json!({"batches": [1.0]})), &fleet);
    assert_eq!(answer["output"]["upgrading"], json!(["default/c003"]));
    assert_eq!(answer["output"]["skippedTargets"], 3);
    // Without fromVersions, every other version is left.
    let answer = decide(&input(&json!({"batches": [1.0], "fromVersions": null})), &fleet);
    assert_eq!(answer["output"]["upgrading"], json!(["default/c000", "default/c003"]));
}

#[test]
fn last_batch_may_leave_some_as_they_are() {
    let mut fleet = fleet(10);
    let input = input(&json!({"batches": [0.25]}));
    assert_eq!(carry_out(&decide(&input, &fleet), &mut fleet), 3);
    let answer = decide(&input, &fleet);
    assert_eq!(said(&answer).1, "The last batch is complete: 3 have v1.30, 7 keep their version");
}

#[test]
fn versions_may_be_numbers_and_fields_may_be_labels() {
    let input = input(&json!({
        "batches": [1], "fromVersions": [15], "toVersion": 16, "versionField": "metadata.labels[example.org/version]",
        "healthyConditions": [],
    }));
    let mut target = cluster(1, "", "True");
    target["metadata"]["labels"] = json!({"example.org/version": 15});
    let answer = decide(&input, &[target]);
    let wanted = answer["desired"]["resources"]["Cluster.example.org/default/c001"]["resource"].clone();
    assert_eq!(
        wanted["metadata"],
        json!({"name": "c001", "namespace": "default", "labels": {"example.org/version": 16}})
    );
    assert_eq!(wanted.get("spec"), None);
}

#[test]
fn empty_fleet_is_told_of() {
    let answer = decide(&input(&json!({})), &[]);
    assert_eq!(said(&answer), ("SEVERITY_WARNING", "No Cluster is selected"));
    assert_eq!(answer["output"]["state"], "Complete");
}

#[test]
fn mistakes_are_named_with_their_field() {
    for (changes, words) in [
        (json!({"targets": null}), "targets: is required"),
        (json!({"targets": {"apiVersion": "v1"}}), "targets.kind: is required"),
        (json!({"batches": []}), "batches: is required, for example [0.01, 0.1, 0.5, 1.0]"),
        (json!({"batches": [0.5, 0.5]}), "batches[1]: has to be larger than the batch before it"),
        (
            json!({"batches": [0.5, 1.5]}),
            "batches[1]: has to be larger than the batch before it, and at most 1.0",
        ),
        (json!({"batches": [0]}), "batches[0]: has to be larger"),
        (json!({"toVersion": null}), "toVersion: is required"),
        (json!({"toVersion": 1.5}), "toVersion: is neither text nor a whole number"),
        (json!({"fromVersions": ["v1.29", "v1.30"]}), "fromVersions[1]: is toVersion, too"),
        (json!({"versionField": "spec.nodes[0].version"}), "versionField: leads into a list"),
    ] {
        let said = refusal(run, &input(&changes));
        assert!(said.starts_with(&format!("invalid Function input: {words}")), "{changes}: {said}");
    }
    let said = refusal(run, &input(&json!({"batchs": [1]})));
    assert!(said.contains("unknown field `batchs`"), "{said}");
}

proptest! {
    #[test]
    fn batches_never_pass_their_end(size in 0_usize..300, upgraded in 0_usize..300, part in 0.001_f64..=1.0) {
        let fleet: Vec<_> =
            (0..size).map(|number| cluster(number, if number < upgraded { "v1.30" } else { "v1.29" }, "True")).collect();
        let answer = decide(&input(&json!({"batches": [part]})), &fleet);
        let now = answer["output"]["upgradedTargets"].as_f64().unwrap();
        let (before, size) = (f64::from(u32::try_from(upgraded.min(size)).unwrap()), f64::from(u32::try_from(size).unwrap()));
        prop_assert!(now >= before);
        prop_assert!(now <= before.max((part * size).ceil()), "{now} of {size} at {part}");
        prop_assert!(fleet.is_empty() || now >= (part * size).floor());
    }

    #[test]
    fn no_input_makes_it_panic(anything in any_json(), object in any_json()) {
        call(run, &json!({"targets": anything, "batches": anything, "toVersion": anything}), &[]);
        if object.is_object() {
            decide(&input(&json!({})), &[object]);
        }
    }
}
