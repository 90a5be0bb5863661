//! A pod whose log never ends, from the kubelet to the ActionSet.

use ferroplane_controllers::Clock;
use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::{ExecStep, Kubelet};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::dumps::until_task;
use super::{ACTION_SETS, BLUEPRINTS, NODE, PODS, message, plane};

/// The most bytes of a log that the control plane reads.
const LIMIT: u64 = 16 << 20;

/// A pod that the phase runs, and that prints while it does.
async fn begin(plane: &Plane) -> String {
    let args = json!({
        "namespace": "default", "image": "registry.example/tools", "command": ["yes"],
        "podOverride": {"nodeName": NODE, "terminationGracePeriodSeconds": 0},
    });
    let phase = json!({"func": "KubeTask", "name": "print", "args": args});
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "logs"},
        "actions": {"print": {"phases": [phase]}},
    });
    plane.apply(&format!("{BLUEPRINTS}/logs"), &blueprint).await;
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": "logs"},
        "spec": {"actions": [{"name": "print", "blueprint": "logs"}]},
    });
    plane.apply(&format!("{ACTION_SETS}/logs"), &set).await;
    let task = until_task(plane, "kanister-job-").await;
    let path = format!("{PODS}/{}", task["metadata"]["name"].as_str().unwrap());
    plane.merge(&format!("{path}/status"), &json!({"status": {"phase": "Running"}})).await;
    path
}

/// How many bytes each reading asked the kubelet for.
fn limits(kubelet: &Kubelet) -> Vec<u64> {
    let limit = |target: &String| {
        let (_, after) = target.split_once("limitBytes=").unwrap_or_else(|| panic!("no limit: {target}"));
        after.split('&').next().unwrap().parse().unwrap()
    };
    kubelet.targets().iter().filter(|target| target.starts_with("/containerLogs/")).map(limit).collect()
}

fn checkpoint(action_set: &Value) -> &Value {
    &action_set["status"]["actions"][0]["phases"][0]["checkpoint"]
}

#[tokio::test]
async fn log_that_never_ends_is_read_up_to_its_limit_and_fails_the_phase_when_the_pod_ends() {
    let (mut plane, kubelet) = plane(|_| Ok(vec![ExecStep::StdoutForEver("still here\n")])).await;
    let pod = begin(&plane).await;
    let path = format!("{ACTION_SETS}/logs");
    let next_read = |it: &Value| checkpoint(it)["nextRead"].as_i64();
    let waiting = plane.until(&path, |it| next_read(it).is_some()).await;
    plane.quiet().await;
    assert_eq!(limits(&kubelet), [0; 0], "the pod has only begun");

    // Logs of pods that run are read every ten minutes.
    plane.stop().await;
    plane.clock = Clock::new(|| Timestamp::now() + SignedDuration::from_mins(11));
    plane.start().await;
    plane.until(&path, |it| next_read(it) > next_read(&waiting)).await;
    let read = limits(&kubelet);
    assert!(read.is_sorted() && read.last() == Some(&LIMIT) && read.len() < 10, "{read:?}");
    // The pod is not disturbed, and the control plane does nothing about it.
    assert_eq!(plane.get(&pod).await["metadata"].get("deletionTimestamp"), None);
    plane.quiet().await;
    assert_eq!((limits(&kubelet).len(), plane.quiet().await), (read.len(), Vec::new()));

    plane.merge(&format!("{pod}/status"), &json!({"status": {"phase": "Succeeded"}})).await;
    let failed = plane.until(&path, |it| it["status"]["state"] == "failed").await;
    assert!(message(&failed).contains("has more than 16 MiB"), "{}", message(&failed));
    plane.until(&pod, Value::is_null).await;
    assert!(limits(&kubelet).into_iter().all(|limit| limit <= LIMIT));
}
