//! Tests of KubeExec and KubeExecAll.
#![expect(
    clippy::needless_pass_by_value,
    clippy::trivially_copy_pass_by_ref,
    reason = "it reads better here as it is"
)]

use serde_json::json;

use super::*;
use crate::phases::testing::{Crash, CrashCase, End, FakeCluster, INTERRUPTED_ONCE, Plane, refused};
use ferroplane_api::Cause;
use ferroplane_engine::action::Refused;

fn ended(exit_code: i32, stdout: &str, stderr: &str) -> Answer {
    Answer::Ended { exit_code, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn cluster(commands: &[Answer]) -> FakeCluster {
    FakeCluster { commands: commands.to_vec(), ..FakeCluster::default() }
}

/// The blueprint of the design: `tail` in a container.
fn tail(version: &'static KubeExec, more: Value) -> Plane<'static> {
    let mut arguments = json!({"namespace": "default", "pod": "timer", "container": "timer", "command": ["sh", "-c", "/bin/tail.sh"]});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Plane::of(version, arguments)
}

const ALL: [&KubeExec; 3] = [&KubeExec::V0_0, &KubeExec::V0_1, &KubeExec::V0_2];

#[test]
fn output_of_a_command_becomes_output_of_the_phase() {
    let printed = "working\n###Phase-output###:{\"key\":\"path\",\"value\":\"/a\"}\n";
    for version in ALL {
        let mut cluster = cluster(&[ended(0, printed, "noise")]);
        let output = tail(version, json!({})).run(&mut cluster).output();
        assert_eq!(output["path"], "/a");
        assert_eq!(cluster.effects, ["exec timer/timer: sh -c /bin/tail.sh"]);
        assert_eq!(output.get("exitCode").is_some(), *version == KubeExec::V0_2);
    }
}

#[test]
fn versions_tell_failures_differently() {
    let failed = || cluster(&[ended(3, "half way", "no such file")]);
    let place = "the command in container `timer` of pod `timer` in namespace `default` exited with code 3";
    assert_eq!(
        tail(&KubeExec::V0_0, json!({})).run(&mut failed()).failure(),
        format!("{place}: half way; no such file")
    );
    assert_eq!(
        tail(&KubeExec::V0_1, json!({})).run(&mut failed()).failure(),
        format!("{place}: no such file")
    );
    let accepted = json!({"acceptedExitCodes": [0, 3]});
    assert_eq!(tail(&KubeExec::V0_2, accepted.clone()).run(&mut failed()).output(), json!({"exitCode": "3"}));
    let mistakes = KubeExec::V0_1.argument_mistakes(&tail(&KubeExec::V0_1, accepted).arguments);
    assert_eq!(mistakes[0].argument, "acceptedExitCodes");
}

#[test]
fn values_of_secrets_are_hidden_before_words_are_cut() {
    let stderr = format!("hunter2-hunter2{}", "x".repeat(990));
    let mut plane = tail(&KubeExec::V0_1, json!({}));
    let encoded = ferroplane_golang::base64::encode(b"hunter2-hunter2");
    plane.secrets.add(json!({"data": {"password": encoded}}).as_object().unwrap());
    let failure = plane.run(&mut cluster(&[ended(1, "", &stderr)])).failure();
    assert!(failure.contains("code 1: ***xx") && !failure.contains("nter2"), "{failure}");
}

#[test]
fn command_is_never_run_twice_unless_that_is_allowed() {
    for crash in [Crash::Before(1), Crash::After(1)] {
        for version in ALL {
            let mut cluster = cluster(&[ended(0, "", ""), ended(0, "", "")]);
            let end = Plane { crash, ..tail(version, json!({})) }.run(&mut cluster);
            assert!(matches!(end, End::Failed(Cause::PhaseInterrupted, _)), "{end:?}");
            assert!(cluster.effects.len() <= 1);
        }
        let mut cluster = cluster(&[ended(0, "", ""), ended(0, "", "")]);
        let end =
            Plane { crash, ..tail(&KubeExec::V0_2, json!({"onInterruption": "Rerun"})) }.run(&mut cluster);
        assert_eq!(end, End::Done(json!({"exitCode": "0"})));
    }
}

/// Whether a command ran is not known after a crash. It is run again only if the phase allows that.
pub(in crate::phases) fn crashes() -> Vec<CrashCase> {
    let case = |function, version, plane: Plane<'static>| {
        let cluster = cluster(&[(); 8].map(|()| ended(0, "", "")));
        let arguments = Value::Object(plane.arguments);
        CrashCase { cluster, interrupted: INTERRUPTED_ONCE, ..CrashCase::of(function, version, arguments) }
    };
    let rerun = tail(&KubeExec::V0_2, json!({"onInterruption": "Rerun"}));
    vec![
        case("KubeExec", "v0.0.0", tail(&KubeExec::V0_0, json!({}))),
        case("KubeExec", "v0.1.0", tail(&KubeExec::V0_1, json!({}))),
        case("KubeExec", "v0.2.0", tail(&KubeExec::V0_2, json!({}))),
        CrashCase { interrupted: &[], ..case("KubeExec", "v0.2.0", rerun) },
        case("KubeExecAll", "v0.0.0", everywhere()),
    ]
}

#[test]
fn command_that_takes_too_long_is_told_as_that() {
    let timeout =
        || FakeCluster { refusals: vec![refused(504, "Timeout", "late")], ..FakeCluster::default() };
    let end = tail(&KubeExec::V0_1, json!({"timeout": "5s"})).run(&mut timeout());
    assert!(matches!(end, End::Failed(Cause::PhaseTimeout, _)), "{end:?}");
    let Move::Perform { requests, .. } =
        tail(&KubeExec::V0_1, json!({"timeout": "5s"})).advance(&Value::Null, &[])
    else {
        panic!("no request")
    };
    assert!(matches!(requests[..], [Request::Exec { timeout: Some(5000), .. }]));
}

#[test]
fn command_whose_output_cannot_be_kept_fails_and_is_not_told_as_not_run() {
    let words =
        "the command in Pod `default/timer` exited with code 0 and printed more than 1024 KiB of output";
    let mut cluster =
        FakeCluster { refusals: vec![refused(413, Refused::TOO_LARGE, words)], ..FakeCluster::default() };
    assert_eq!(tail(&KubeExec::V0_1, json!({})).run(&mut cluster).failure(), words);
}

#[test]
fn without_pods_nothing_is_done() {
    for pods in [PodSupport::None, PodSupport::Containers] {
        for function in [&KubeExec::V0_0 as &dyn PhaseFunction, &KubeExec::V0_2] {
            let arguments = tail(&KubeExec::V0_0, json!({})).arguments;
            let mut cluster = FakeCluster::default();
            let end = Plane { pods, ..Plane::of(function, arguments.into()) }.run(&mut cluster);
            let End::Failed(Cause::PhaseNeedsUnmet, message) = end else { panic!("{end:?}") };
            assert!(message.contains("has no pods") && cluster.effects.is_empty(), "{message}");
        }
    }
    assert_eq!(KubeExec::V0_0.contract().needs, [Need::Exec]);
}

fn everywhere() -> Plane<'static> {
    Plane::of(
        &KubeExecAll,
        json!({"namespace": "team", "pods": "a b", "containers": " x  y ", "command": ["id"]}),
    )
}

#[test]
fn command_runs_in_all_containers_of_all_pods_and_no_output_is_lost() {
    let print =
        |key: &str| ended(0, &format!("###Phase-output###:{{\"key\":\"{key}\",\"value\":\"{key}\"}}"), "");
    let mut cluster = cluster(&["ax", "ay", "bx", "by"].map(print));
    let output = everywhere().run(&mut cluster).output();
    assert_eq!(output, json!({"ax": "ax", "ay": "ay", "bx": "bx", "by": "by"}));
    assert_eq!(cluster.effects, ["exec a/x: id", "exec a/y: id", "exec b/x: id", "exec b/y: id"]);
}

#[test]
fn commands_in_all_containers_are_never_run_twice_wherever_the_plane_stops() {
    let commands = [(); 8].map(|()| ended(0, "", ""));
    for place in 1..=4 {
        for crash in [Crash::Before(place), Crash::After(place)] {
            let mut cluster = cluster(&commands);
            let end = Plane { crash, ..everywhere() }.run(&mut cluster);
            let mut once = cluster.effects.clone();
            once.dedup();
            assert_eq!(cluster.effects, once, "{crash:?}");
            // The plane stopped only if the phase had come so far.
            let is_whole = matches!(end, End::Done(_)) && cluster.effects.len() == 4;
            let is_interrupted = matches!(end, End::Failed(Cause::PhaseInterrupted, _));
            assert!(is_whole || is_interrupted, "{crash:?}: {end:?} {:?}", cluster.effects);
            assert!(place > 1 || is_interrupted, "{crash:?}");
        }
    }
}

#[test]
fn all_containers_in_which_a_command_fails_are_told() {
    let mut cluster =
        cluster(&[ended(0, "", ""), ended(1, "", "bad"), ended(0, "", ""), ended(2, "", "worse")]);
    let failure = everywhere().run(&mut cluster).failure();
    assert!(failure.contains("`y` of pod `a`") && failure.contains("`y` of pod `b`"), "{failure}");
}

#[test]
fn hostile_arguments_fail_before_anything_is_done() {
    for (more, expected) in [
        (json!({"command": []}), "argument `command`: it is required, and empty"),
        (json!({"command": "ls"}), "should be a list of texts"),
        (json!({"command": [{"a": 1}]}), "argument `command[0]`: it is a map"),
        (json!({"pod": ""}), "argument `pod`: it is required"),
        (json!({"timeout": "x"}), "invalid duration"),
        (json!({"namespace": null}), "argument `namespace`: it is required"),
    ] {
        let mut cluster = FakeCluster::default();
        let failure = tail(&KubeExec::V0_2, more).run(&mut cluster).failure();
        assert!(failure.contains(expected) && cluster.effects.is_empty(), "{failure}");
    }
    let codes = |codes: Value| {
        tail(&KubeExec::V0_2, json!({"acceptedExitCodes": codes}))
            .run(&mut cluster(&[ended(0, "", "")]))
            .failure()
    };
    assert!(codes(json!(["a"])).contains("`a` is not an exit code"));
    assert!(codes(json!([256])).contains("`256` is not an exit code"));
    let choice = tail(&KubeExec::V0_2, json!({"onInterruption": "Maybe"})).arguments;
    assert_eq!(KubeExec::V0_2.argument_mistakes(&choice)[0].argument, "onInterruption");
    let none =
        Plane::of(&KubeExecAll, json!({"namespace": "a", "pods": " ", "containers": "x", "command": ["id"]}));
    assert!({ none }.run(&mut FakeCluster::default()).failure().contains("no pod"));
}
