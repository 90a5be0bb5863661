//! What the function says of objects, through whole requests.

use std::time::Duration;

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    super::run(request, Effort::Full(&|| Duration::ZERO)).unwrap()
}

/// The readiness of the one resource that is desired, when this is observed of it.
fn verdict_of(behaviour: crate::Builtin, object: &Value) -> Value {
    let answer = answer_with(
        behaviour,
        &json!({
            "observed": {"resources": {"it": {"resource": object}}},
            "desired": {"resources": {"it": {"resource": {"kind": "It"}}}},
        }),
    );
    answer["desired"]["resources"]["it"]["ready"].clone()
}

fn answer_with(behaviour: crate::Builtin, request: &Value) -> Value {
    to_json(&behaviour(&from_json(request).unwrap())).unwrap()
}

fn is_ready(object: &Value) -> bool {
    verdict_of(run, object) == "READY_TRUE"
}

/// An object of a Kubernetes kind.
fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "spec": spec, "status": status})
}

fn conditions(conditions: &[(&str, &str)]) -> Value {
    conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect()
}

fn with_conditions(object: &Value, list: &[(&str, &str)]) -> Value {
    let mut object = object.clone();
    object["status"]["conditions"] = conditions(list);
    object
}

#[test]
fn resource_that_says_it_is_ready_is() {
    let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing"});
    assert!(is_ready(&with_conditions(&thing, &[("Synced", "False"), ("Ready", "True")])));
    assert!(!is_ready(&with_conditions(&thing, &[("Ready", "False"), ("Ready", "True")])));
    assert!(!is_ready(&with_conditions(&thing, &[("Synced", "True")])));
    assert!(!is_ready(&thing));
}

#[test]
fn resource_with_a_malformed_condition_says_nothing() {
    let ready = json!({"type": "Ready", "status": "True"});
    for odd in [
        json!(5),
        json!({"type": 5}),
        json!({"reason": []}),
        json!({"lastTransitionTime": "yesterday"}),
        json!({"observedGeneration": 1.5}),
    ] {
        assert!(!is_ready(&json!({"status": {"conditions": [ready, odd]}})), "{odd}");
    }
    assert!(is_ready(&json!({"status": {"conditions": [null, ready, {"lastTransitionTime": null}]}})));
}

#[test]
fn what_is_said_already_or_does_not_exist_is_left_alone() {
    let answer = answer_with(
        run,
        &json!({
            "observed": {"resources": {"said": {"resource": {"apiVersion": "v1", "kind": "Secret"}}}},
            "desired": {"resources": {
                "said": {"resource": {}, "ready": "READY_FALSE"},
                "missing": {"resource": {"apiVersion": "v1", "kind": "Secret"}},
            }},
        }),
    );
    assert_eq!(answer["desired"]["resources"]["said"]["ready"], "READY_FALSE");
    assert_eq!(answer["desired"]["resources"]["missing"].get("ready"), None);
}

#[test]
fn what_has_no_state_is_ready_once_it_exists() {
    for kind in ["ConfigMap", "Namespace", "Secret", "ServiceAccount", "Service"] {
        assert!(is_ready(&json!({"apiVersion": "v1", "kind": kind})), "{kind}");
        assert!(!is_ready(&json!({"apiVersion": "v2", "kind": kind})), "{kind}");
    }
}

#[test]
fn service_that_wants_a_load_balancer_waits_for_it() {
    let service = |status: Value| object("v1", "Service", &json!({"type": "LoadBalancer"}), &status);
    assert!(!is_ready(&service(json!({"loadBalancer": {"ingress": []}}))));
    assert!(is_ready(&service(json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}))));
    assert!(!is_ready(&object("networking.k8s.io/v1", "Ingress", &json!({}), &json!({}))));
}

#[test]
fn workload_is_ready_when_all_its_pods_are() {
    let status = json!({"updatedReplicas": 2, "availableReplicas": 2, "conditions": conditions(&[("Available", "True")])});
    assert!(is_ready(&object("apps/v1", "Deployment", &json!({"replicas": 2}), &status)));
    assert!(!is_ready(&object("apps/v1", "Deployment", &json!({"replicas": 3}), &status)));
    assert!(!is_ready(&object("apps/v1", "Deployment", &json!({}), &status)));

    let status =
        json!({"readyReplicas": 1, "currentReplicas": 1, "currentRevision": "a", "updateRevision": "a"});
    assert!(is_ready(&object("apps/v1", "StatefulSet", &json!({}), &status)));
    assert!(!is_ready(&object("apps/v1", "StatefulSet", &json!({"replicas": 2}), &status)));

    let mut status = json!({"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2});
    assert!(is_ready(&object("apps/v1", "DaemonSet", &json!({}), &status)));
    status["numberReady"] = json!(1);
    assert!(!is_ready(&object("apps/v1", "DaemonSet", &json!({}), &status)));
    assert!(!is_ready(&object("apps/v1", "DaemonSet", &json!({}), &json!({}))));

    let set = |status: Value| object("apps/v1", "ReplicaSet", &json!({"replicas": 2}), &status);
    assert!(is_ready(&set(json!({"availableReplicas": 3}))));
    assert!(!is_ready(&set(json!({"availableReplicas": 1}))));
    assert!(!is_ready(&set(
        json!({"availableReplicas": 3, "conditions": conditions(&[("ReplicaFailure", "True")])})
    )));
}

#[test]
fn pod_is_ready_when_it_runs_for_good_or_has_succeeded() {
    let pod = |policy: &str, phase: &str, ready: &str| {
        let status =
            json!({"phase": phase, "conditions": conditions(&[("PodReadyToStartContainers", "True")])});
        let mut pod = object("v1", "Pod", &json!({"restartPolicy": policy}), &status);
        // The condition of a pod is that of any other resource, too: without it, only the phase counts.
        if !ready.is_empty() {
            pod["status"]["conditions"] = conditions(&[("Ready", ready)]);
        }
        pod
    };
    assert!(is_ready(&pod("Always", "Running", "True")));
    assert!(!is_ready(&pod("Always", "Running", "False")));
    assert!(is_ready(&pod("Never", "Succeeded", "")));
    assert!(!is_ready(&pod("Never", "Running", "")));
}

#[test]
fn first_condition_that_decides_does() {
    let of = |api_version, kind, list: &[(&str, &str)]| {
        with_conditions(&object(api_version, kind, &json!({}), &json!({})), list)
    };
    let job = |list| of("batch/v1", "Job", list);
    assert!(is_ready(&job(&[("Suspended", "False"), ("Complete", "True"), ("Failed", "True")])));
    assert!(!is_ready(&job(&[("Failed", "True"), ("Complete", "True")])));
    let autoscaler = |list| of("autoscaling/v2", "HorizontalPodAutoscaler", list);
    assert!(is_ready(&autoscaler(&[("AbleToScale", "True"), ("ScalingLimited", "True")])));
    assert!(!is_ready(&autoscaler(&[("FailedGetScale", "True"), ("ScalingActive", "True")])));
}

#[test]
fn cron_job_is_ready_when_its_last_job_succeeded() {
    let job = |status: Value| object("batch/v1", "CronJob", &json!({}), &status);
    let at = |hour: &str| format!("2024-05-01T{hour}:00:00Z");
    assert!(!is_ready(&job(json!({}))));
    assert!(is_ready(&job(json!({"lastScheduleTime": at("10"), "active": [{}]}))));
    assert!(is_ready(&job(json!({"lastScheduleTime": at("10"), "lastSuccessfulTime": at("10")}))));
    assert!(!is_ready(&job(json!({"lastScheduleTime": at("11"), "lastSuccessfulTime": at("10")}))));
    assert!(is_ready(&object("batch/v1", "CronJob", &json!({"suspend": true}), &json!({}))));
    assert!(!is_ready(&object("batch/v1", "CronJob", &json!({"suspend": true}), &json!({"active": 1}))));
}

#[test]
fn claim_is_ready_when_it_is_bound() {
    let claim = |phase| object("v1", "PersistentVolumeClaim", &json!({}), &json!({"phase": phase}));
    assert!(is_ready(&claim("Bound")));
    assert!(!is_ready(&claim("Pending")));
}

#[test]
fn earlier_behaviours_know_less() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret"});
    assert_eq!(verdict_of(run_v0_6, &secret), "READY_TRUE");
    assert_eq!(verdict_of(run_v0_5, &secret), Value::Null);
    assert_eq!(verdict_of(run_v0_5, &with_conditions(&secret, &[("Ready", "True")])), "READY_TRUE");
    let request = json!({"input": {"ttl": "no duration"}, "desired": {}});
    assert_eq!(answer_with(run_v0_6, &request), json!({"meta": {"ttl": "60s"}, "desired": {}}));
}

#[test]
fn input_says_for_how_long_the_answer_holds() {
    let answer = answer_with(run, &json!({"input": {"ttl": "1m30.5s"}}));
    assert_eq!(answer["meta"]["ttl"], "90.5s");
}

#[test]
fn mistake_in_the_input_is_a_fatal_result() {
    let message = |input: Value| {
        let answer = answer_with(run, &json!({"input": input}));
        assert_eq!(answer["results"][0]["severity"], "SEVERITY_FATAL");
        answer["results"][0]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message(json!({"ttl": "5"})), r#"cannot set ttl: time: missing unit in duration "5""#);
    assert!(message(json!({"tll": "5m"})).starts_with("cannot get Function input: tll: unknown field `tll`"));
    assert_eq!(
        message(json!({"ttl": true})),
        "cannot get Function input: ttl: invalid type: boolean `true`, expected a string"
    );
}

/// What is said of a thing of which this is observed, when this is the check for things.
fn checked(check: &str, status: &Value) -> (Value, Vec<String>) {
    let answer = answer_with(
        run,
        &json!({
            "input": {"celHealthCheckCustomization": {"example.org_v1_Thing": check}},
            "observed": {"resources": {"it": {"resource": object("example.org/v1", "Thing", &json!({}), status)}}},
            "desired": {"resources": {"it": {"resource": {}}}},
        }),
    );
    let results = answer["results"].as_array().into_iter().flatten();
    let warnings = results.map(|result| result["message"].as_str().unwrap().to_owned()).collect();
    (answer["desired"]["resources"]["it"]["ready"].clone(), warnings)
}

#[test]
fn check_of_the_user_decides_alone() {
    let ready = json!({"phase": "Up", "conditions": conditions(&[("Ready", "True")])});
    assert_eq!(checked("object.status.phase == 'Up'", &ready), (json!("READY_TRUE"), vec![]));
    assert_eq!(checked("object.status.phase == 'Down'", &ready), (json!("READY_FALSE"), vec![]));
}

#[test]
fn check_that_fails_is_a_warning_and_the_usual_ways_decide() {
    let ready = json!({"conditions": conditions(&[("Ready", "True")])});
    let warned = |text: &str| (json!("READY_TRUE"), vec![text.to_owned()]);
    assert_eq!(
        checked("object.status.phase == 'Up'", &ready),
        warned("failed to eval the program: no such key: phase")
    );
    assert_eq!(checked("object.status", &ready), warned("celQuery does not return a bool type"));
    let (verdict, warnings) = checked("nothing", &ready);
    assert_eq!(verdict, "READY_TRUE");
    assert!(
        warnings[0]
            .starts_with("failed to compile query: ERROR: <input>:1:1: undeclared reference to 'nothing'")
    );
}

#[test]
fn numbers_are_doubles_to_checks() {
    let status = json!({"count": 3});
    assert_eq!(checked("type(object.status.count) == double", &status), (json!("READY_TRUE"), vec![]));
    assert_eq!(checked("object.status.count == 3", &status), (json!("READY_TRUE"), vec![]));
}

#[test]
fn checks_are_also_found_in_the_context() {
    let request = |input: Value| {
        json!({
            "input": input,
            "context": {"a": {"b.c": {"_v1_Secret": "false", "_v1_ConfigMap": "false", "odd": 1}}},
            "observed": {"resources": {
                "config": {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}},
                "secret": {"resource": {"apiVersion": "v1", "kind": "Secret"}},
            }},
            "desired": {"resources": {"config": {"resource": {}}, "secret": {"resource": {}}}},
        })
    };
    let verdicts = |input: Value| {
        let answer = answer_with(run, &request(input));
        let resources = &answer["desired"]["resources"];
        (resources["config"]["ready"].clone(), resources["secret"]["ready"].clone())
    };
    let (yes, no) = (json!("READY_TRUE"), json!("READY_FALSE"));
    assert_eq!(verdicts(json!({"celHealthCheckCustomizationFrom": "a[b.c]"})), (no.clone(), no.clone()));
    assert_eq!(verdicts(json!({"celHealthCheckCustomizationFrom": "a.b.c"})), (yes.clone(), yes.clone()));
    let over = json!({"celHealthCheckCustomizationFrom": "a[b.c]", "celHealthCheckCustomization": {"_v1_Secret": "true"}});
    assert_eq!(verdicts(over), (no, yes));
}

#[test]
fn desired_state_that_does_not_change_is_not_copied() {
    let request =
        from_json(&json!({"desired": {"resources": {"it": {"resource": {"kind": "It"}}}}})).unwrap();
    let answer = run(&request);
    assert!(std::ptr::eq(answer.desired.unwrap().resources(), request.desired.as_ref().unwrap().resources()));
}

#[test]
fn only_objects_and_readiness_are_returned() {
    let request = json!({"desired": {"resources": {"a": {"connectionDetails": {"k": "dg=="}, "resource": {"b": 1}}, "c": {}}}});
    let expected = json!({"a": {"resource": {"b": 1}}, "c": {"resource": {}}});
    assert_eq!(answer_with(run, &request)["desired"]["resources"], expected);
}

/// Any JSON, but with the names that mean something.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let names = "status|spec|conditions|type|phase|metadata|active|replicas|suspend|loadBalancer|ingress|lastScheduleTime|a";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "Ready|True|Running|LoadBalancer|2024-05-01T10:00:00Z|[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_ready_or_not(kind in 0..12_usize, spec in any_value(), status in any_value(), metadata in any_value()) {
        let kinds = [
            ("v1", "Pod"), ("v1", "Service"), ("v1", "PersistentVolumeClaim"), ("apps/v1", "Deployment"),
            ("apps/v1", "DaemonSet"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("batch/v1", "Job"),
            ("batch/v1", "CronJob"), ("autoscaling/v2", "HorizontalPodAutoscaler"), ("networking.k8s.io/v1", "Ingress"),
            ("a/b/c", "Other"),
        ];
        let (api_version, kind) = kinds[kind];
        verdict_of(run, &json!({"apiVersion": api_version, "kind": kind, "spec": spec, "status": status, "metadata": metadata}));
    }

    #[test]
    fn any_input_is_understood_or_refused(ttl in any_value(), checks in any_value(), from in "[a-c.\\[\\]]{0,8}", context in any_value()) {
        let input = json!({"ttl": ttl, "celHealthCheckCustomization": checks, "celHealthCheckCustomizationFrom": from});
        answer_with(run, &json!({"input": input, "context": {"a": context}}));
    }
}

#[test]
fn checks_that_cost_much_are_not_evaluated_briefly() {
    let brief = |check: &str| {
        let request = from_json(&json!({
            "observed": {"resources": {"it": {"resource": {"apiVersion": "example.org/v1", "kind": "It"}}}},
            "desired": {"resources": {"it": {"resource": {"kind": "It"}}}},
            "input": {"celHealthCheckCustomization": {"example.org_v1_It": check}},
        }));
        super::run(&request.unwrap(), Effort::Brief)
    };
    let digits = "[1,2,3,4,5,6,7,8,9]";
    let costly = format!(
        "{digits}.all(a, {digits}.all(b, {digits}.all(c, {digits}.all(d, {digits}.all(e, a > 0.0)))))"
    );
    assert_eq!(brief(&costly), Err(TakesLong));
    assert!(brief("object.kind == 'It'").is_ok());
}

#[test]
fn checks_are_not_evaluated_briefly_if_they_match_long_texts() {
    let brief = |length: usize| {
        let observed = json!({"apiVersion": "example.org/v1", "kind": "It", "text": "-".repeat(length)});
        let request = from_json(&json!({
            "observed": {"resources": {"it": {"resource": observed}}},
            "desired": {"resources": {"it": {"resource": {"kind": "It"}}}},
            "input": {"celHealthCheckCustomization": {"example.org_v1_It": r"object.text.matches('[\\pL]{20}9')"}},
        }));
        super::run(&request.unwrap(), Effort::Brief)
    };
    assert_eq!(brief(10_000), Err(TakesLong));
    assert!(brief(20).is_ok());
}

#[test]
fn checks_whose_patterns_take_long_to_compile_are_not_evaluated_briefly() {
    let brief = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("It{number}")).collect();
        let observed: Map<_, _> = names
            .iter()
            .map(|kind| (kind.clone(), json!({"resource": {"apiVersion": "example.org/v1", "kind": kind}})))
            .collect();
        let check = r"object.kind.matches('[\\pL]{25}')";
        let checks: Map<_, Value> =
            names.iter().map(|kind| (format!("example.org_v1_{kind}"), check.into())).collect();
        let request = from_json(&json!({
            "observed": {"resources": observed}, "desired": {"resources": observed},
            "input": {"celHealthCheckCustomization": checks},
        }));
        super::run(&request.unwrap(), Effort::Brief)
    };
    assert!(brief(1).is_ok());
    assert_eq!(brief(3), Err(TakesLong));
}
