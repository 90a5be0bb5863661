//! Tests of ScaleWorkload.
#![expect(clippy::trivially_copy_pass_by_ref, reason = "it reads better here as it is")]

use ferroplane_api::Cause;
use serde_json::json;

use super::*;
use crate::phases::testing::{CrashCase, End, FakeCluster, Plane, object, refused};

fn deployment(name: &str, replicas: i64) -> Value {
    let counts = json!({"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "team", "generation": 1},
        "spec": {"replicas": replicas}, "status": counts})
}

fn scale(version: &'static ScaleWorkload, arguments: Value) -> Plane<'static> {
    Plane { target: object(deployment("web", 3)), ..Plane::of(version, arguments) }
}

/// The process that runs pods has done so.
fn settle_pods(name: &'static str, replicas: i64) -> impl Fn(&mut FakeCluster) -> bool {
    move |cluster| {
        let status = deployment(name, replicas)["status"].clone();
        cluster.change("Deployment", "team", name, &json!({"status": status}));
        true
    }
}

#[test]
fn workload_of_the_action_is_scaled_and_its_former_count_is_output() {
    for (version, effect) in [(&ScaleWorkload::V0_0, "patch web"), (&ScaleWorkload::V0_1, "scale web to 0")] {
        // Text is as good as a number: templates give text.
        for replicas in [json!(0), json!("0")] {
            let mut cluster = FakeCluster::with([deployment("web", 3)]);
            let output = scale(version, json!({"replicas": replicas}))
                .run_while(&mut cluster, &settle_pods("web", 0))
                .output();
            assert_eq!(output, json!({"originalReplicaCount": "3"}));
            assert_eq!(cluster.effects, [effect]);
            assert_eq!(cluster.get("Deployment", "team", "web").unwrap()["spec"]["replicas"], 0);
        }
    }
}

/// The former count is in the checkpoint before the workload is scaled: it is output wherever the plane stops.
pub(in crate::phases) fn crashes() -> Vec<CrashCase> {
    let case = |version| CrashCase {
        target: object(deployment("web", 3)),
        cluster: FakeCluster::with([deployment("web", 3)]),
        meanwhile: Box::new(settle_pods("web", 1)),
        ..CrashCase::of("ScaleWorkload", version, json!({"replicas": 1}))
    };
    ["v0.0.0", "v0.1.0"].map(case).into()
}

#[test]
fn two_phases_at_once_do_not_mix() {
    let mut cluster = FakeCluster::with([deployment("one", 1), deployment("two", 2)]);
    let plane = |name: &str, replicas: i64| {
        Plane::of(
            &ScaleWorkload::V0_1,
            json!({"replicas": replicas, "name": name, "namespace": "team", "kind": "deployment",
            "waitForReady": false}),
        )
    };
    let (mut one, mut two) = (plane("one", 11), plane("two", 12));
    // Both run on the same function, turn by turn.
    let mut states = [(Value::Null, Vec::new()), (Value::Null, Vec::new())];
    let mut outputs = Vec::new();
    for _ in 0..4 {
        for (plane, state) in [&mut one, &mut two].into_iter().zip(&mut states) {
            match plane.advance(&state.0, &state.1) {
                Move::Perform { checkpoint, requests } => {
                    let answers = requests.iter().map(|request| cluster.answer_to(request)).collect();
                    *state = (checkpoint, answers);
                }
                Move::Done { output } => outputs.push(Value::Object(output)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(outputs, [json!({"originalReplicaCount": "1"}), json!({"originalReplicaCount": "2"})]);
    let replicas = |name| cluster.get("Deployment", "team", name).unwrap()["spec"]["replicas"].clone();
    assert_eq!((replicas("one"), replicas("two")), (json!(11), json!(12)));
}

#[test]
fn phase_is_tried_again_after_a_conflict_but_not_for_ever() {
    let conflict = || Answer::Refused(refused(409, "Conflict", "the object has been modified"));
    for version in [&ScaleWorkload::V0_0, &ScaleWorkload::V0_1] {
        let phase = scale(version, json!({"replicas": 0}));
        let first = json!({"step": "scale", "original": 3, "conflicts": 0, "deadline": null});
        let Move::Perform { checkpoint, requests } = phase.advance(&first, &[conflict()]) else {
            panic!("no request")
        };
        assert_eq!((&checkpoint["conflicts"], &checkpoint["original"]), (&json!(1), &json!(3)));
        assert!(matches!(&requests[..], [Request::Get(_)]));
        let last = json!({"step": "scale", "original": 3, "conflicts": MOST_CONFLICTS, "deadline": null});
        assert!(matches!(phase.advance(&last, &[conflict()]), Move::Fail { .. }));
    }
}

#[test]
fn later_version_does_not_wait_for_ever() {
    let arguments = json!({"replicas": 5, "timeout": "30s"});
    let mut cluster = FakeCluster::with([deployment("web", 3)]);
    let end = scale(&ScaleWorkload::V0_1, arguments.clone()).run(&mut cluster);
    let End::Failed(Cause::PhaseTimeout, message) = end else { panic!("{end:?}") };
    assert_eq!(
        message,
        "Deployment `web` in namespace `team` does not have 5 replicas after 30s: it has 3, of which 3 are ready"
    );
    assert_eq!(
        scale(&ScaleWorkload::V0_0, json!({"replicas": 5}))
            .run(&mut FakeCluster::with([deployment("web", 3)])),
        End::Waits
    );
    let mistakes = ScaleWorkload::V0_0.argument_mistakes(arguments.as_object().unwrap());
    assert_eq!(mistakes[0].argument, "timeout");
}

#[test]
fn who_does_not_wait_is_done_at_once() {
    let mut cluster = FakeCluster::with([deployment("web", 3)]);
    for flag in [json!(false), json!("false")] {
        let end = scale(&ScaleWorkload::V0_0, json!({"replicas": 7, "waitForReady": flag})).run(&mut cluster);
        assert!(matches!(end, End::Done(_)), "{end:?}");
    }
}

#[test]
fn workload_is_ready_when_its_controller_has_seen_it_and_all_replicas_are() {
    let mut workload = object(deployment("web", 2));
    assert!(is_ready(&workload, 2));
    workload["metadata"]["generation"] = 2.into();
    assert!(!is_ready(&workload, 2));
    let mut old = object(deployment("web", 2));
    old["status"]["updatedReplicas"] = 1.into();
    assert!(!is_ready(&old, 2));
}

#[test]
fn hostile_arguments_fail_before_anything_is_done() {
    for (arguments, expected) in [
        (json!({}), "argument `replicas`: it is missing"),
        (json!({"replicas": "many"}), "should be a whole number"),
        (json!({"replicas": -1}), "-1 is not a number of replicas"),
        (json!({"replicas": 4_294_967_296_i64}), "is not a number of replicas"),
        (json!({"replicas": 1.5}), "should be a whole number"),
        (json!({"replicas": 1, "kind": "Pod"}), "`Pod` cannot be scaled"),
        (json!({"replicas": 1, "waitForReady": "perhaps"}), "should be true or false"),
        (json!({"replicas": 1, "timeout": "soon"}), "argument `timeout`: time: invalid duration"),
        (json!({"replicas": 1, "timeout": "-1s"}), "-1s is negative"),
    ] {
        let mut cluster = FakeCluster::with([deployment("web", 3)]);
        let failure = scale(&ScaleWorkload::V0_1, arguments.clone()).run(&mut cluster).failure();
        assert!(failure.contains(expected), "{arguments}: {failure}");
        assert!(cluster.effects.is_empty());
    }
    let nowhere =
        Plane::of(&ScaleWorkload::V0_1, json!({"replicas": 1})).run(&mut FakeCluster::default()).failure();
    assert!(nowhere.contains("the action is about no object"), "{nowhere}");
    let missing =
        scale(&ScaleWorkload::V0_1, json!({"replicas": 1})).run(&mut FakeCluster::default()).failure();
    assert!(missing.ends_with("it does not exist"), "{missing}");
}
