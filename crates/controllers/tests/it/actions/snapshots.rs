//! The shape of published Blueprints for CSI snapshots: stop the workload, take a snapshot, start the workload in any case; restore and
//! delete by what the backup left.

use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS, DEPLOYMENTS, phase, until_state};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// The kind that a snapshot controller brings.
async fn define_snapshots(plane: &Plane) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let names = json!({"kind": "VolumeSnapshot", "listKind": "VolumeSnapshotList", "plural": "volumesnapshots", "singular": "volumesnapshot"});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let name = "volumesnapshots.snapshot.storage.k8s.io";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": "snapshot.storage.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    });
    let path = format!("{DEFINITIONS}/{name}");
    plane.apply(&path, &definition).await;
    plane.until(&path, |it| condition(it, "Established").is_some_and(|is| is.starts_with("True"))).await;
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn deployment() -> Value {
    let labels = json!({"app": "db"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "registry.example/none"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "db"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod},
    })
}

fn blueprint() -> Value {
    let scale = |name: &str, replicas: &str| {
        phase("ScaleWorkload", name, &json!({"replicas": replicas, "waitForReady": false}))
    };
    let take = json!({"pvc": "{{ .Options.pvc }}", "namespace": "{{ .Deployment.Namespace }}", "snapshotClass": "fast"});
    let taken = |field: &str| format!("{{{{ .Phases.take.Output.{field} }}}}");
    let given = |field: &str| format!("{{{{ .ArtifactsIn.snapshot.KeyValue.{field} }}}}");
    let backup = json!({
        "kind": "Deployment",
        "phases": [scale("stop", "0"), phase("CreateCSISnapshot", "take", &take)],
        "deferPhase": scale("start", "{{ .Phases.stop.Output.originalReplicaCount }}"),
        "outputArtifacts": {"snapshot": {"keyValue": {
            "name": taken("name"), "namespace": taken("namespace"), "size": taken("restoreSize"),
        }}},
    });
    let back = json!({
        "name": given("name"), "namespace": given("namespace"), "restoreSize": given("size"),
        "pvc": "{{ .Options.pvc }}", "storageClass": "fast",
    });
    let delete = json!({"name": given("name"), "namespace": given("namespace")});
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "snapshots"},
        "actions": {
            "backup": backup,
            "restore": {"inputArtifactNames": ["snapshot"], "phases": [phase("RestoreCSISnapshot", "back", &back)]},
            "delete": {"inputArtifactNames": ["snapshot"], "phases": [phase("DeleteCSISnapshot", "delete", &delete)]},
        },
    })
}

/// Begin an action. The ActionSet is named after it.
async fn begin(plane: &Plane, action: &str, more: &Value) {
    let mut whole = json!({"name": action, "blueprint": "snapshots"});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": action},
        "spec": {"actions": [whole]},
    });
    plane.apply(&format!("{ACTION_SETS}/{action}"), &set).await;
}

#[tokio::test]
async fn workload_is_stopped_for_a_snapshot_which_is_restored_and_deleted() {
    let plane = Plane::new().await;
    define_snapshots(&plane).await;
    plane.apply(&format!("{DEPLOYMENTS}/db"), &deployment()).await;
    plane.apply(&format!("{CLAIMS}/data"), &claim("data")).await;
    plane.apply(&format!("{BLUEPRINTS}/snapshots"), &blueprint()).await;

    let object = json!({"kind": "Deployment", "name": "db", "namespace": "default"});
    begin(&plane, "backup", &json!({"object": object, "options": {"pvc": "data"}})).await;
    let taken = plane.until(SNAPSHOTS, |it| it["items"].as_array().is_some_and(|all| all.len() == 1)).await;
    let snapshot = &taken["items"][0];
    assert_eq!(snapshot["spec"]["source"]["persistentVolumeClaimName"], "data");
    assert_eq!(plane.get(&format!("{DEPLOYMENTS}/db")).await["spec"]["replicas"], 0);
    // The snapshot controller does its work.
    let name = snapshot["metadata"]["name"].as_str().unwrap();
    let status =
        json!({"status": {"readyToUse": true, "restoreSize": "1Gi", "boundVolumeSnapshotContentName": "c"}});
    plane.merge(&format!("{SNAPSHOTS}/{name}"), &status).await;
    let done = until_state(&plane, "backup", "complete").await;
    assert_eq!(plane.get(&format!("{DEPLOYMENTS}/db")).await["spec"]["replicas"], 3);
    let artifacts = &done["status"]["actions"][0]["artifacts"];
    let left = &artifacts["snapshot"]["keyValue"];
    assert_eq!(*left, json!({"name": name, "namespace": "default", "size": "1Gi"}));

    begin(&plane, "restore", &json!({"artifacts": artifacts, "options": {"pvc": "restored"}})).await;
    until_state(&plane, "restore", "complete").await;
    let restored = plane.get(&format!("{CLAIMS}/restored")).await;
    assert_eq!(restored["spec"]["dataSource"]["name"], name, "{restored:#}");

    begin(&plane, "delete", &json!({"artifacts": artifacts})).await;
    until_state(&plane, "delete", "complete").await;
    assert_eq!(plane.get(&format!("{SNAPSHOTS}/{name}")).await, Value::Null);
}
