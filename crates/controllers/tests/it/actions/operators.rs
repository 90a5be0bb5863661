//! The shape of published Blueprints for operators: ask the operator for a backup by an object of its kind, wait until it says that the
//! backup is done, note that on the database, and have it delete the backup.

use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS, message, phase, until_state};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "databases.example.org";
const NOTE: &str = "databases.example.org/last-backup";
const DATABASES: &str = "/apis/databases.example.org/v1/namespaces/default/databases";
const BACKUPS: &str = "/apis/databases.example.org/v1/namespaces/default/databasebackups";

/// The kinds that the operator brings.
async fn define(plane: &Plane) {
    for (kind, plural) in [("Database", "databases"), ("DatabaseBackup", "databasebackups")] {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        });
        let singular = kind.to_lowercase();
        let names =
            json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular});
        let name = format!("{plural}.{GROUP}");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
        });
        let path = format!("{DEFINITIONS}/{name}");
        plane.apply(&path, &definition).await;
        plane.until(&path, |it| condition(it, "Established").is_some_and(|is| is.starts_with("True"))).await;
    }
}

/// A plane with a database that the operator runs, and the Blueprint for such databases.
async fn plane_with_database() -> Plane {
    let plane = Plane::new().await;
    define(&plane).await;
    let database = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Database", "metadata": {"name": "orders"},
        "spec": {"storage": {"bucket": "backups"}, "paused": true},
    });
    plane.apply(&format!("{DATABASES}/orders"), &database).await;
    plane.apply(&format!("{BLUEPRINTS}/operators"), &blueprint()).await;
    plane
}

/// A phase that notes a backup on the database, and removes a field of it.
fn note(name: &str, version: &str, backup: &str, kind: Option<&str>) -> Value {
    let database = json!({
        "apiVersion": "v1", "group": GROUP, "resource": "databases", "name": "{{ .Object.metadata.name }}",
        "namespace": "{{ .Object.metadata.namespace }}",
    });
    let patch = json!({"metadata": {"annotations": {NOTE: backup}}, "spec": {"paused": null}});
    let mut args = json!({"operation": "patch", "objectReference": database, "spec": patch});
    if let Some(kind) = kind {
        args["patchType"] = kind.into();
    }
    let mut phase = phase("KubeOps", name, &args);
    phase["funcVersion"] = version.into();
    phase
}

fn blueprint() -> Value {
    let moment = "{{ toDate \"2006-01-02T15:04:05.999999999Z07:00\" .Time | date \"20060102150405\" }}";
    let wanted = format!(
        "apiVersion: {GROUP}/v1\nkind: DatabaseBackup\n\
         metadata: {{name: \"{{{{ .Object.metadata.name }}}}-{moment}\"}}\n\
         spec:\n  database: {{{{ .Object.metadata.name | quote }}}}\n  storage: {{{{ toJson .Object.spec.storage }}}}\n"
    );
    let ask = json!({"operation": "create", "namespace": "{{ .Object.metadata.namespace }}", "spec": wanted});
    let made = |field: &str| format!("{{{{ .Phases.ask.Output.{field} }}}}");
    let backup = json!({
        "apiVersion": made("apiVersion"), "group": made("group"), "resource": made("resource"), "name": made("name"),
        "namespace": made("namespace"),
    });
    let is_done = json!({
        "condition": "{{ if eq \"{ $.status.state }\" \"Done\" }}true{{ else }}false{{ end }}", "objectReference": backup,
    });
    let wait = json!({"timeout": "1h", "conditions": {"anyOf": [is_done]}});
    let given = |field: &str| format!("{{{{ .ArtifactsIn.backup.KeyValue.{field} }}}}");
    let drop = json!({"operation": "delete", "objectReference": {
        "apiVersion": "v1", "group": GROUP, "resource": "databasebackups", "name": given("name"),
        "namespace": given("namespace"),
    }});
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "operators"},
        "actions": {
            "backup": {
                "phases": [phase("KubeOps", "ask", &ask), phase("Wait", "wait", &wait), note("note", "v0.1.0", &made("name"), None)],
                "outputArtifacts": {"backup": {"keyValue": {
                    "name": made("name"), "namespace": made("namespace"), "at": "{{ .Time }}",
                }}},
            },
            "delete": {"inputArtifactNames": ["backup"], "phases": [phase("KubeOps", "drop", &drop)]},
            "first-version": {"phases": [note("note-first", "v0.0.0", "none", None)]},
            "strategic": {"phases": [note("note-strategic", "v0.1.0", "none", Some("strategic"))]},
        },
    })
}

/// Begin an action of the database. The ActionSet is named after it.
async fn begin(plane: &Plane, action: &str, artifacts: &Value) {
    let object = json!({
        "apiVersion": "v1", "group": GROUP, "resource": "databases", "name": "orders", "namespace": "default",
    });
    let whole = json!({"name": action, "blueprint": "operators", "object": object, "artifacts": artifacts});
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": action},
        "spec": {"actions": [whole]},
    });
    plane.apply(&format!("{ACTION_SETS}/{action}"), &set).await;
}

#[tokio::test]
async fn operator_is_asked_for_a_backup_which_is_waited_for_noted_and_deleted() {
    let plane = plane_with_database().await;
    begin(&plane, "backup", &json!({})).await;
    let asked = plane.until(BACKUPS, |it| it["items"].as_array().is_some_and(|all| all.len() == 1)).await;
    let backup = &asked["items"][0];
    assert_eq!(backup["spec"], json!({"database": "orders", "storage": {"bucket": "backups"}}));
    let name = backup["metadata"]["name"].as_str().unwrap();
    // The operator does its work.
    for state in ["Running", "Done"] {
        let is_noted = |it: &Value| it["metadata"]["annotations"].get(NOTE).is_some();
        assert!(!is_noted(&plane.get(&format!("{DATABASES}/orders")).await));
        plane.merge(&format!("{BACKUPS}/{name}/status"), &json!({"status": {"state": state}})).await;
    }
    let done = until_state(&plane, "backup", "complete").await;
    let database = plane.get(&format!("{DATABASES}/orders")).await;
    assert_eq!(database["metadata"]["annotations"][NOTE], name);
    assert_eq!(database["spec"], json!({"storage": {"bucket": "backups"}}), "the patch was merged");
    let artifacts = &done["status"]["actions"][0]["artifacts"];
    let left = &artifacts["backup"]["keyValue"];
    let moment: String = left["at"].as_str().unwrap()[..19].chars().filter(char::is_ascii_digit).collect();
    assert_eq!((&left["name"], name), (&json!(name), format!("orders-{moment}").as_str()));

    begin(&plane, "delete", artifacts).await;
    until_state(&plane, "delete", "complete").await;
    assert_eq!(plane.get(&format!("{BACKUPS}/{name}")).await, Value::Null);
}

/// What v0.1.0 does instead, if no type is named, is in the test before this one.
#[tokio::test]
async fn strategic_patch_of_a_custom_resource_fails_with_the_words_of_the_api_server() {
    let plane = plane_with_database().await;
    for action in ["first-version", "strategic"] {
        begin(&plane, action, &json!({})).await;
        let failed = until_state(&plane, action, "failed").await;
        let said = message(&failed);
        assert!(said.contains("the body of the request was in an unknown format"), "{said}");
    }
    assert_eq!(plane.get(&format!("{DATABASES}/orders")).await["spec"]["paused"], true);
}
