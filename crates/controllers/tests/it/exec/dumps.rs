//! The shape of published Blueprints for databases: lock the database by a command in its pod, dump it by a pod with tools, unlock it in
//! any case; load and drop the dump by what the backup left.

use ferroplane_testkit::ExecStep;
use ferroplane_testkit::plane::Plane;
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS, NODE, PODS, message, plane, pod, printed};

/// How the names of pods of KubeTask begin.
const TASK: &str = "kanister-job-";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// What the kubelet answers: commands succeed, and pods with tools print where the dump is.
fn steps(target: &str) -> Vec<ExecStep> {
    if target.starts_with("/containerLogs/") {
        let output = "###Phase-output###: {\"key\": \"path\", \"value\": \"backups/db/1\"}";
        return vec![printed(&format!("dumping\n{output}\n"))];
    }
    vec![ExecStep::Exit(0)]
}

/// A StatefulSet of which one pod runs.
async fn start_database(plane: &Plane) {
    let pod = pod("db-0");
    let template =
        json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": pod["spec"]["containers"]}});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": template},
    });
    plane.apply(&format!("{SETS}/db"), &set).await;
    plane.apply(&format!("{PODS}/db-0"), &pod).await;
    plane.merge(&format!("{PODS}/db-0/status"), &json!({"status": {"phase": "Running"}})).await;
}

fn blueprint() -> Value {
    let exec = |name: &str| {
        let args = json!({
            "namespace": "{{ .StatefulSet.Namespace }}", "pod": "{{ index .StatefulSet.Pods 0 }}",
            "container": "{{ index .StatefulSet.Containers 0 0 }}", "command": ["database", name],
        });
        json!({"func": "KubeExec", "name": name, "args": args})
    };
    let task = |name: &str, command: &str| {
        let place = json!({"nodeName": NODE, "terminationGracePeriodSeconds": 0});
        let args = json!({
            "namespace": "default", "image": "registry.example/tools", "command": ["sh", "-c", command],
            "podOverride": place,
        });
        json!({"func": "KubeTask", "name": name, "args": args})
    };
    let path = "{{ .ArtifactsIn.dump.KeyValue.path }}";
    let backup = json!({
        "kind": "StatefulSet",
        "phases": [exec("lock"), task("dump", "dump {{ .StatefulSet.Name }} to {{ .Options.path }}")],
        "deferPhase": exec("unlock"),
        "outputArtifacts": {"dump": {"keyValue": {"path": "{{ .Phases.dump.Output.path }}"}}},
    });
    let with_dump = |phase: Value| json!({"inputArtifactNames": ["dump"], "phases": [phase]});
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "dumps"},
        "actions": {
            "backup": backup,
            "restore": with_dump(task("load", &format!("load {path}"))),
            "delete": with_dump(task("drop", &format!("drop {path}"))),
        },
    })
}

/// Begin an action. The ActionSet is named after it.
async fn begin(plane: &Plane, action: &str, more: &Value) {
    let mut whole = json!({"name": action, "blueprint": "dumps"});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": action},
        "spec": {"actions": [whole]},
    });
    plane.apply(&format!("{ACTION_SETS}/{action}"), &set).await;
}

async fn begin_backup(plane: &Plane) {
    start_database(plane).await;
    plane.apply(&format!("{BLUEPRINTS}/dumps"), &blueprint()).await;
    let object = json!({"kind": "StatefulSet", "name": "db", "namespace": "default"});
    begin(plane, "backup", &json!({"object": object, "options": {"path": "backups"}})).await;
}

/// The pod whose name begins like this.
pub(super) fn task_of<'p>(pods: &'p Value, prefix: &str) -> Option<&'p Value> {
    let mut pods = pods["items"].as_array().into_iter().flatten();
    pods.find(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix)))
}

/// Wait until there is a pod of a phase whose name begins like this.
pub(super) async fn until_task(plane: &Plane, prefix: &str) -> Value {
    let pods = plane.until(PODS, |pods| task_of(pods, prefix).is_some()).await;
    task_of(&pods, prefix).unwrap().clone()
}

/// End the pod of a phase like this. Returns what its command was.
async fn end_task(plane: &Plane, ending: &str) -> Value {
    let task = until_task(plane, TASK).await;
    let name = task["metadata"]["name"].as_str().unwrap();
    plane.merge(&format!("{PODS}/{name}/status"), &json!({"status": {"phase": ending}})).await;
    task["spec"]["containers"][0]["command"][2].clone()
}

async fn until_ended(plane: &Plane, action: &str, state: &str) -> Value {
    let ended = plane.until(&format!("{ACTION_SETS}/{action}"), |it| it["status"]["state"] == state).await;
    let pods = plane.get(PODS).await;
    assert_eq!(task_of(&pods, TASK), None, "the pod of the phase is deleted");
    ended
}

#[tokio::test]
async fn database_is_dumped_while_it_is_locked_and_restored_from_the_dump() {
    let (plane, kubelet) = plane(|target| Ok(steps(target))).await;
    begin_backup(&plane).await;
    assert_eq!(end_task(&plane, "Succeeded").await, "dump db to backups");
    let done = until_ended(&plane, "backup", "complete").await;
    let artifacts = &done["status"]["actions"][0]["artifacts"];
    assert_eq!(*artifacts, json!({"dump": {"keyValue": {"path": "backups/db/1"}}}));
    let targets = kubelet.targets();
    let [lock, logs @ .., unlock] = targets.as_slice() else { panic!("{targets:#?}") };
    assert!(lock.starts_with("/exec/default/db-0/main?command=database&command=lock&"), "{lock}");
    assert!(unlock.starts_with("/exec/default/db-0/main?command=database&command=unlock&"), "{unlock}");
    let is_log = |target: &String| target.starts_with("/containerLogs/default/kanister-job-");
    assert!(!logs.is_empty() && logs.iter().all(is_log), "{targets:#?}");

    for (action, command) in [("restore", "load backups/db/1"), ("delete", "drop backups/db/1")] {
        begin(&plane, action, &json!({"artifacts": artifacts})).await;
        assert_eq!(end_task(&plane, "Succeeded").await, command);
        until_ended(&plane, action, "complete").await;
    }
}

#[tokio::test]
async fn database_is_unlocked_when_its_dump_fails() {
    let (plane, kubelet) = plane(|target| Ok(steps(target))).await;
    begin_backup(&plane).await;
    end_task(&plane, "Failed").await;
    let failed = until_ended(&plane, "backup", "failed").await;
    assert!(message(&failed).contains("phase `dump`"), "{}", message(&failed));
    assert_eq!(failed["status"]["actions"][0]["deferPhase"]["state"], "complete");
    let targets = kubelet.targets();
    assert!(targets.last().is_some_and(|last| last.contains("command=unlock")), "{targets:#?}");
}

#[tokio::test]
async fn pod_in_another_namespace_is_deleted_with_its_action_set() {
    const TOOLS: &str = "/api/v1/namespaces/tools/pods";
    let (mut plane, _kubelet) = plane(|target| Ok(steps(target))).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tools"}});
    plane.apply("/api/v1/namespaces/tools", &namespace).await;
    let pods = json!({"apiGroups": [""], "kinds": ["Pod"], "namespaces": ["tools"]});
    let grant = json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "tools"},
        "spec": {"to": {"namespaces": ["default"]}, "write": [pods]},
    });
    plane.apply("/apis/ferroplane.io/v1alpha1/accessgrants/tools", &grant).await;
    // Controllers know all grants that are there when they start.
    plane.restart().await;
    let args = json!({
        "namespace": "tools", "image": "registry.example/tools", "command": ["sleep", "inf"],
        "podOverride": {"nodeName": NODE, "terminationGracePeriodSeconds": 0},
    });
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "dumps"},
        "actions": {"rest": {"phases": [{"func": "KubeTask", "name": "rest", "args": args}]}},
    });
    plane.apply(&format!("{BLUEPRINTS}/dumps"), &blueprint).await;
    begin(&plane, "rest", &json!({})).await;
    plane.until(TOOLS, |pods| task_of(pods, TASK).is_some()).await;
    plane.delete(&format!("{ACTION_SETS}/rest")).await;
    plane.until(&format!("{ACTION_SETS}/rest"), Value::is_null).await;
    plane.until(TOOLS, |pods| task_of(pods, TASK).is_none()).await;
}
