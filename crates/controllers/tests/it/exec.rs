//! Phases that run commands in pods: from the ActionSet to the kubelet, through the exec subresource.
//!
//! The kubelet is one of ours, since no container runs. A real API server asks it as it asks any other: the node says where it is.

mod dumps;
mod logs;
mod pipelines;

use std::sync::Arc;
use std::time::Duration;

use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::{ExecScript, ExecStep, Kubelet};
use serde_json::{Value, json};

const BLUEPRINTS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/blueprints";
const ACTION_SETS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODE: &str = "exec-tests";

/// A plane whose pods are on a node with this kubelet.
async fn plane(script: impl Fn(&str) -> ExecScript + Send + Sync + 'static) -> (Plane, Arc<Kubelet>) {
    let kubelet = Arc::new(Kubelet::start(script));
    let mut plane = Plane::new().await;
    plane.kubelet = Some(kubelet.clone());
    plane.restart().await;
    if plane.is_real() {
        join_node(&plane, &kubelet).await;
    }
    (plane, kubelet)
}

/// Tell the API server where the kubelet is, and which pods are there.
async fn join_node(plane: &Plane, kubelet: &Kubelet) {
    let path = format!("/api/v1/nodes/{NODE}");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    plane.apply(&path, &node).await;
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}},
    });
    plane.merge(&format!("{path}/status"), &json!({"status": status})).await;
    for name in ["db-0", "db-1"] {
        plane.delete(&format!("{PODS}/{name}")).await;
        plane.until(&format!("{PODS}/{name}"), Value::is_null).await;
        plane.apply(&format!("{PODS}/{name}"), &pod(name)).await;
    }
}

/// A pod of the database, on the node.
fn pod(name: &str) -> Value {
    let containers = ["main", "side"].map(|name| json!({"name": name, "image": "registry.example/none"}));
    // Nothing confirms that a pod has ended, so that it goes at once when it is deleted.
    let spec = json!({"nodeName": NODE, "containers": containers, "terminationGracePeriodSeconds": 0});
    let metadata = json!({"name": name, "labels": {"app": "db"}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The phase that runs a command in `db-0`.
fn exec(version: &str, more: &Value) -> Value {
    let command = ["sh", "-c", "backup now"];
    let mut args = json!({"namespace": "default", "pod": "db-0", "container": "main", "command": command});
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"func": "KubeExec", "name": "dump", "funcVersion": version, "args": args})
}

async fn run(plane: &Plane, phase: &Value, state: &str) -> Value {
    let artifact = json!({"keyValue": {"size": "{{ .Phases.dump.Output.size }}"}});
    let artifact = match state {
        "complete" => json!({"backup": artifact}),
        _ => json!({}),
    };
    let action = json!({"phases": [phase], "outputArtifacts": artifact});
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"},
        "actions": {"backup": action},
    });
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint).await;
    let action_set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": "s"},
        "spec": {"actions": [{"name": "backup", "blueprint": "b"}]},
    });
    plane.apply(&format!("{ACTION_SETS}/s"), &action_set).await;
    plane.until(&format!("{ACTION_SETS}/s"), |it| it["status"]["state"] == state).await
}

/// Wait until the control plane has left a command alone.
async fn until_left(kubelet: &Kubelet) {
    tokio::time::timeout(Duration::from_mins(1), kubelet.until_left()).await.expect("it leaves");
}

fn message(action_set: &Value) -> &str {
    action_set["status"]["error"]["message"].as_str().unwrap_or_default()
}

fn printed(text: &str) -> ExecStep {
    ExecStep::Stdout(text.as_bytes().to_vec())
}

#[tokio::test]
async fn output_of_a_command_in_a_container_becomes_that_of_its_phase() {
    let (plane, kubelet) = plane(|_| {
        Ok(vec![
            printed("begun\n###Phase-out"),
            ExecStep::Stderr(b"a warning".to_vec()),
            ExecStep::StdoutInFrames("put###: {\"key\": \"si", "ze\", \"value\": \"7\"}\n"),
            printed("done\n"),
            ExecStep::Exit(0),
        ])
    })
    .await;
    let done = run(&plane, &exec("v0.2.0", &json!({})), "complete").await;
    let action = &done["status"]["actions"][0];
    assert_eq!(action["phases"][0]["output"], json!({"size": "7", "exitCode": "0"}));
    assert_eq!(action["artifacts"], json!({"backup": {"keyValue": {"size": "7"}}}));
    let target = "/exec/default/db-0/main?command=sh&command=-c&command=backup+now&error=1&output=1";
    assert_eq!(kubelet.targets(), [target]);
}

#[tokio::test]
async fn command_that_fails_fails_its_phase_with_exit_code_and_complaints() {
    let (plane, _kubelet) =
        plane(|_| Ok(vec![printed("noise"), ExecStep::Stderr(b"disk full".to_vec()), ExecStep::Exit(3)]))
            .await;
    let failed = run(&plane, &exec("v0.1.0", &json!({})), "failed").await;
    assert!(message(&failed).ends_with("exited with code 3: disk full"), "{}", message(&failed));
}

#[tokio::test]
async fn lost_connection_fails_the_phase_and_runs_no_command_twice() {
    let (plane, kubelet) = plane(|_| Ok(vec![printed("half"), ExecStep::Lose])).await;
    let failed = run(&plane, &exec("v0.2.0", &json!({})), "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "PhaseInterrupted", "{}", message(&failed));
    plane.quiet().await;
    assert_eq!(kubelet.targets().len(), 1);
}

#[tokio::test]
async fn command_that_hangs_is_given_up_in_time() {
    let (plane, kubelet) = plane(|_| Ok(vec![printed("begun"), ExecStep::Hang])).await;
    let failed = run(&plane, &exec("v0.1.0", &json!({"timeout": "2s"})), "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "PhaseTimeout", "{}", message(&failed));
    until_left(&kubelet).await;
}

#[tokio::test]
async fn cancelled_action_set_lets_its_command_go() {
    let (plane, kubelet) = plane(|_| Ok(vec![printed("begun"), ExecStep::Hang])).await;
    run(&plane, &exec("v0.0.0", &json!({})), "running").await;
    while kubelet.targets().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let cancel = json!({"metadata": {"annotations": {"ferroplane.io/cancel": "true"}}});
    plane.merge(&format!("{ACTION_SETS}/s"), &cancel).await;
    let failed = plane.until(&format!("{ACTION_SETS}/s"), |it| it["status"]["state"] == "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "ActionCancelled", "{}", message(&failed));
    until_left(&kubelet).await;
}

#[tokio::test]
async fn command_runs_in_all_containers_and_their_output_is_merged() {
    let (plane, kubelet) = plane(|target| {
        let place: Vec<_> = target.split(['/', '?']).skip(3).take(2).collect();
        let key = place.join("_").replace('-', "_");
        let line = format!("###Phase-output###: {{\"key\": \"{key}\", \"value\": \"saved\"}}\n");
        Ok(vec![ExecStep::Stdout(line.into_bytes()), ExecStep::Exit(0)])
    })
    .await;
    let args =
        json!({"namespace": "default", "pods": "db-0 db-1", "containers": "main side", "command": ["sync"]});
    let phase = json!({"func": "KubeExecAll", "name": "dump", "args": args});
    // The artifact would need a key that these commands do not print.
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "all"},
        "actions": {"backup": {"phases": [phase]}},
    });
    plane.apply(&format!("{BLUEPRINTS}/all"), &blueprint).await;
    let action_set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": "all"},
        "spec": {"actions": [{"name": "backup", "blueprint": "all"}]},
    });
    plane.apply(&format!("{ACTION_SETS}/all"), &action_set).await;
    let done = plane.until(&format!("{ACTION_SETS}/all"), |it| it["status"]["state"] == "complete").await;
    let expected =
        json!({"db_0_main": "saved", "db_0_side": "saved", "db_1_main": "saved", "db_1_side": "saved"});
    assert_eq!(done["status"]["actions"][0]["phases"][0]["output"], expected);
    assert_eq!(kubelet.targets().len(), 4);
}
