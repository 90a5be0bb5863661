//! Blueprints and ActionSets, from manifest to what their phases do.

mod deletion;
mod fields;
mod forged;
pub(crate) mod log_records;
mod masses;
mod operations;
mod operators;
mod recorded;
mod refusals;
mod scaling;
mod sizes;
mod snapshots;
mod versions;

use std::time::{Duration, Instant};

use ferroplane_testkit::FunctionServer;
use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_wire::v1::RunFunctionRequest;
use http::Method;
use serde_json::{Value, json};

const BLUEPRINTS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/blueprints";
const ACTION_SETS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn blueprint(name: &str, action: &Value) -> Value {
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": name},
        "actions": {"backup": action},
    })
}

fn action_set(name: &str, action: &Value) -> Value {
    let mut whole = json!({"name": "backup", "blueprint": "b"});
    whole.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": name},
        "spec": {"actions": [whole]},
    })
}

fn phase(func: &str, name: &str, args: &Value) -> Value {
    json!({"func": func, "name": name, "args": args})
}

/// A phase that creates a ConfigMap.
fn create(name: &str, map: &str) -> Value {
    phase("KubeOps", name, &json!({"operation": "create", "spec": config_map(map)}))
}

/// The text of a ConfigMap.
fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
        .to_string()
}

/// A phase that waits until the ConfigMap `gate` is open.
fn wait(name: &str, timeout: &str) -> Value {
    let condition = json!({
        "condition": "{{ eq .data.open \"yes\" }}",
        "objectReference": {"apiVersion": "v1", "resource": "configmaps", "name": "gate", "namespace": "default"},
    });
    phase("WaitV2", name, &json!({"timeout": timeout, "conditions": {"anyOf": [condition]}}))
}

async fn set_gate(plane: &Plane, open: &str) {
    let gate = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}, "data": {"open": open}});
    plane.apply(&format!("{MAPS}/gate"), &gate).await;
}

async fn until_state(plane: &Plane, name: &str, state: &str) -> Value {
    plane.until(&format!("{ACTION_SETS}/{name}"), |it| it["status"]["state"] == state).await
}

/// Run an action with a Blueprint, and wait until it ended like this.
async fn run(plane: &Plane, action: &Value, spec: &Value, state: &str) -> Value {
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", action)).await;
    plane.apply(&format!("{ACTION_SETS}/s"), &action_set("s", spec)).await;
    until_state(plane, "s", state).await
}

fn message(action_set: &Value) -> &str {
    action_set["status"]["error"]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn action_set_runs_phases_in_order_and_leaves_artifacts() {
    let plane = Plane::new().await;
    let delete = json!({
        "operation": "delete",
        "objectReference": {
            "apiVersion": "{{ .Phases.make.Output.apiVersion }}", "group": "{{ .Phases.make.Output.group }}",
            "resource": "{{ .Phases.make.Output.resource }}", "name": "{{ .Phases.make.Output.name }}",
            "namespace": "{{ .Phases.make.Output.namespace }}",
        },
    });
    let action = json!({
        "phases": [create("make", "{{ .Options.map }}"), create("keep", "kept"), phase("KubeOps", "drop", &delete)],
        "outputArtifacts": {"made": {"keyValue": {"name": "{{ .Phases.make.Output.name }}", "at": "{{ .Time }}"}}},
    });
    let done = run(&plane, &action, &json!({"options": {"map": "made"}}), "complete").await;
    let status = &done["status"];
    assert_eq!(status["progress"]["percentCompleted"], "100");
    assert_eq!(status["progress"].get("runningPhase"), None);
    assert_eq!(status["actions"][0]["artifacts"]["made"]["keyValue"]["name"], "made");
    assert_eq!(status["actions"][0]["phases"][0]["function"]["version"], "v0.1.0");
    assert_eq!(condition(&done, "Succeeded").as_deref(), Some("True/ActionsComplete"));
    assert_eq!(plane.get(&format!("{MAPS}/made")).await, Value::Null);
    assert_eq!(plane.get(&format!("{MAPS}/kept")).await["data"]["k"], "v");
    plane.until_said("s", "UpdateComplete").await;
    // Done is done, and costs nothing.
    plane.merge(&format!("{ACTION_SETS}/s"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.quiet().await;
    assert_eq!(plane.quiet().await, [""; 0]);
}

#[tokio::test]
async fn blueprint_keeps_the_versions_of_its_phases() {
    let plane = Plane::new().await;
    let mut pinned = create("make", "x");
    pinned["funcVersion"] = "0.0.0".into();
    let done =
        run(&plane, &json!({"phases": [pinned]}), &json!({"preferredVersion": "v0.1.0"}), "complete").await;
    assert_eq!(
        plane.get(&format!("{BLUEPRINTS}/b")).await["actions"]["backup"]["phases"][0]["funcVersion"],
        "0.0.0"
    );
    assert_eq!(done["status"]["actions"][0]["phases"][0]["function"]["version"], "v0.0.0");
}

#[tokio::test]
async fn blueprint_that_cannot_run_is_refused_with_the_reason_and_warned_about_otherwise() {
    let plane = Plane::new().await;
    if plane.is_real() {
        // It does not ask the advisor, which is what refuses and warns.
        return;
    }
    let refusal = async |action: Value| {
        let path = format!("{BLUEPRINTS}/b?fieldManager=user&force=true");
        let (code, answer) =
            plane.send(Method::PATCH, &path, "application/apply-patch+yaml", &blueprint("b", &action)).await;
        assert!(code >= 400, "{code} {answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    let mut apply = phase("KubeOps", "p", &json!({"operation": "create", "spec": "x", "patchType": "merge"}));
    apply["funcVersion"] = "v0.0.0".into();
    let refused = refusal(json!({"phases": [apply]})).await;
    assert!(refused.contains("patchType") && refused.contains("`KubeOps` v0.0.0"), "{refused}");
    let refused = refusal(json!({"phases": [phase("KubeOps", "p", &json!({}))]})).await;
    assert!(refused.contains("operation") && refused.contains("actions.backup.phases[0]"), "{refused}");
    let refused = refusal(json!({"phases": [create("p", "x"), create("p", "y")]})).await;
    assert!(refused.contains("unique"), "{refused}");
    let refused = refusal(json!({"phases": [phase("function-auto-ready", "p", &json!({}))]})).await;
    assert!(refused.contains("cannot be called by phases"), "{refused}");
    let refused =
        refusal(json!({"phases": [create("p", "x")], "deferPhase": phase("Nope", "q", &json!({}))})).await;
    assert!(refused.contains("`Nope`") && refused.contains("deferPhase"), "{refused}");
    let mut banana = create("p", "x");
    banana["funcVersion"] = "banana".into();
    assert!(refusal(json!({"phases": [banana]})).await.contains("banana"));

    let mut unknown = create("p", "x");
    unknown["funcVersion"] = "v9.9.9".into();
    let warnings =
        plane.warnings(&format!("{BLUEPRINTS}/b"), &blueprint("b", &json!({"phases": [unknown]}))).await;
    assert!(warnings.iter().any(|it| it.contains("v9.9.9") && it.contains("v0.0.0")), "{warnings:?}");
}

#[tokio::test]
async fn failure_is_named_and_the_defer_phase_runs_all_the_same() {
    let plane = Plane::new().await;
    plane.apply(&format!("{MAPS}/taken"), &serde_json::from_str(&config_map("taken")).unwrap()).await;
    let action = json!({
        "phases": [create("one", "first"), create("two", "taken"), create("three", "never")],
        "deferPhase": create("end", "cleaned"),
        "outputArtifacts": {"a": {"keyValue": {"k": "{{ .Phases.one.Output.name }}"}}},
    });
    let failed = run(&plane, &action, &json!({}), "failed").await;
    let actions = &failed["status"]["actions"][0];
    let states: Vec<_> =
        actions["phases"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["complete", "failed", "pending"]);
    assert_eq!(actions["deferPhase"]["state"], "complete");
    assert_eq!(actions.get("artifacts"), None);
    assert!(message(&failed).contains("phase `two`: function `KubeOps` v0.1.0"), "{}", message(&failed));
    assert_eq!(failed["metadata"].get("finalizers").and_then(Value::as_array).map_or(0, Vec::len), 0);
    assert_ne!(plane.get(&format!("{MAPS}/cleaned")).await, Value::Null);
    assert_eq!(plane.get(&format!("{MAPS}/never")).await, Value::Null);
    plane.until_said("s", "Warning/ActionSetFailed").await;
}

/// A Function that a developer serves there, once controllers know it.
async fn serve_at(plane: &Plane, name: &str, address: &str) {
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": name, "annotations": {
            "render.crossplane.io/runtime": "Development",
            "render.crossplane.io/runtime-development-target": address,
        }},
        "spec": {"package": format!("registry.example/{name}:v1")},
    });
    let path = format!("/apis/pkg.crossplane.io/v1/functions/{name}");
    plane.apply(&path, &function).await;
    plane.until(&path, |it| condition(it, "Healthy").is_some()).await;
}

/// Says where a backup goes, or fails if it is not told.
fn backup_path(request: &RunFunctionRequest) -> Value {
    let input = request.input.as_ref().unwrap().json().unwrap();
    let context = request.context.as_ref().unwrap().json().unwrap();
    let Some(bucket) = input.get("bucket").and_then(Value::as_str) else {
        return json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no bucket"}]});
    };
    let phase = &context["ferroplane.io/phase"];
    json!({"output": {"path": format!("{bucket}/{}", phase["namespace"].as_str().unwrap())}})
}

#[tokio::test]
async fn phase_calls_a_function_that_is_not_built_in() {
    let server = FunctionServer::start(|request| {
        Ok(ferroplane_wire::from_json(&backup_path(&request)).expect("a response"))
    })
    .await;
    let plane = Plane::new().await;
    serve_at(&plane, "function-backup-path", &server.address()).await;
    let path = phase("function-backup-path", "path", &json!({"bucket": "{{ .Options.bucket }}"}));
    let action = json!({
        "phases": [path, create("note", "noted")],
        "outputArtifacts": {"backup": {"keyValue": {"path": "{{ .Phases.path.Output.path }}"}}},
    });
    let done = run(&plane, &action, &json!({"options": {"bucket": "s3://b"}}), "complete").await;
    let of_action = &done["status"]["actions"][0];
    assert_eq!(of_action["artifacts"]["backup"]["keyValue"]["path"], "s3://b/default");
    assert_eq!(of_action["phases"][0]["function"]["version"], "v0.0.0");
    assert_eq!(server.calls(), 1);

    let action = json!({"phases": [phase("function-backup-path", "path", &json!({}))]});
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &action)).await;
    plane.apply(&format!("{ACTION_SETS}/t"), &action_set("t", &json!({}))).await;
    let failed = until_state(&plane, "t", "failed").await;
    assert!(
        message(&failed).ends_with("function `function-backup-path` v0.0.0: no bucket"),
        "{}",
        message(&failed)
    );
}

#[tokio::test]
async fn what_cannot_run_here_fails_before_any_phase() {
    let plane = Plane::new().await;
    let exec = phase("KubeExec", "tail", &json!({"namespace": "default", "pod": "p", "command": ["ls"]}));
    let failed = run(&plane, &json!({"phases": [create("one", "first"), exec]}), &json!({}), "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "PhaseNeedsUnmet");
    assert!(
        message(&failed).contains("phase `tail`") && message(&failed).contains("no pods"),
        "{}",
        message(&failed)
    );
    assert_eq!(plane.get(&format!("{MAPS}/first")).await, Value::Null);

    let needing = [
        ("KubeExecAll", json!({"namespace": "default", "pods": "p", "containers": "c", "command": ["ls"]})),
        ("KubeTask", json!({"image": "i", "command": ["ls"]})),
        (
            "PrepareData",
            json!({"namespace": "default", "image": "i", "command": ["ls"], "volumes": {"d": "/d"}}),
        ),
    ];
    for (function, args) in needing {
        let name = function.to_lowercase();
        let action = json!({"phases": [create("one", "first"), phase(function, "needing", &args)]});
        plane.apply(&format!("{BLUEPRINTS}/{name}"), &blueprint(&name, &action)).await;
        let own = action_set(&name, &json!({"blueprint": name}));
        plane.apply(&format!("{ACTION_SETS}/{name}"), &own).await;
        let failed = until_state(&plane, &name, "failed").await;
        assert_eq!(
            failed["status"]["errors"][0]["code"],
            "PhaseNeedsUnmet",
            "{function}: {}",
            message(&failed)
        );
        assert_eq!(plane.get(&format!("{MAPS}/first")).await, Value::Null, "{function}");
    }

    plane.apply(&format!("{ACTION_SETS}/t"), &action_set("t", &json!({"blueprint": "nope"}))).await;
    let failed = until_state(&plane, "t", "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "BlueprintNotFound");
}

#[tokio::test]
async fn phase_that_waits_costs_nothing_and_goes_on_when_its_object_changes() {
    let plane = Plane::new().await;
    set_gate(&plane, "no").await;
    let action = json!({"phases": [wait("gate", "1h"), create("after", "after")]});
    let waiting = run(&plane, &action, &json!({}), "running").await;
    assert_eq!(waiting["status"]["progress"]["runningPhase"], "gate");
    plane.quiet().await;
    assert_eq!(plane.quiet().await, [""; 0]);
    set_gate(&plane, "yes").await;
    until_state(&plane, "s", "complete").await;
    assert_ne!(plane.get(&format!("{MAPS}/after")).await, Value::Null);
}

#[tokio::test]
async fn action_set_goes_on_after_a_restart_with_its_deadline_and_its_versions() {
    let mut plane = Plane::new().await;
    set_gate(&plane, "no").await;
    let action =
        json!({"phases": [create("before", "before"), wait("gate", "1h"), create("after", "after")]});
    run(&plane, &action, &json!({}), "running").await;
    let path = format!("{ACTION_SETS}/s");
    let checkpoint = |it: &Value| it["status"]["actions"][0]["phases"][1]["checkpoint"].clone();
    let waiting = plane.until(&path, |it| !checkpoint(it).is_null()).await;
    plane.stop().await;
    set_gate(&plane, "yes").await;
    let stopped = plane.get(&path).await;
    assert_eq!(checkpoint(&stopped)["deadline"], checkpoint(&waiting)["deadline"]);
    plane.start().await;
    until_state(&plane, "s", "complete").await;
    assert_ne!(plane.get(&format!("{MAPS}/after")).await, Value::Null);
}

#[tokio::test]
async fn blueprint_that_changes_does_not_change_what_runs() {
    let mut plane = Plane::new().await;
    set_gate(&plane, "no").await;
    let action = |map: &str| json!({"phases": [wait("gate", "1h"), create("after", map)], "deferPhase": create("end", "end")});
    run(&plane, &action("first"), &json!({}), "running").await;
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &action("second"))).await;
    set_gate(&plane, "yes").await;
    until_state(&plane, "s", "complete").await;
    assert_ne!(plane.get(&format!("{MAPS}/first")).await, Value::Null);
    // After a restart only the new one is there: nothing else of it runs but its end.
    plane.delete(&format!("{MAPS}/end")).await;
    set_gate(&plane, "no").await;
    plane.apply(&format!("{ACTION_SETS}/t"), &action_set("t", &json!({}))).await;
    until_state(&plane, "t", "running").await;
    plane.stop().await;
    set_gate(&plane, "yes").await;
    let mut third = action("third");
    third["deferPhase"] = wait("end", "1h");
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &third)).await;
    plane.start().await;
    let failed = until_state(&plane, "t", "failed").await;
    assert!(message(&failed).contains("was changed while the action ran"), "{}", message(&failed));
    let end = &failed["status"]["actions"][0]["deferPhase"];
    assert_eq!((&end["state"], &end["function"]["name"]), (&json!("complete"), &json!("WaitV2")));
    assert_eq!(plane.get(&format!("{MAPS}/third")).await, Value::Null);
}

#[tokio::test]
async fn deleted_action_set_runs_its_defer_phase_and_goes() {
    let plane = Plane::new().await;
    set_gate(&plane, "no").await;
    let action = json!({"phases": [wait("gate", "1h")], "deferPhase": create("end", "cleaned")});
    run(&plane, &action, &json!({}), "running").await;
    plane.delete(&format!("{ACTION_SETS}/s")).await;
    plane.until(&format!("{ACTION_SETS}/s"), Value::is_null).await;
    assert_ne!(plane.get(&format!("{MAPS}/cleaned")).await, Value::Null);
    // Without such a phase, nothing keeps it.
    run(&plane, &json!({"phases": [wait("gate", "1h")]}), &json!({}), "running").await;
    plane.delete(&format!("{ACTION_SETS}/s")).await;
    plane.until(&format!("{ACTION_SETS}/s"), Value::is_null).await;
}

#[tokio::test]
async fn cancelled_action_set_fails_and_a_paused_one_waits() {
    let plane = Plane::new().await;
    set_gate(&plane, "no").await;
    let action = json!({"phases": [wait("gate", "1h"), create("never", "never")], "deferPhase": create("end", "cleaned")});
    run(&plane, &action, &json!({}), "running").await;
    plane
        .merge(
            &format!("{ACTION_SETS}/s"),
            &json!({"metadata": {"annotations": {"ferroplane.io/cancel": "true"}}}),
        )
        .await;
    let failed = until_state(&plane, "s", "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "ActionCancelled");
    assert_ne!(plane.get(&format!("{MAPS}/cleaned")).await, Value::Null);

    let mut paused = action_set("t", &json!({}));
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    plane.apply(&format!("{ACTION_SETS}/t"), &paused).await;
    plane.quiet().await;
    assert_eq!(plane.get(&format!("{ACTION_SETS}/t")).await.get("status"), None);
    plane
        .merge(
            &format!("{ACTION_SETS}/t"),
            &json!({"metadata": {"annotations": {"crossplane.io/paused": null}}}),
        )
        .await;
    until_state(&plane, "t", "running").await;
}

#[tokio::test]
async fn action_set_that_is_cancelled_before_it_begins_runs_no_phase() {
    let plane = Plane::new().await;
    let action = json!({"phases": [create("one", "one")], "deferPhase": create("end", "end")});
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &action)).await;
    for (name, is_paused) in [("new", "false"), ("paused", "true")] {
        let mut cancelled = action_set(name, &json!({}));
        cancelled["metadata"]["annotations"] =
            json!({"ferroplane.io/cancel": "true", "crossplane.io/paused": is_paused});
        plane.apply(&format!("{ACTION_SETS}/{name}"), &cancelled).await;
        let ended = plane
            .until(&format!("{ACTION_SETS}/{name}"), |it| {
                ["complete", "failed"].iter().any(|state| it["status"]["state"] == *state)
            })
            .await;
        assert_eq!(ended["status"]["errors"][0]["code"], "ActionCancelled", "{ended}");
        assert_eq!(ended["status"]["actions"][0]["phases"][0]["state"], "pending", "{ended}");
        for map in ["one", "end"] {
            assert_eq!(plane.get(&format!("{MAPS}/{map}")).await, Value::Null, "{name}");
        }
    }
}

#[tokio::test]
async fn secrets_reach_functions_and_are_never_shown() {
    let plane = Plane::new().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": "hunter2-hunter2"}});
    plane.apply(&format!("{SECRETS}/login"), &secret).await;
    let own = |map: &str| {
        let spec = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": map},
            "stringData": {"copy": "{{ .Phases.copy.Secrets.login.Data.password | toString }}"},
        });
        let mut phase = phase("KubeOps", "copy", &json!({"operation": "create", "spec": spec.to_string()}));
        phase["objects"] = json!({"login": {"kind": "Secret", "name": "login", "namespace": "default"}});
        phase
    };
    let broken = phase(
        "KubeOps",
        "broken",
        &json!({
            "operation": "create",
            "spec": "{{ fail (printf \"no %s\" (.Secrets.login.Data.password | toString)) }}",
        }),
    );
    let action = json!({"phases": [own("copied"), broken]});
    let failed = run(&plane, &action, &json!({"secrets": {"login": {"name": "login"}}}), "failed").await;
    let copied = plane.get(&format!("{SECRETS}/copied")).await;
    assert_eq!(copied["data"]["copy"], "aHVudGVyMi1odW50ZXIy");
    assert!(message(&failed).contains("no ***"), "{}", message(&failed));
    let shown = failed.to_string() + &plane.events("s").await.concat();
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMi1odW50ZXIy"), "{shown}");
}

#[tokio::test]
async fn action_reaches_its_own_namespace_and_nothing_else_without_a_grant() {
    let plane = Plane::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    plane.apply("/api/v1/namespaces/other", &namespace).await;
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "other"}});
    let args = json!({"operation": "create", "spec": elsewhere.to_string()});
    let action = json!({"phases": [phase("KubeOps", "p", &args)]});
    let failed = run(&plane, &action, &json!({}), "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "AccessNotGranted");
    assert!(message(&failed).contains("change ConfigMap `other/x`"), "{}", message(&failed));
    assert_eq!(plane.get("/api/v1/namespaces/other/configmaps/x").await, Value::Null);
    plane.until_said("s", "AccessGrant").await;
    // The message has the grant that helps.
    let spec = message(&failed).split_once("would: ").unwrap().1;
    let spec: Value = serde_json::from_str(spec).unwrap();
    let grant = json!({"apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "g"}, "spec": spec});
    plane.apply("/apis/ferroplane.io/v1alpha1/accessgrants/g", &grant).await;
    let started = Instant::now();
    let mut number = 0;
    loop {
        // Controllers hear of a grant a moment after it was written.
        number += 1;
        let name = format!("again-{number}");
        plane.apply(&format!("{ACTION_SETS}/{name}"), &action_set(&name, &json!({}))).await;
        let ended = plane
            .until(&format!("{ACTION_SETS}/{name}"), |it| {
                ["complete", "failed"].iter().any(|state| it["status"]["state"] == *state)
            })
            .await;
        if ended["status"]["state"] == "complete" {
            break;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "{}", message(&ended));
    }
    assert_ne!(plane.get("/api/v1/namespaces/other/configmaps/x").await, Value::Null);

    // What an action reads is no different, and neither are roles, wherever they are.
    let stolen = json!({"secrets": {"s": {"name": "x", "namespace": "kube-system"}}});
    plane.apply(&format!("{ACTION_SETS}/u"), &action_set("u", &stolen)).await;
    let failed = until_state(&plane, "u", "failed").await;
    assert!(message(&failed).contains("read Secret `kube-system/x`"), "{}", message(&failed));
}

#[tokio::test]
async fn schedule_makes_action_sets_and_prunes_them_with_its_operations() {
    const FUNCTION: &str = "function-backup";
    let answer = |_: &ferroplane_wire::v1::RunFunctionRequest| {
        let action_set = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"generateName": "nightly-", "namespace": "default"},
            "spec": {"actions": [{"name": "backup", "blueprint": "b"}]},
        });
        ferroplane_wire::from_json(&json!({"desired": {"resources": {"it": {"resource": action_set}}}}))
            .unwrap()
    };
    let plane = Plane::with_function(FUNCTION, answer).await;
    let apply = phase("KubeOps", "apply", &json!({"operation": "apply", "spec": config_map("saved")}));
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &json!({"phases": [apply]}))).await;
    let cron = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "CronOperation", "metadata": {"name": "nightly"},
        "spec": {
            "schedule": "@every 1s", "successfulHistoryLimit": 1, "operationTemplate": {"spec": {
                "mode": "Pipeline", "pipeline": [{"step": "back-up", "functionRef": {"name": FUNCTION}}],
            }},
        },
    });
    plane.apply("/apis/ops.crossplane.io/v1alpha1/cronoperations/nightly", &cron).await;
    // Several runs make several ActionSets; those of operations that are forgotten go with them.
    let mut names = std::collections::BTreeSet::new();
    let began = Instant::now();
    loop {
        let list = plane.get(ACTION_SETS).await;
        let items = list["items"].as_array().unwrap();
        names.extend(items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()));
        if names.len() >= 4 && items.len() <= 3 {
            assert!(
                items.iter().all(|it| it["metadata"]["ownerReferences"][0]["kind"] == "Operation"),
                "{list:#}"
            );
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{names:?} {list:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    plane.until(&format!("{MAPS}/saved"), |it| !it.is_null()).await;
}
