//! What counts as a storm, and what is done about it.

use std::slice::from_ref;

use proptest::prelude::*;

use super::*;
use crate::fleet::tests::{call, refusal, said};
use crate::selection::tests::any_json;

fn input(changes: &Value) -> Value {
    let mut input = json!({"targets": {"apiVersion": "example.org/v1", "kind": "Bucket"}});
    for (field, value) in changes.as_object().unwrap() {
        input[field] = value.clone();
    }
    input
}

fn bucket(name: &str) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Bucket", "metadata": {"name": name, "namespace": "home", "uid": format!("uid-{name}")}})
}

/// So many events about a bucket, between two minutes of an hour.
fn events(name: &str, count: u64, first: u32, last: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.{first}"), "namespace": "home"},
        "involvedObject": {"kind": "Bucket", "namespace": "home", "name": name, "uid": format!("uid-{name}")},
        "reason": "UpdatedExternalResource", "count": count,
        "firstTimestamp": format!("2026-01-01T10:{first:02}:00Z"), "lastTimestamp": format!("2026-01-01T10:{last:02}:00Z"),
    })
}

fn look(input: &Value, buckets: &[Value], events: &[Value]) -> Value {
    let answer = call(run, input, &[(TARGETS, buckets), (EVENTS, events)]);
    assert_ne!(said(&answer).0, "SEVERITY_FATAL", "{answer}");
    answer
}

fn paused(answer: &Value) -> Vec<String> {
    let nothing = serde_json::Map::new();
    let resources = answer["desired"]["resources"].as_object().unwrap_or(&nothing);
    for resource in resources.values() {
        assert_eq!(resource["resource"]["metadata"]["annotations"][PAUSED], "true");
    }
    resources.values().map(|it| it["resource"]["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The bucket after an answer was applied and somebody has resumed it.
fn resumed(answer: &Value, name: &str) -> Value {
    let wanted = &answer["desired"]["resources"][format!("Bucket.example.org/home/{name}")]["resource"];
    let mut bucket = bucket(name);
    bucket["metadata"]["annotations"] = wanted["metadata"]["annotations"].clone();
    bucket["metadata"]["annotations"].as_object_mut().unwrap().remove(PAUSED);
    bucket
}

#[test]
fn first_call_asks_for_objects_and_events() {
    let answer = call(run, &input(&json!({})), &[]);
    assert_eq!(answer["requirements"]["resources"]["events"]["kind"], "Event");
    assert_eq!(answer["requirements"]["resources"]["targets"]["kind"], "Bucket");
    // Events are not read if they do not count.
    let answer = call(run, &input(&json!({"conditions": [{"type": "Stuck", "status": "True"}]})), &[]);
    assert_eq!(answer["requirements"]["resources"].as_object().unwrap().len(), 1);
}

#[test]
fn object_with_many_events_in_a_short_time_is_paused() {
    let buckets = [bucket("busy"), bucket("calm")];
    let answer = look(&input(&json!({})), &buckets, &[events("busy", 25, 0, 3), events("calm", 3, 0, 3)]);
    assert_eq!(paused(&answer), ["busy"]);
    assert_eq!(said(&answer), ("SEVERITY_WARNING", "Paused 1 of 2: home/busy (25 events within 10m0s)"));
    let annotations = &answer["desired"]["resources"]["Bucket.example.org/home/busy"]["resource"]["metadata"]
        ["annotations"];
    assert_eq!(annotations[REASON], "25 events within 10m0s");
    assert_eq!(annotations[SEEN], "2026-01-01T10:03:00Z 25 events");
}

#[test]
fn same_number_of_events_over_a_long_time_is_no_storm() {
    let answer = look(&input(&json!({})), &[bucket("slow")], &[events("slow", 40, 0, 50)]);
    assert_eq!(paused(&answer), [""; 0]);
    assert_eq!(said(&answer), ("SEVERITY_NORMAL", "None of 1 is in a storm"));
}

#[test]
fn storm_that_is_over_is_left_alone() {
    let answer = look(
        &input(&json!({})),
        &[bucket("past"), bucket("calm")],
        &[events("past", 30, 0, 3), events("calm", 1, 40, 40)],
    );
    assert_eq!(paused(&answer), [""; 0]);
}

#[test]
fn what_somebody_resumed_is_paused_for_new_events_alone() {
    let answer = look(&input(&json!({})), &[bucket("busy")], &[events("busy", 25, 0, 3)]);
    let resumed = resumed(&answer, "busy");
    assert_eq!(paused(&look(&input(&json!({})), from_ref(&resumed), &[events("busy", 25, 0, 3)])), [""; 0]);
    // The same event once more: its count continues.
    assert_eq!(paused(&look(&input(&json!({})), from_ref(&resumed), &[events("busy", 26, 0, 30)])), [""; 0]);
    assert_eq!(
        paused(&look(&input(&json!({})), from_ref(&resumed), &[events("busy", 125, 0, 13)])),
        ["busy"]
    );
    let fresh = [events("busy", 25, 0, 3), events("busy", 20, 30, 32)];
    assert_eq!(paused(&look(&input(&json!({})), &[resumed], &fresh)), ["busy"]);
}

#[test]
fn condition_tells_of_a_storm() {
    let mut looping = bucket("loop");
    looping["status"] = json!({"conditions": [
        {"type": "Responsive", "status": "False", "reason": "WatchCircuitOpen", "lastTransitionTime": "2026-01-01T10:00:00Z"},
    ]});
    let answer = look(&input(&json!({})), &[looping.clone()], &[]);
    assert_eq!(paused(&answer), ["loop"]);
    assert!(said(&answer).1.contains("Responsive is False: WatchCircuitOpen"), "{answer}");
    // Until its controller has looked at it again, the condition is that of before.
    let mut after = resumed(&answer, "loop");
    after["status"] = looping["status"].clone();
    assert_eq!(paused(&look(&input(&json!({})), &[after.clone()], &[])), [""; 0]);
    after["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T11:00:00Z".into();
    assert_eq!(paused(&look(&input(&json!({})), &[after], &[])), ["loop"]);
    let other = json!({"conditions": [{"type": "Responsive", "status": "False", "reason": "Other"}]});
    assert_eq!(paused(&look(&input(&other), &[looping], &[])), [""; 0]);
}

#[test]
fn no_more_than_so_many_are_paused_and_the_worst_ones_are() {
    let buckets = [bucket("a"), bucket("b"), bucket("c")];
    let all = [events("a", 30, 0, 1), events("b", 90, 0, 1), events("c", 60, 0, 1)];
    let answer = look(&input(&json!({"atMost": 2})), &buckets, &all);
    assert_eq!(paused(&answer), ["b", "c"]);
    assert!(
        said(&answer).1.ends_with("; 1 more are in a storm, but no more than 2 are paused at once"),
        "{answer}"
    );
}

#[test]
fn only_events_with_the_reasons_and_about_the_very_object_count() {
    let only = input(&json!({"events": {"reasons": ["Failed"]}}));
    assert_eq!(paused(&look(&only, &[bucket("a")], &[events("a", 50, 0, 1)])), [""; 0]);
    let mut former = events("a", 50, 0, 1);
    former["involvedObject"]["uid"] = "another".into();
    assert_eq!(paused(&look(&input(&json!({})), &[bucket("a")], &[former])), [""; 0]);
    let mut series = events("a", 1, 0, 1);
    series["series"] = json!({"count": 50, "lastObservedTime": "2026-01-01T10:02:00.000000Z"});
    assert_eq!(paused(&look(&input(&json!({})), &[bucket("a")], &[series])), ["a"]);
}

#[test]
fn what_is_paused_or_leaving_is_left_alone() {
    let (mut halted, mut leaving) = (bucket("a"), bucket("b"));
    halted["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z".into();
    let answer =
        look(&input(&json!({})), &[halted, leaving], &[events("a", 90, 0, 1), events("b", 90, 0, 1)]);
    assert_eq!(paused(&answer), [""; 0]);
    assert_eq!(answer["desired"]["resources"], Value::Null);
}

#[test]
fn mistakes_are_named_with_their_field() {
    for (changes, words) in [
        (json!({"targets": {"kind": "Bucket"}}), "targets.apiVersion: is required"),
        (json!({"conditions": [{}]}), "conditions[0].type: is required"),
        (
            json!({"conditions": [{"type": "A", "status": "false"}]}),
            "conditions[0].status: is none of True, False, Unknown",
        ),
        (json!({"events": {"atLeast": 1}}), "events.atLeast: has to be at least 2"),
        (json!({"events": {"within": "soon"}}), "events.within: time: invalid duration \"soon\""),
        (json!({"events": {"within": "1ms"}}), "events.within: has to be at least 1s"),
        (json!({"atMost": 0}), "atMost: has to be at least 1"),
    ] {
        let said = refusal(run, &input(&changes));
        assert!(said.starts_with(&format!("invalid Function input: {words}")), "{changes}: {said}");
    }
}

proptest! {
    #[test]
    fn no_input_makes_it_panic(anything in any_json(), count in any::<u64>(), first in any::<u32>(), object in any_json()) {
        call(run, &json!({"targets": anything, "events": anything, "conditions": anything}), &[]);
        let mut odd = bucket("a");
        odd["metadata"]["annotations"] = json!({SEEN: "2026-01-01T10:00:00Z 18446744073709551615 events"});
        let mut event = events("a", count, first % 60, 59 - first % 60);
        event["series"] = object.clone();
        look(&input(&json!({})), &[odd, bucket("a")], &[event.clone(), event]);
        if object.is_object() {
            look(&input(&json!({})), from_ref(&object), from_ref(&object));
        }
    }
}
