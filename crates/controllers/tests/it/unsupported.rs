//! What objects say of themselves that nothing acts on, and what Functions say.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferroplane_api::{NOT_SUPPORTED, UNSUPPORTED};
use ferroplane_controllers::Clock;
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use crate::composition::said;

const PKG: &str = "/apis/pkg.crossplane.io/v1";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn package(kind: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"package": format!("registry.example/{image}")},
    })
}

/// Wait until a condition of an object is this. Returns the object.
async fn until(plane: &Plane, path: &str, kind: &str, wanted: &str) -> Value {
    plane.until(path, |object| condition(object, kind).as_deref() == Some(wanted)).await
}

fn of_type(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap().clone()
}

#[tokio::test]
async fn object_that_nothing_acts_on_says_so_in_conditions_and_an_event() {
    let plane = Plane::new().await;
    let path = format!("{PKG}/providers/p");
    plane.apply(&path, &package("Provider", "p", "acme/provider:v1.0.0")).await;
    let provider = until(&plane, &path, "Installed", "False/NotSupported").await;
    for kind in ["Installed", "Healthy"] {
        let condition = of_type(&provider, kind);
        assert_eq!(condition["code"], "KindNotSupported", "{condition}");
        assert!(
            condition["message"].as_str().unwrap().contains("`ferroplane start --enable-packages` does"),
            "{condition}"
        );
    }
    let event = said(&plane, "Warning", "NotSupported").await;
    assert_eq!(event["metadata"]["annotations"]["ferroplane.io/cause"], "KindNotSupported");
    assert_eq!(event["involvedObject"]["kind"], "Provider");
}

/// The least that an object of a kind has to say, besides its name.
fn minimal(kind: &str) -> Value {
    let image = "registry.example/acme/package:v1.0.0";
    let pipeline =
        json!({"mode": "Pipeline", "pipeline": [{"step": "one", "functionRef": {"name": "function-dummy"}}]});
    match kind {
        "Provider" | "Configuration" => json!({"spec": {"package": image}}),
        "ProviderRevision" | "ConfigurationRevision" => {
            json!({"spec": {"desiredState": "Active", "image": image, "revision": 1}})
        }
        "DeploymentRuntimeConfig" => json!({"spec": {}}),
        "ImageConfig" => json!({"spec": {"matchImages": [{"prefix": "registry.example"}]}}),
        "Lock" => json!({"packages": []}),
        "ManagedResourceDefinition" => json!({"spec": {
            "group": "example.org", "names": {"kind": "Bucket", "plural": "buckets"}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true}],
        }}),
        "ManagedResourceActivationPolicy" => json!({"spec": {"activate": ["*"]}}),
        "Operation" => json!({"spec": pipeline}),
        "CronOperation" => {
            json!({"spec": {"schedule": "0 0 1 1 *", "operationTemplate": {"spec": pipeline}}})
        }
        "WatchOperation" => json!({"spec": {
            "watch": {"apiVersion": "v1", "kind": "ConfigMap"}, "operationTemplate": {"spec": pipeline},
        }}),
        "ActionSet" => json!({"spec": {"actions": [{"name": "backup", "blueprint": "b"}]}}),
        kind => panic!("nothing here says what a {kind} needs"),
    }
}

#[tokio::test]
async fn every_kind_that_nothing_acts_on_is_told() {
    let mut plane = Plane::new().await;
    plane.stop().await;
    (plane.runs_operations, plane.runs_actions) = (false, false);
    plane.clock = ahead(jiff::SignedDuration::from_mins(2));
    plane.start().await;
    for row in UNSUPPORTED {
        let mut object = minimal(row.kind);
        object["apiVersion"] = row.api_version().into();
        object["kind"] = row.kind.into();
        object["metadata"] = json!({"name": "o"});
        let namespace = if row.is_namespaced { "namespaces/default/" } else { "" };
        let path = format!("/apis/{}/{namespace}{}/o", row.api_version(), row.plural);
        plane.apply(&path, &object).await;
        for kind in row.conditions {
            let object = until(&plane, &path, kind, "False/NotSupported").await;
            let condition = of_type(&object, kind);
            assert_eq!(condition["code"], "KindNotSupported", "{}: {condition}", row.kind);
            assert_eq!(condition["message"], row.message(), "{}", row.kind);
        }
        // Some have no status: only an event can say it.
        let is_it = |event: &Value| {
            event["involvedObject"]["kind"] == row.kind
                && event["type"] == "Warning"
                && event["reason"] == NOT_SUPPORTED
                && event["metadata"]["annotations"]["ferroplane.io/cause"] == "KindNotSupported"
        };
        let is_said = |list: &Value| list["items"].as_array().into_iter().flatten().any(is_it);
        plane.until(EVENTS, is_said).await;
    }
}

/// A clock that goes ahead of the one of the API server.
fn ahead(by: jiff::SignedDuration) -> Clock {
    Clock::new(move || jiff::Timestamp::now() + by)
}

fn action_set(name: &str) -> Value {
    let mut object = minimal("ActionSet");
    object["apiVersion"] = "cr.kanister.io/v1alpha1".into();
    object["kind"] = "ActionSet".into();
    object["metadata"] = json!({"name": name});
    object
}

fn action_set_path(name: &str) -> String {
    format!("/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets/{name}")
}

/// Whether an event says that nothing acts on an object.
fn is_told(events: &Value, name: &str) -> bool {
    let mut events = events["items"].as_array().into_iter().flatten();
    events.any(|event| event["involvedObject"]["name"] == name && event["reason"] == NOT_SUPPORTED)
}

#[tokio::test]
async fn action_set_that_kanister_has_run_is_not_said_to_be_left_alone() {
    let mut plane = Plane::new().await;
    plane.stop().await;
    let mut theirs = action_set("theirs");
    theirs["status"] = json!({"state": "complete"});
    plane.apply(&action_set_path("theirs"), &theirs).await;
    plane.runs_actions = false;
    plane.clock = ahead(jiff::SignedDuration::from_mins(2));
    plane.start().await;
    // When the second one is told, the one that was there before has been looked at.
    for name in ["left", "later"] {
        plane.apply(&action_set_path(name), &action_set(name)).await;
        plane.until(EVENTS, |list| is_told(list, name)).await;
    }
    assert!(!is_told(&plane.get(EVENTS).await, "theirs"));
}

#[tokio::test]
async fn action_set_whose_status_kanister_writes_after_its_creation_is_not_said_to_be_left_alone() {
    let mut plane = Plane::new().await;
    plane.stop().await;
    plane.runs_actions = false;
    let minutes = Arc::new(AtomicI64::new(0));
    let passed = minutes.clone();
    let since = move || jiff::SignedDuration::from_mins(passed.load(Ordering::Relaxed));
    plane.clock = Clock::new(move || jiff::Timestamp::now() + since());
    plane.start().await;
    plane.apply(&action_set_path("theirs"), &action_set("theirs")).await;
    // Controllers have looked at it without a status.
    plane.quiet().await;
    plane.merge(&action_set_path("theirs"), &json!({"status": {"state": "running"}})).await;
    minutes.store(2, Ordering::Relaxed);
    for name in ["left", "later"] {
        plane.apply(&action_set_path(name), &action_set(name)).await;
        plane.until(EVENTS, |list| is_told(list, name)).await;
    }
    assert!(!is_told(&plane.get(EVENTS).await, "theirs"));
}

#[tokio::test]
async fn action_set_without_a_status_is_told_when_nobody_has_written_one_for_a_minute() {
    let mut plane = Plane::new().await;
    plane.stop().await;
    plane.runs_actions = false;
    // The rest of the minute passes.
    plane.clock = ahead(jiff::SignedDuration::from_secs(58));
    plane.start().await;
    plane.apply(&action_set_path("left"), &action_set("left")).await;
    plane.until(EVENTS, |list| is_told(list, "left")).await;
}

#[tokio::test]
async fn function_says_what_is_called_in_its_place() {
    let plane = Plane::new().await;
    let cases = [
        (
            "crossplane-contrib/function-auto-ready:v0.5.0",
            "",
            "True/BuiltIn",
            "The function is built in: `function-auto-ready`",
        ),
        (
            "crossplane-contrib/function-auto-ready:v99.0.0",
            "",
            "False/FunctionNotRunnable",
            "`registry.example/crossplane-contrib/function-auto-ready:v99.0.0`",
        ),
        (
            "acme/function-own:v1.0.0",
            "",
            "False/FunctionNotRunnable",
            "this control plane installs no packages (`ferroplane up` does, and `ferroplane start --enable-packages`), and no \
             built-in function does what it does",
        ),
        ("acme/function-own:v1.0.0", "Development", "True/Development", "is called at localhost:9443"),
    ];
    for (place, (image, runtime, wanted, words)) in cases.into_iter().enumerate() {
        let path = format!("{PKG}/functions/f{place}");
        let mut function = package("Function", &format!("f{place}"), image);
        if !runtime.is_empty() {
            function["metadata"]["annotations"] = json!({"render.crossplane.io/runtime": runtime});
        }
        plane.apply(&path, &function).await;
        let function = until(&plane, &path, "Healthy", wanted).await;
        let message = of_type(&function, "Healthy")["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn what_a_package_manager_has_written_stays() {
    let plane = Plane::new().await;
    let path = format!("{PKG}/providers/theirs");
    plane.apply(&path, &package("Provider", "theirs", "acme/provider:v1.0.0")).await;
    until(&plane, &path, "Healthy", "False/NotSupported").await;
    let healthy = json!({
        "type": "Healthy", "status": "True", "reason": "HealthyPackageRevision", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    plane.merge(&format!("{path}/status"), &json!({"status": {"conditions": [healthy]}})).await;
    plane.apply(&path, &package("Provider", "theirs", "acme/provider:v2.0.0")).await;
    // Whoever comes later is told, so that the change before has been checked.
    let other = format!("{PKG}/providers/other");
    plane.apply(&other, &package("Provider", "other", "acme/provider:v1.0.0")).await;
    until(&plane, &other, "Healthy", "False/NotSupported").await;
    let theirs = plane.get(&path).await;
    assert_eq!(theirs["status"]["conditions"], json!([healthy]));
}

/// A Function with a command that no program was started for.
fn commanded(name: &str, image: &str) -> Value {
    let mut function = package("Function", name, image);
    function["metadata"]["annotations"] = json!({"render.ferroplane.io/command": "./run"});
    function
}

#[tokio::test]
async fn function_says_that_its_command_is_not_run_until_it_names_none() {
    let plane = Plane::new().await;
    let path = format!("{PKG}/functions/mine");
    let image = "crossplane-contrib/function-auto-ready:v0.5.0";
    plane.apply(&path, &package("Function", "mine", image)).await;
    until(&plane, &path, "Healthy", "True/BuiltIn").await;

    plane.apply(&path, &commanded("mine", image)).await;
    let function = until(&plane, &path, "Healthy", "False/CommandNotRun").await;
    let healthy = of_type(&function, "Healthy");
    assert_eq!(healthy["code"], "FunctionNotConnectable");
    assert!(healthy["message"].as_str().unwrap().contains("--allow-commands"), "{healthy}");
    assert_eq!(function["status"]["conditions"], json!([healthy]), "nothing installs a program");

    plane.apply(&path, &package("Function", "mine", image)).await;
    let function = until(&plane, &path, "Healthy", "True/BuiltIn").await;
    assert_eq!(condition(&function, "Installed").as_deref(), Some("True/BuiltIn"));
}

#[tokio::test]
async fn command_of_a_function_with_a_revision_has_no_effect_and_an_event_says_so() {
    let plane = Plane::new().await;
    let image = "registry.example/acme/function-own:v1.0.0";
    let revision = format!("{PKG}/functionrevisions/mine-1");
    let object = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
        "metadata": {"name": "mine-1", "labels": {"pkg.crossplane.io/package": "mine"}},
        "spec": {"desiredState": "Active", "image": image, "revision": 1},
    });
    plane.apply(&revision, &object).await;
    let path = format!("{PKG}/functions/mine");
    plane.apply(&path, &commanded("mine", "acme/function-own:v1.0.0")).await;
    until(&plane, &path, "Healthy", "False/FunctionNotRunnable").await;
    plane.until_said("mine", "Warning/CommandNotRun: ").await;
    plane.merge(&format!("{revision}/status"), &json!({"status": {"endpoint": "127.0.0.1:9443"}})).await;
    until(&plane, &path, "Healthy", "True/RevisionActive").await;
    plane.until_said("mine", "Normal/CommandNotRun: ").await;
    let events = plane.events("mine").await;
    let is_about_up = |event: &&String| event.contains("CommandNotRun") && event.contains("ferroplane up");
    assert_eq!(events.iter().find(is_about_up), None, "not every control plane is one of `up`");
}

/// It is in a manifest that `render` uses, too.
#[tokio::test]
async fn command_of_a_function_that_is_served_without_it_is_no_warning_at_any_start() {
    let mut plane = Plane::new().await;
    let image = "registry.example/acme/function-own:v1.0.0";
    let revision = format!("{PKG}/functionrevisions/mine-1");
    let object = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
        "metadata": {"name": "mine-1", "labels": {"pkg.crossplane.io/package": "mine"}},
        "spec": {"desiredState": "Active", "image": image, "revision": 1},
    });
    plane.apply(&revision, &object).await;
    plane.merge(&format!("{revision}/status"), &json!({"status": {"endpoint": "127.0.0.1:9443"}})).await;
    plane.apply(&format!("{PKG}/functions/mine"), &commanded("mine", "acme/function-own:v1.0.0")).await;
    plane.until_said("mine", "Normal/CommandNotRun: ").await;
    plane.restart().await;
    // It is listed before one that comes later.
    let other = format!("{PKG}/functions/other");
    plane.apply(&other, &commanded("other", "acme/function-own:v1.0.0")).await;
    until(&plane, &other, "Healthy", "False/CommandNotRun").await;
    let events = plane.events("mine").await;
    assert!(!events.iter().any(|event| event.starts_with("Warning/CommandNotRun")), "{events:?}");
}

#[tokio::test]
async fn what_we_said_of_a_command_goes_with_it_where_a_package_manager_speaks_for_the_function() {
    let plane = Plane::new().await;
    let path = format!("{PKG}/functions/theirs");
    plane.apply(&path, &commanded("theirs", "acme/function-own:v1.0.0")).await;
    until(&plane, &path, "Healthy", "False/CommandNotRun").await;
    let installed = json!({
        "type": "Installed", "status": "True", "reason": "ActivePackageRevision", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    plane.merge(&format!("{path}/status"), &json!({"status": {"conditions": [installed]}})).await;
    until(&plane, &path, "Healthy", "False/CommandNotRun").await;
    plane.apply(&path, &package("Function", "theirs", "acme/function-own:v1.0.0")).await;
    plane.until(&path, |function| function["status"]["conditions"] == json!([installed])).await;
}
