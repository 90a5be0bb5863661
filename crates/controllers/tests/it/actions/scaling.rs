//! ActionSets that scale Deployments at once.

use std::ops::Range;

use ferroplane_testkit::plane::Plane;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS, DEPLOYMENTS, action_set, blueprint, phase, until_state};

fn deployment(name: &str, replicas: i64) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    })
}

async fn plane_with_blueprint() -> Plane {
    let plane = Plane::new().await;
    let args = json!({"replicas": "{{ .Options.replicas }}", "waitForReady": false});
    let action = json!({"phases": [phase("ScaleWorkload", "scale", &args)], "kind": "Deployment"});
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &action)).await;
    plane
}

/// Scale the Deployments of these numbers at once. Each has as many replicas as its number says, and gets a thousand more.
async fn scale_at_once(plane: &Plane, numbers: Range<i64>) {
    for number in numbers.clone() {
        let name = format!("d{number}");
        plane.apply(&format!("{DEPLOYMENTS}/{name}"), &deployment(&name, number)).await;
    }
    let created = numbers.clone().map(|number| async move {
        let name = format!("d{number}");
        let object = json!({"kind": "Deployment", "name": name, "namespace": "default"});
        let spec = json!({"object": object, "options": {"replicas": (1000 + number).to_string()}});
        plane.apply(&format!("{ACTION_SETS}/{name}"), &action_set(&name, &spec)).await;
    });
    join_all(created).await;
    for number in numbers {
        let done = until_state(plane, &format!("d{number}"), "complete").await;
        let output = &done["status"]["actions"][0]["phases"][0]["output"]["originalReplicaCount"];
        assert_eq!(*output, number.to_string());
        let scaled = plane.get(&format!("{DEPLOYMENTS}/d{number}")).await;
        assert_eq!(scaled["spec"]["replicas"], 1000 + number);
    }
}

#[tokio::test]
async fn two_action_sets_that_scale_at_once_do_not_mix() {
    let plane = plane_with_blueprint().await;
    for round in 0..100 {
        scale_at_once(&plane, 2 * round..2 * round + 2).await;
    }
}

#[tokio::test]
async fn many_action_sets_that_scale_at_once_do_not_mix() {
    scale_at_once(&plane_with_blueprint().await, 0..50).await;
}
