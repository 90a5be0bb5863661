//! Tests of Wait.
#![expect(
    clippy::cloned_ref_to_slice_refs,
    clippy::needless_pass_by_value,
    clippy::trivially_copy_pass_by_ref,
    reason = "it reads better here as it is"
)]

use ferroplane_api::Cause;
use ferroplane_engine::action::Scope;
use serde_json::{Value, json};

use super::*;
use crate::phases::testing::{CrashCase, End, FakeCluster, Plane, object, refused};

fn pod(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "team"}, "status": {
        "phase": phase, "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}],
        "restarts": 3,
    }})
}

fn about(name: &str, condition: &str) -> Value {
    json!({"condition": condition, "objectReference":
        {"apiVersion": "v1", "group": "", "resource": "pods", "name": name, "namespace": "team"}})
}

fn wait_for(version: &'static Wait, timeout: &str, conditions: Value) -> Plane<'static> {
    Plane::of(version, json!({"timeout": timeout, "conditions": conditions}))
}

const RUNS: [(&Wait, &str); 2] = [
    (&Wait::V0_0, r#"{{ if (eq "{ $.status.phase }" "Running") }}true{{ else }}false{{ end }}"#),
    (&Wait::V2, r#"{{ if (eq .status.phase "Running") }}true{{ else }}false{{ end }}"#),
];

/// The pod begins to run.
fn begins(cluster: &mut FakeCluster) -> bool {
    cluster.change("Pod", "team", "db-0", &json!({"status": {"phase": "Running"}}));
    true
}

/// A wait only reads: it is never interrupted.
pub(in crate::phases) fn crashes() -> Vec<CrashCase> {
    let [(_, first), (_, second)] = RUNS;
    let versions = [
        ("Wait", "v0.0.0", first),
        ("Wait", "v2.0.0", second),
        ("WaitV2", "v0.0.0", second),
        ("WaitV2", "v2.0.0", second),
    ];
    let case = |(function, version, condition)| {
        let arguments = json!({"timeout": "10s", "conditions": {"anyOf": [about("db-0", condition)]}});
        let cluster = FakeCluster::with([pod("Pending")]);
        CrashCase { cluster, meanwhile: Box::new(begins), ..CrashCase::of(function, version, arguments) }
    };
    versions.into_iter().map(case).collect()
}

#[test]
fn condition_that_holds_ends_the_phase_at_once() {
    for (version, condition) in RUNS {
        for list in ["anyOf", "allOf"] {
            let mut cluster = FakeCluster::with([pod("Running")]);
            let end = wait_for(version, "1m", json!({list: [about("db-0", condition)]})).run(&mut cluster);
            assert_eq!(end, End::Done(json!({})), "{condition}");
        }
    }
}

#[test]
fn change_of_the_object_ends_the_wait_before_its_time() {
    for (version, condition) in RUNS {
        let mut first = wait_for(version, "10s", json!({"anyOf": [about("db-0", condition)]}));
        let begun = first.now;
        assert_eq!(first.run_while(&mut FakeCluster::with([pod("Pending")]), &begins), End::Done(json!({})));
        assert_eq!(first.now, begun);
    }
}

#[test]
fn wait_that_is_interrupted_keeps_its_deadline_and_watches_its_objects() {
    let mut plane = wait_for(&Wait::V2, "1m", json!({"anyOf": [about("db-0", RUNS[1].1)]}));
    let pending = Answer::Object { object: object(pod("Pending")), resource: "pods".to_owned() };
    let Move::Perform { checkpoint, requests } = plane.advance(&Value::Null, &[]) else {
        panic!("no request")
    };
    assert!(requests.iter().all(Request::is_read));
    let Move::Wait { checkpoint, wake_at, watch, .. } = plane.advance(&checkpoint, &[pending.clone()]) else {
        panic!("no wait")
    };
    assert_eq!((wake_at, watch.len()), (Some(plane.now + 60_000), 1));
    plane.now += 59_000;
    let Move::Wait { checkpoint: again, wake_at: same, .. } = plane.advance(&checkpoint, &[pending.clone()])
    else {
        panic!("no wait")
    };
    assert_eq!((again, same), (checkpoint.clone(), wake_at));
    plane.now += 1_000;
    assert!(matches!(plane.advance(&checkpoint, &[pending]), Move::Fail { cause: Cause::PhaseTimeout, .. }));
}

#[test]
fn too_long_a_wait_fails_with_the_last_error() {
    for (version, condition) in RUNS {
        let end = wait_for(version, "10s", json!({"anyOf": [about("db-0", condition)]}))
            .run(&mut FakeCluster::default());
        let expected =
            "the conditions did not hold within 10s: pods `db-0` in namespace `team` does not exist";
        assert_eq!(end, End::Failed(Cause::PhaseTimeout, expected.to_owned()));
        let plain = wait_for(version, "10s", json!({"anyOf": [about("db-0", condition)]}))
            .run(&mut FakeCluster::with([pod("Pending")]));
        assert_eq!(plain.failure(), "the conditions did not hold within 10s");
    }
}

#[test]
fn one_of_any_is_enough_and_all_of_all_are_needed() {
    let (yes, no) = (r#"{{ eq .status.phase "Running" }}"#, r#"{{ eq .status.phase "Failed" }}"#);
    let holds = |conditions: Value| {
        let end = wait_for(&Wait::V2, "1s", conditions).run(&mut FakeCluster::with([pod("Running")]));
        matches!(end, End::Done(_))
    };
    let (yes, no) = (about("db-0", yes), about("db-0", no));
    assert!(holds(json!({"anyOf": [no, yes]})));
    assert!(!holds(json!({"anyOf": [no, no]})));
    assert!(holds(json!({"allOf": [yes, yes]})));
    assert!(!holds(json!({"allOf": [yes, no]})));
    // With both, one of the two lists is enough.
    assert!(holds(json!({"anyOf": [yes], "allOf": [no]})));
    assert!(holds(json!({"anyOf": [no], "allOf": [yes]})));
    assert!(!holds(json!({"anyOf": [no], "allOf": [no]})));
}

#[test]
fn condition_that_cannot_be_evaluated_hides_others_at_first_only() {
    let lists = |condition: &str| json!({"anyOf": [about("missing", condition), about("db-0", condition)]});
    let mut cluster = FakeCluster::with([pod("Running")]);
    assert!(matches!(wait_for(&Wait::V0_0, "1s", lists(RUNS[0].1)).run(&mut cluster), End::Failed(..)));
    assert_eq!(wait_for(&Wait::V2, "1s", lists(RUNS[1].1)).run(&mut cluster), End::Done(json!({})));
}

#[test]
fn template_that_cannot_be_parsed_fails_at_once_in_the_later_version() {
    let broken = json!({"anyOf": [about("db-0", "{{ if }}")]});
    let mut plane = wait_for(&Wait::V2, "1h", broken.clone());
    let begun = plane.now;
    let End::Failed(Cause::PhaseArgumentsInvalid, message) =
        plane.run(&mut FakeCluster::with([pod("Running")]))
    else {
        panic!("did not fail")
    };
    assert!(
        message.starts_with("argument `conditions.anyOf[0].condition`: the template cannot be parsed"),
        "{message}"
    );
    assert_eq!(plane.now, begun);
    // No sprig here: that is a function which is not defined.
    let sprig = json!({"anyOf": [about("db-0", r#"{{ contains "a" .status.phase }}"#)]});
    assert!(
        wait_for(&Wait::V2, "1h", sprig)
            .run(&mut FakeCluster::default())
            .failure()
            .contains("\"contains\" not defined")
    );
    let end = wait_for(&Wait::V0_0, "1h", broken.clone()).run(&mut FakeCluster::with([pod("Running")]));
    assert!(matches!(end, End::Failed(Cause::PhaseTimeout, _)), "{end:?}");
    let mistakes =
        Wait::V2.argument_mistakes(json!({"timeout": "soon", "conditions": broken}).as_object().unwrap());
    let at: Vec<_> = mistakes.iter().map(|mistake| mistake.argument.as_str()).collect();
    assert_eq!(at, ["timeout", "conditions.anyOf[0].condition"]);
}

#[test]
fn object_that_is_not_complete_yet_is_waited_for() {
    let bare = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "team"}});
    let complete = |cluster: &mut FakeCluster| {
        cluster.put(object(pod("Running")));
        true
    };
    for (version, condition) in RUNS {
        let mut plane = wait_for(version, "1m", json!({"allOf": [about("db-0", condition)]}));
        assert_eq!(
            plane.run_while(&mut FakeCluster::with([bare.clone()]), &complete),
            End::Done(json!({})),
            "{condition}"
        );
    }
}

#[test]
fn timeout_and_references_are_rendered_with_what_the_action_knows() {
    let scope = || Scope::new(object(json!({"Options": {"t": "7s", "name": "db-0"}})), 0, [0; 32]);
    for (version, condition) in RUNS {
        let conditions = json!({"anyOf": [about("{{ .Options.name }}", condition)]});
        let plane = wait_for(version, "{{ .Options.t }}", conditions);
        let mut plane = Plane { scope: scope(), ..plane };
        let failure = plane.run(&mut FakeCluster::with([pod("Pending")])).failure();
        assert_eq!(failure, "the conditions did not hold within 7s");
        let missing = json!({"anyOf": [about("{{ .Options.nothing }}", condition)]});
        let mut plane = Plane { scope: scope(), ..wait_for(version, "1h", missing) };
        let End::Failed(Cause::PhaseTemplateFailed, message) = plane.run(&mut FakeCluster::default()) else {
            panic!("did not fail")
        };
        assert!(message.contains("args.conditions.anyOf[0].objectReference.name"), "{message}");
    }
}

#[test]
fn paths_may_have_filters_and_sprig_may_be_used_in_the_first_version() {
    for (condition, expected) in [
        (r#"{{ eq "{ $.status.conditions[?(@.type=="Ready")].status }" "True" }}"#, true),
        (r#"{{ if contains "unn" "{$.status.phase}" }} true {{ end }}"#, true),
        (r"{{ if gt ({ $.status.restarts } | int) 2 }}true{{ end }}", true),
        (r#"{{ eq "{ $.status.conditions[*].status }" "True False" }}"#, true),
        (r#"{{ $x := "{ $.status.phase }" }}{{ eq $x "Failed" }}"#, false),
        ("true", true),
        ("TRUE", false),
    ] {
        let end = wait_for(&Wait::V0_0, "1s", json!({"anyOf": [about("db-0", condition)]}))
            .run(&mut FakeCluster::with([pod("Running")]));
        assert_eq!(matches!(end, End::Done(_)), expected, "{condition}: {end:?}");
    }
}

#[test]
fn templates_have_the_functions_and_numbers_of_kubectl_in_the_later_version() {
    for (condition, expected) in [
        (r#"{{ exists .status "phase" }}"#, true),
        (r#"{{ exists .status "nothing" }}"#, false),
        (r#"{{ exists .status.conditions 1 "type" }}"#, true),
        (r#"{{ eq (base64decode "UnVubmluZw==") .status.phase }}"#, true),
        ("{{ gt .status.restarts 2.5 }}", true),
        (
            r#"{{ range .status.conditions }}{{ if eq .type "Ready" }}{{ eq .status "True" }}{{ end }}{{ end }}"#,
            true,
        ),
    ] {
        let end = wait_for(&Wait::V2, "1s", json!({"anyOf": [about("db-0", condition)]}))
            .run(&mut FakeCluster::with([pod("Running")]));
        assert_eq!(matches!(end, End::Done(_)), expected, "{condition}: {end:?}");
    }
}

#[test]
fn refusals_are_asked_about_again_later_and_later() {
    let plane = wait_for(&Wait::V2, "1h", json!({"anyOf": [about("db-0", RUNS[1].1)]}));
    let busy = [Answer::Refused(refused(429, "TooManyRequests", "come back"))];
    let mut checkpoint = json!({"deadline": plane.now + 3_600_000});
    for expected in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        let Move::Wait { checkpoint: next, wake_at, .. } = plane.advance(&checkpoint, &busy) else {
            panic!("no wait")
        };
        assert_eq!(wake_at, Some(plane.now + expected));
        checkpoint = next;
    }
}

#[test]
fn objects_are_read_once_however_many_conditions_are_about_them() {
    let one = about("db-0", RUNS[1].1);
    let plane =
        wait_for(&Wait::V2, "1h", json!({"anyOf": [one, one], "allOf": [one, about("other", "true")]}));
    let Move::Perform { requests, .. } = plane.advance(&Value::Null, &[]) else { panic!("no request") };
    assert_eq!(requests.len(), 2);
}

#[test]
fn hostile_arguments_fail_at_once() {
    let good = about("db-0", "true");
    for (arguments, expected) in [
        (json!({"timeout": "1s"}), "argument `conditions`: it should have anyOf or allOf"),
        (json!({"timeout": "1s", "conditions": {}}), "there is no condition to wait for"),
        (json!({"timeout": "1s", "conditions": {"anyOf": "x"}}), "`conditions.anyOf`: it should be a list"),
        (json!({"timeout": "1s", "conditions": {"noneOf": []}}), "`noneOf` is neither anyOf nor allOf"),
        (json!({"timeout": "1s", "conditions": {"anyOf": [3]}}), "should be a reference"),
        (
            json!({"timeout": "1s", "conditions": {"anyOf": [about("", "true")]}}),
            "objectReference.name`: it is required",
        ),
        (
            json!({"timeout": "1s", "conditions": {"anyOf": [about("a", " ")]}}),
            "should be a template that prints true",
        ),
        (
            json!({"timeout": "1s", "conditions": {"anyOf": vec![good.clone(); 101]}}),
            "there are more than 100",
        ),
        (json!({"conditions": {"anyOf": [good]}}), "argument `timeout`: it is required"),
        (json!({"timeout": "later", "conditions": {"anyOf": [good]}}), "invalid duration"),
    ] {
        for version in [&Wait::V0_0, &Wait::V2] {
            let failure = Plane::of(version, arguments.clone()).run(&mut FakeCluster::default()).failure();
            assert!(failure.contains(expected), "{arguments}: {failure}");
        }
    }
    let path = json!({"anyOf": [about("db-0", "{ $.a[ }")]});
    assert!(
        wait_for(&Wait::V0_0, "1s", path)
            .run(&mut FakeCluster::default())
            .failure()
            .contains("cannot be parsed")
    );
    let open = json!({"anyOf": [about("db-0", "{ $.a")]});
    assert!(
        wait_for(&Wait::V0_0, "1s", open).run(&mut FakeCluster::default()).failure().contains("not closed")
    );
}

#[test]
fn template_that_never_ends_is_an_error_like_others() {
    let endless = r"{{ range $i, $c := (until 100000000) }}x{{ end }}";
    let end = wait_for(&Wait::V0_0, "1s", json!({"anyOf": [about("db-0", endless)]}))
        .run(&mut FakeCluster::with([pod("Running")]));
    assert!(matches!(end, End::Failed(Cause::PhaseTimeout, _)), "{end:?}");
}

#[test]
fn condition_about_a_secret_keeps_nothing_of_it() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "team"},
        "data": {"password": "aHVudGVyMg=="}});
    let condition = json!({"condition": r#"{{ fail "no { $.data.password }" }}"#, "objectReference":
        {"apiVersion": "v1", "group": "", "resource": "secrets", "name": "login", "namespace": "team"}});
    let mut plane = wait_for(&Wait::V0_0, "1s", json!({"anyOf": [condition]}));
    let failure = plane.run(&mut FakeCluster::with([secret])).failure();
    assert!(failure.contains("secrets `login` in namespace `team` cannot be evaluated"), "{failure}");
    assert!(!failure.contains("aHVudGVy"), "{failure}");
    let kept = plane.checkpoints.concat();
    assert!(kept.contains("cannot be evaluated") && !kept.contains("aHVudGVy"), "{kept}");
}

#[test]
fn errors_are_kept_without_values_of_secrets() {
    let broken = about("db-0", r#"{{ fail "no hunter2-hunter2" }}"#);
    let mut plane = wait_for(&Wait::V0_0, "1s", json!({"anyOf": [broken]}));
    let encoded = ferroplane_golang::base64::encode(b"hunter2-hunter2");
    plane.secrets.add(&object(json!({"data": {"password": encoded}})));
    assert!(plane.run(&mut FakeCluster::with([pod("Running")])).failure().contains("no ***"));
    let kept = plane.checkpoints.concat();
    assert!(kept.contains("no ***") && !kept.contains("hunter2"), "{kept}");
}
