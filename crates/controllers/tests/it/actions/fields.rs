//! Every field of Kanister's API is kept by the API server, and no other one is taken.

use ferroplane_testkit::plane::Plane;
use http::Method;
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS};

const PROFILES: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/profiles";

fn reference() -> Value {
    json!({"apiVersion": "v1", "group": "g", "resource": "things", "kind": "Thing", "name": "n", "namespace": "default"})
}

fn artifact() -> Value {
    json!({"a": {"keyValue": {"k": "v"}, "kopiaSnapshot": "s"}})
}

fn blueprint() -> Value {
    let target = json!({"apiVersion": "v1", "group": "", "resource": "configmaps", "name": "n", "namespace": "default"});
    let mut secret = reference();
    secret["kind"] = "Secret".into();
    let phase = |name: &str| {
        json!({
            "func": "KubeOps", "name": name, "funcVersion": "v0.1.0", "objects": {"o": secret},
            "args": {"operation": "get", "objectReference": target},
        })
    };
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "all"},
        "actions": {"backup": {
            "name": "backup", "kind": "Deployment", "configMapNames": ["c"], "secretNames": ["s"], "inputArtifactNames": ["a"],
            "outputArtifacts": artifact(), "phases": [phase("one")], "deferPhase": phase("last"),
        }},
    })
}

fn progress() -> Value {
    json!({
        "progressPercent": "50", "sizeDownloadedB": 1, "sizeUploadedB": 2, "estimatedDownloadSizeB": 3, "estimatedUploadSizeB": 4,
        "estimatedTimeSeconds": 5, "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

/// Paused, so that nothing but the test writes its status.
fn action_set() -> Value {
    let phase = |name: &str| json!({"name": name, "state": "running", "output": {"any": ["thing"]}, "progress": progress()});
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet",
        "metadata": {"name": "all", "annotations": {"crossplane.io/paused": "true"}},
        "spec": {"actions": [{
            "name": "backup", "blueprint": "all", "object": reference(), "artifacts": artifact(), "configMaps": {"c": reference()},
            "secrets": {"s": reference()}, "profile": reference(), "podOverride": {"hostNetwork": false}, "options": {"o": "v"},
            "preferredVersion": "v0.1.0", "podLabels": {"l": "v"}, "podAnnotations": {"a": "v"},
        }]},
        "status": {
            "state": "running", "error": {"message": "none"},
            "actions": [{
                "name": "backup", "blueprint": "all", "object": reference(), "artifacts": artifact(), "phases": [phase("one")],
                "deferPhase": phase("last"),
            }],
            "progress": {
                "runningPhase": "one", "percentCompleted": "25", "sizeDownloadedB": 1, "sizeUploadedB": 2,
                "estimatedDownloadSizeB": 3, "estimatedUploadSizeB": 4, "lastTransitionTime": "2026-01-02T03:04:05Z",
            },
        },
    })
}

fn profile() -> Value {
    let keyed = json!({"key": "k", "secret": reference()});
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Profile", "metadata": {"name": "all"},
        "location": {"type": "s3Compliant", "bucket": "b", "endpoint": "e", "prefix": "p", "region": "r"},
        "credential": {
            "type": "keyPair", "secret": reference(),
            "keyPair": {"idField": "i", "secretField": "s", "secret": reference()},
            "kopiaServerSecret": {
                "username": "u", "hostname": "h", "userPassphrase": keyed, "tlsCert": keyed, "connectOptions": {"o": 1},
            },
        },
        "skipSSLVerify": true,
    })
}

/// Whether everything that was written is in what is stored.
fn keeps(stored: &Value, written: &Value) -> bool {
    match (stored, written) {
        (Value::Object(stored), Value::Object(written)) => {
            written.iter().all(|(key, value)| stored.get(key).is_some_and(|stored| keeps(stored, value)))
        }
        (Value::Array(stored), Value::Array(written)) => {
            stored.len() == written.len() && stored.iter().zip(written).all(|(stored, it)| keeps(stored, it))
        }
        _ => stored == written,
    }
}

#[tokio::test]
async fn every_field_of_kanisters_kinds_is_kept_and_unknown_ones_are_refused() {
    let plane = Plane::new().await;
    let misspelt = ["/actions/backup/phases/0", "/spec/actions/0", "/credential"];
    let written = [(BLUEPRINTS, blueprint()), (ACTION_SETS, action_set()), (PROFILES, profile())];
    for ((path, object), misspelt) in written.into_iter().zip(misspelt) {
        let strict = format!("{path}?fieldValidation=Strict");
        let mut unknown = object.clone();
        unknown.pointer_mut(misspelt).unwrap()["nope"] = "x".into();
        let (code, answer) = plane.send(Method::POST, &strict, "application/json", &unknown).await;
        assert!(code == 400 && answer["message"].as_str().unwrap().contains("nope"), "{code} {answer:#}");
        let (code, answer) = plane.send(Method::POST, &strict, "application/json", &object).await;
        assert_eq!(code, 201, "{answer:#}");
        let stored = plane.get(&format!("{path}/all")).await;
        assert!(keeps(&stored, &object), "{stored:#}");
    }
}
