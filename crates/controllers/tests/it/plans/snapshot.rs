//! Plans while an object changes that functions require.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_client::{ApiClient, ObjectPath, Resource, Subresource};
use ferroplane_controllers::PlanError;
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::master;
use ferroplane_testkit::plane::sites::SETTINGS;
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use super::{of, site};
use crate::rollout::Rollout;

/// An object that says which number it is.
fn shared(number: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "namespace": "default"},
        "data": {"number": number.to_string()},
    })
}

/// Write the next number.
async fn count_up(cluster: &ApiClient, number: &str) {
    let resource = Resource {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        is_namespaced: true,
    };
    let path = ObjectPath { resource: &resource, namespace: "default", name: "shared" };
    let next = shared(number.parse::<u64>().unwrap() + 1);
    cluster.apply(path, Subresource::None, "user", next.as_object().unwrap()).await.unwrap();
}

/// A plane on which the color of a site is a number that its function reads, and writes the next one so many times. There is no site.
async fn plane_that_counts(times: usize) -> Rollout {
    let mut rollout = Rollout::begin().await;
    rollout.plane.apply(&format!("{SETTINGS}/shared"), &shared(0)).await;
    let cluster = rollout.plane.client_of(&master("user"));
    let left = Arc::new(AtomicUsize::new(times));
    let call = move |request| {
        let (cluster, left) = (cluster.clone(), left.clone());
        async move {
            let required = json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": "shared", "namespace": "default"});
            let mut answer = json!({"meta": {}, "requirements": {"resources": {"shared": required}}});
            let request = to_json(&request).unwrap();
            let found = &request["requiredResources"]["shared"]["items"][0]["resource"];
            if let Some(number) = found["data"]["number"].as_str() {
                answer["desired"] = json!({"composite": {"resource": {"status": {"color": number}}}});
                let take_one = |left: usize| left.checked_sub(1);
                if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
                    count_up(&cluster, number).await;
                }
            }
            Ok(from_json(&answer).unwrap())
        }
    };
    let function = Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)));
    rollout.install_running("v1.0.0", None, function).await;
    rollout.compose("all", &json!({})).await;
    rollout.plane.until_sites_can_be_composed().await;
    rollout.plane.quiet().await;
    rollout
}

#[tokio::test]
async fn plan_is_made_again_when_an_object_that_a_function_required_has_changed() {
    let rollout = plane_that_counts(1).await;
    let plan = rollout.plane.plan(&[site("new", "any")]).await.unwrap();
    let fields = of(&plan, "new").changes.iter().flat_map(|change| &change.fields);
    let color = fields.filter(|field| field.path == "status.color").map(|field| field.after.clone());
    assert_eq!(color.collect::<Vec<_>>(), [Some(json!("1"))], "{plan:#?}");
}

#[tokio::test]
async fn plan_is_refused_when_an_object_that_a_function_requires_never_stays() {
    let rollout = plane_that_counts(usize::MAX).await;
    let refused = rollout.plane.plan(&[site("new", "any")]).await.unwrap_err();
    assert!(matches!(&refused, PlanError::Moving(what) if what.contains("shared")), "{refused:?}");
}
