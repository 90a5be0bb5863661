//! ActionSets on a cluster: another replica continues them, and no log has the values of their Secrets.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ground::{ACTION_SETS, BLUEPRINTS, Ground, MAPS};
use super::replica::Replica;

const FLAGS: &[&str] = &["--enable-blueprints", "--lease-duration", "3s"];

fn phase(func: &str, name: &str, args: &Value) -> Value {
    json!({"func": func, "name": name, "args": args})
}

fn create(name: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    phase("KubeOps", name, &json!({"operation": "create", "spec": map.to_string()}))
}

/// Run the action of a Blueprint that has these phases.
fn begin(ground: &Ground, phases: &Value, more: &Value) {
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"},
        "actions": {"run": {"phases": phases}},
    });
    ground.create(BLUEPRINTS, &blueprint);
    let mut action = json!({"name": "run", "blueprint": "b"});
    action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": "s"},
        "spec": {"actions": [action]},
    });
    ground.create(ACTION_SETS, &set);
}

fn has_ended(set: &Value) -> bool {
    ["complete", "failed"].iter().any(|state| set["status"]["state"] == *state)
}

#[test]
fn action_set_continues_where_it_was_when_another_replica_leads() {
    let ground = Ground::new();
    let mut first = Replica::start(&ground, FLAGS);
    first.until("became the leader");
    let second = Replica::start(&ground, FLAGS);
    second.until("replica stands by");
    let reference =
        json!({"apiVersion": "v1", "resource": "configmaps", "name": "awaited", "namespace": "default"});
    let condition = json!({"condition": "true", "objectReference": reference});
    let mut wait = phase("Wait", "wait", &json!({"timeout": "1h", "conditions": {"anyOf": [condition]}}));
    wait["funcVersion"] = "v2.0.0".into();
    begin(&ground, &json!([create("before"), wait, create("after")]), &json!({}));
    let path = format!("{ACTION_SETS}/s");
    let phase_of = |set: &Value, index: usize| set["status"]["actions"][0]["phases"][index].clone();
    let waiting = ground.until(&path, |set| !phase_of(set, 1)["checkpoint"].is_null());
    let made = ground.get(&format!("{MAPS}/before"));

    first.signal(Signal::KILL);
    first.end();
    second.until("became the leader");
    let taken_over = ground.get(&path);
    assert_eq!(phase_of(&taken_over, 0), phase_of(&waiting, 0));
    let deadline = |set: &Value| phase_of(set, 1)["checkpoint"]["deadline"].clone();
    assert_eq!(deadline(&taken_over), deadline(&waiting));
    let awaited = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "awaited"}});
    ground.create(MAPS, &awaited);
    let done = ground.until(&path, has_ended);
    assert_eq!(done["status"]["state"], "complete", "{:#}", done["status"]);
    assert_eq!(phase_of(&done, 0), phase_of(&waiting, 0));
    // The phase that was complete has not run again.
    assert_eq!(ground.get(&format!("{MAPS}/before")), made);
    assert_eq!(ground.get(&format!("{MAPS}/after"))["metadata"]["name"], "after");
    second.stop();
}

/// With everything that can be logged, in a phase that works, and in one whose access is denied and audited.
#[test]
fn values_of_secrets_are_in_no_log() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const VALUE: &str = "hunter2-hunter2";
    const ENCODED: &str = "aHVudGVyMi1odW50ZXIy";
    let ground = Ground::new();
    let flags = [FLAGS, &["--log-level", "trace"]].concat();
    let replica = Replica::begin(&ground, &flags);
    let mut logged = replica.heard_until("became the leader");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": VALUE},
    });
    ground.create(SECRETS, &secret);
    let value = "{{ .Secrets.login.Data.password | toString }}";
    let copy = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "copied"}, "stringData": {"copy": value},
    });
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": value, "namespace": "crossplane-system"},
    });
    let phases = [("copy", copy), ("denied", elsewhere)].map(|(name, object)| {
        phase("KubeOps", name, &json!({"operation": "create", "spec": object.to_string()}))
    });
    begin(&ground, &json!(phases), &json!({"secrets": {"login": {"name": "login"}}}));
    let ended = ground.until(&format!("{ACTION_SETS}/s"), has_ended);
    assert_eq!(ended["status"]["errors"][0]["code"], "AccessNotGranted", "{:#}", ended["status"]);
    assert_eq!(ground.get(&format!("{SECRETS}/copied"))["data"]["copy"], ENCODED);

    logged.extend(replica.stop_hearing());
    for name in ["login", "copied"] {
        ground.send("DELETE", &format!("{SECRETS}/{name}"), &Value::Null);
    }
    let is_about_it = |line: &&String| line.contains("denied access to an object");
    let audited: Vec<_> = logged.iter().filter(is_about_it).collect();
    assert!(audited.iter().any(|line| line.contains("crossplane-system/***")), "{audited:#?}");
    for line in &logged {
        assert!(!line.contains(VALUE) && !line.contains(ENCODED), "{line}");
    }
}
