//! The shape of published Blueprints that pipe a dump from one container of a pod to another, and that prepare the volumes of a workload
//! while it is stopped.

use ferroplane_testkit::ExecStep;
use ferroplane_testkit::plane::Plane;
use serde_json::{Value, json};

use super::dumps::{task_of, until_task};
use super::{ACTION_SETS, BLUEPRINTS, NODE, PODS, message, plane, pod, printed};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PROFILES: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/profiles";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// How the names of pods of MultiContainerRun and of PrepareData begin.
const PIPELINE: &str = "kanister-multi-container-";
const PREPARATION: &str = "prepare-data-";

/// JSON writes the last character in another way.
const BUCKET_KEY: &str = "bucket-key-7&";
const LICENCE: &str = "licence-number-42";
/// The licence is in its Secret as text in base64.
const ENCODED_LICENCE: &str = "bGljZW5jZS1udW1iZXItNDI=";

/// What the kubelet answers: of the pipeline, only the last container prints output of the phase.
fn steps(target: &str) -> Vec<ExecStep> {
    let path =
        if target.contains("/output?") || target.contains("/container?") { "backups/1" } else { "wrong" };
    vec![printed(&format!("###Phase-output###: {{\"key\": \"path\", \"value\": \"{path}\"}}\n"))]
}

/// A StatefulSet of which one pod runs, with a volume.
async fn start_database(plane: &Plane) {
    let mut pod = pod("db-0");
    pod["spec"]["volumes"] = json!([{"name": "files", "persistentVolumeClaim": {"claimName": "data-db-0"}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "files", "mountPath": "/var/lib/db"}]);
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": pod["spec"]["containers"], "volumes": pod["spec"]["volumes"]}});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": template,
            // Nothing makes the pod ready, and nothing may replace it.
            "updateStrategy": {"type": "OnDelete"},
        },
    });
    // The pod first: a real API server would have one made for the set.
    let path = format!("{PODS}/db-0");
    plane.delete(&path).await;
    plane.until(&path, Value::is_null).await;
    plane.apply(&path, &pod).await;
    plane.merge(&format!("{path}/status"), &json!({"status": {"phase": "Running"}})).await;
    plane.apply(&format!("{SETS}/db"), &set).await;
}

async fn store_credentials(plane: &Plane) {
    for (name, data) in [
        ("bucket", json!({"id": "bucket-user", "key": BUCKET_KEY})),
        ("db", json!({"password": "tables-turned", "licence": ENCODED_LICENCE})),
    ] {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        plane.apply(&format!("{SECRETS}/{name}"), &secret).await;
    }
    let pair =
        json!({"idField": "id", "secretField": "key", "secret": {"name": "bucket", "namespace": "default"}});
    let profile = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Profile", "metadata": {"name": "store"},
        "location": {"type": "s3Compliant", "bucket": "backups", "endpoint": "https://s3.example", "region": "here"},
        "credential": {"type": "keyPair", "keyPair": pair},
    });
    plane.apply(&format!("{PROFILES}/store"), &profile).await;
}

fn blueprint() -> Value {
    let place = json!({"nodeName": NODE, "terminationGracePeriodSeconds": 0});
    let command = |script: &str| json!(["bash", "-c", script]);
    let login = "{{ index .Phases.dump.Secrets.login.Data \"password\" | toString }}";
    let licence = "{{ index .Phases.dump.Secrets.login.Data \"licence\" | toString | b64dec }}";
    let moment = "{{ toDate \"2006-01-02T15:04:05.999999999Z07:00\" .Time | date \"2006-01-02T15-04-05\" }}";
    let push = format!(
        "push '{{{{ toJson .Profile }}}}' {{{{ .StatefulSet.Namespace }}}}/{{{{ .StatefulSet.Name }}}}/{moment}/dump < /shared/pipe"
    );
    let dump = json!({
        "func": "MultiContainerRun", "name": "dump",
        "objects": {"login": {"kind": "Secret", "name": "{{ .StatefulSet.Name }}", "namespace": "{{ .StatefulSet.Namespace }}"}},
        "args": {
            "namespace": "{{ .StatefulSet.Namespace }}", "sharedVolumeDir": "/shared", "sharedVolumeMedium": "Memory",
            "initImage": "registry.example/tools", "initCommand": command("mkfifo /shared/pipe"),
            "backgroundImage": "registry.example/db", "backgroundCommand": command(&format!("dump -p {login} -l {licence} > /shared/pipe")),
            "outputImage": "registry.example/tools", "outputCommand": command(&push),
            "podOverride": place,
        },
    });
    let scale = |name: &str, replicas: &str| json!({"func": "ScaleWorkload", "name": name, "args": {"replicas": replicas, "waitForReady": false}});
    let prepare = json!({
        "func": "PrepareData", "name": "copy",
        "args": {
            "namespace": "{{ .StatefulSet.Namespace }}", "image": "registry.example/tools", "failOnError": true,
            "command": command("copy {{ .ArtifactsIn.dump.KeyValue.path }} /mnt/prepare_data"), "podOverride": place,
        },
    });
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "pipelines"},
        "actions": {
            "backup": {
                "kind": "StatefulSet", "phases": [dump],
                "outputArtifacts": {"dump": {"keyValue": {"path": "{{ .Phases.dump.Output.path }}", "at": "{{ .Time }}"}}},
            },
            "restore": {
                "kind": "StatefulSet", "inputArtifactNames": ["dump"], "phases": [scale("stop", "0"), prepare],
                "deferPhase": scale("start", "{{ .Phases.stop.Output.originalReplicaCount }}"),
            },
        },
    })
}

/// Begin an action of the database. The ActionSet is named after it.
async fn begin(plane: &Plane, action: &str, artifacts: &Value) {
    let whole = json!({
        "name": action, "blueprint": "pipelines", "artifacts": artifacts,
        "object": {"kind": "StatefulSet", "name": "db", "namespace": "default"},
        "profile": {"name": "store", "namespace": "default"},
    });
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": action},
        "spec": {"actions": [whole]},
    });
    plane.apply(&format!("{ACTION_SETS}/{action}"), &set).await;
}

async fn begin_backup(plane: &Plane) {
    start_database(plane).await;
    store_credentials(plane).await;
    plane.apply(&format!("{BLUEPRINTS}/pipelines"), &blueprint()).await;
    begin(plane, "backup", &json!({})).await;
}

/// End the pod of a phase whose name begins like this. Returns its spec.
async fn end_pod(plane: &Plane, prefix: &str, ending: &str) -> Value {
    let pod = until_task(plane, prefix).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    plane.merge(&format!("{PODS}/{name}/status"), &json!({"status": {"phase": ending}})).await;
    pod["spec"].clone()
}

async fn until_ended(plane: &Plane, action: &str, state: &str) -> Value {
    let ended = plane.until(&format!("{ACTION_SETS}/{action}"), |it| it["status"]["state"] == state).await;
    let pods = plane.get(PODS).await;
    for prefix in [PIPELINE, PREPARATION] {
        assert_eq!(task_of(&pods, prefix), None, "the pod of the phase is deleted");
    }
    ended
}

fn script(container: &Value) -> &str {
    container["command"][2].as_str().unwrap()
}

#[tokio::test]
async fn dump_is_piped_to_a_store_and_prepared_while_the_workload_is_stopped() {
    let (plane, _kubelet) = plane(|target| Ok(steps(target))).await;
    begin_backup(&plane).await;
    let spec = end_pod(&plane, PIPELINE, "Succeeded").await;
    assert_eq!(script(&spec["initContainers"][0]), "mkfifo /shared/pipe");
    let [background, output] = &spec["containers"].as_array().unwrap()[..] else { panic!("{spec:#}") };
    assert_eq!(script(background), format!("dump -p tables-turned -l {LICENCE} > /shared/pipe"));
    for container in [&spec["initContainers"][0], background, output] {
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["mountPath"] == "/shared"), "{container:#}");
    }
    let done = until_ended(&plane, "backup", "complete").await;
    let artifacts = &done["status"]["actions"][0]["artifacts"];
    let left = &artifacts["dump"]["keyValue"];
    assert_eq!(left["path"], "backups/1");
    // Seconds since some moment, as names of files have them.
    let moment = left["at"].as_str().unwrap()[..19].replace(':', "-");
    let words: Vec<_> = script(output).split('\'').collect();
    let ["push ", profile, rest] = words[..] else { panic!("{words:?}") };
    assert_eq!(rest, format!(" default/db/{moment}/dump < /shared/pipe"));
    let profile: Value = serde_json::from_str(profile).unwrap();
    assert_eq!(profile["Location"]["Endpoint"], "https://s3.example");
    assert_eq!(profile["Credential"]["KeyPair"], json!({"ID": "bucket-user", "Secret": BUCKET_KEY}));

    begin(&plane, "restore", artifacts).await;
    let spec = end_pod(&plane, PREPARATION, "Succeeded").await;
    let container = &spec["containers"][0];
    assert_eq!(script(container), "copy backups/1 /mnt/prepare_data");
    let volumes = spec["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["persistentVolumeClaim"]["claimName"] == "data-db-0");
    let mount = json!({"name": volume.unwrap()["name"], "mountPath": "/mnt/prepare_data/data-db-0"});
    assert!(container["volumeMounts"].as_array().unwrap().contains(&mount), "{container:#}");
    until_ended(&plane, "restore", "complete").await;
    assert_eq!(plane.get(&format!("{SETS}/db")).await["spec"]["replicas"], 1);
}

#[tokio::test]
async fn status_has_no_value_of_a_secret_when_a_pipeline_that_prints_them_fails() {
    // The last words of a command are quoted: they are the command here.
    let profile = r#"{"ID":"bucket-user","Secret":"bucket-key-7\u0026"}"#;
    let words = format!("cannot push {profile}\nno licence {LICENCE}\nno password tables-turned\n");
    let (plane, _kubelet) = plane(move |_| Ok(vec![printed(&words)])).await;
    begin_backup(&plane).await;
    end_pod(&plane, PIPELINE, "Failed").await;
    let failed = until_ended(&plane, "backup", "failed").await;
    let said = message(&failed);
    assert!(said.contains("no licence ***") && said.contains("no password ***"), "{said}");
    for value in [LICENCE, "bucket-user", "bucket-key", "tables-turned", ENCODED_LICENCE] {
        assert!(!failed["status"].to_string().contains(value), "{value}: {:#}", failed["status"]);
    }
}
