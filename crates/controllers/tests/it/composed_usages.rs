//! Composite resources that compose something, something that uses it, and a usage that says so: they go, however they are
//! deleted, and what is used goes last.

use ferroplane_testkit::plane::sites::SITES;
use ferroplane_testkit::plane::{Plane, condition};
use http::Method;
use serde_json::{Value, json};

pub(crate) const USAGES: &str = "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITION: &str =
    "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org";
/// Which of three names is first is a matter of chance, so that some of twenty meet every order.
const COUNT: usize = 20;

fn map(role: &str) -> Value {
    let base = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"role": role}}});
    json!({"name": role, "base": base, "readinessChecks": [{"type": "None"}]})
}

/// Composes a cluster, a release and a usage of one by the other.
pub(crate) fn pipeline(replay: bool) -> Value {
    let select = |role: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "resourceSelector": {"matchControllerRef": true, "matchLabels": {"role": role}},
        })
    };
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage",
        "spec": {"of": select("cluster"), "by": select("release"), "replayDeletion": replay},
    });
    let input = json!({
        "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources",
        "resources": [map("cluster"), map("release"), {"name": "release-uses-cluster", "base": usage}],
    });
    json!([{"step": "compose", "functionRef": {"name": "function-patch-and-transform"}, "input": input}])
}

/// Sites, each of which composes a cluster and a release that uses it.
async fn plane_with_used_clusters(replay: bool) -> Plane {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane.compose_sites_of(&pipeline(replay)).await;
    for index in 0..COUNT {
        plane.create_site(&format!("site-{index}"), "red").await;
    }
    let are_protected = |list: &Value| {
        let usages = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        usages.len() == COUNT
            && usages.iter().all(|usage| condition(usage, "Ready").as_deref() == Some("True/Available"))
    };
    plane.until(USAGES, are_protected).await;
    plane
}

pub(crate) async fn nothing_is_left(plane: &Plane) {
    let is_empty = |list: &Value| list["items"] == json!([]);
    let composed = format!("{MAPS}?labelSelector=crossplane.io/composite");
    plane.until(&composed, is_empty).await;
    plane.until(USAGES, is_empty).await;
    plane.until(SITES, |list| list.is_null() || is_empty(list)).await;
}

async fn delete_sites(plane: &Plane, policy: &str) {
    for index in 0..COUNT {
        let options = json!({"propagationPolicy": policy});
        let path = format!("{SITES}/site-{index}");
        let (code, answer) = plane.send(Method::DELETE, &path, "application/json", &options).await;
        assert_eq!(code, 200, "{answer}");
    }
    nothing_is_left(plane).await;
}

#[tokio::test]
async fn composites_with_usages_go_in_the_background() {
    delete_sites(&plane_with_used_clusters(false).await, "Background").await;
}

#[tokio::test]
async fn composites_with_usages_go_in_the_foreground() {
    delete_sites(&plane_with_used_clusters(false).await, "Foreground").await;
}

#[tokio::test]
async fn composites_with_usages_that_replay_deletions_go() {
    delete_sites(&plane_with_used_clusters(true).await, "Background").await;
}

#[tokio::test]
async fn definition_of_composites_with_usages_goes() {
    let plane = plane_with_used_clusters(false).await;
    // The garbage collector of a cluster learns of a new kind up to half a minute later, and not at all if the kind is gone by then.
    plane.delete(&format!("{SITES}/site-0")).await;
    plane
        .until(USAGES, |list| list["items"].as_array().is_some_and(|usages| usages.len() == COUNT - 1))
        .await;
    plane.delete(DEFINITION).await;
    nothing_is_left(&plane).await;
    plane.until(DEFINITION, Value::is_null).await;
}
