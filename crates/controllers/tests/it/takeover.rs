//! Objects that an old Crossplane wrote before it applied.

use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::{SETTINGS, SITES, is_ready, plane_with_sites};
use serde_json::{Value, json};

/// Make an object one that an old Crossplane updated and nobody ever applied.
pub(crate) async fn age(plane: &Plane, path: &str) {
    let mut managers = plane.get(path).await["metadata"]["managedFields"].clone();
    for entry in managers.as_array_mut().unwrap() {
        if entry["manager"].as_str().unwrap().starts_with("apiextensions.crossplane.io/") {
            entry["manager"] = "crossplane".into();
            entry["operation"] = "Update".into();
        }
    }
    // Two entries of the same manager and operation would be one.
    managers
        .as_array_mut()
        .unwrap()
        .dedup_by_key(|entry| (entry["manager"].clone(), entry["subresource"].clone()));
    plane.merge(path, &json!({"metadata": {"managedFields": managers}})).await;
    assert!(
        managers_of(&plane.get(path).await).iter().any(|manager| manager.starts_with("crossplane/Update"))
    );
}

/// The managers of an object, as `name/operation`.
pub(crate) fn managers_of(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries.map(|entry| format!("{}/{}", text(entry, "manager"), text(entry, "operation"))).collect()
}

fn is_taken_over(object: &Value) -> bool {
    let managers = managers_of(object);
    let is_former =
        |manager: &String| manager.starts_with("crossplane/") || manager.starts_with("before-first");
    managers.iter().any(|manager| manager.starts_with("apiextensions.crossplane.io/"))
        && !managers.iter().any(is_former)
}

#[tokio::test]
async fn what_an_old_crossplane_composed_is_applied_from_now_on() {
    let mut plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let site = format!("{SITES}/blog");
    plane.until(&site, is_ready).await;
    plane.quiet().await;
    plane.stop().await;
    let settings = plane.settings_of("blog").await;
    let path = format!("{SETTINGS}/{}", settings[0]["metadata"]["name"].as_str().unwrap());
    age(&plane, &path).await;
    plane
        .merge(&format!("{path}?fieldManager=tinker"), &json!({"metadata": {"labels": {"theirs": "yes"}}}))
        .await;
    plane.start().await;
    let setting = plane.until(&path, is_taken_over).await;
    assert_eq!(setting["data"], settings[0]["data"]);
    assert!(managers_of(&setting).contains(&"tinker/Update".to_owned()), "{setting:#}");
    plane.quiet().await;

    // What is no longer wanted goes: nobody else owns it.
    plane
        .compose_sites_of(&json!([{
            "step": "settings", "functionRef": {"name": "function-patch-and-transform"},
            "input": {"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [
                {"name": "one", "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": "one"}}},
                {"name": "two", "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": "two"}}},
            ]},
        }]))
        .await;
    plane.until(&path, |setting| setting["data"] == json!({"who": "one"})).await;
}

#[tokio::test]
async fn composite_resource_of_an_old_crossplane_is_applied_from_now_on_and_then_left_alone() {
    let mut plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let site = format!("{SITES}/blog");
    let before = plane.until(&site, is_ready).await;
    plane.quiet().await;
    plane.stop().await;
    age(&plane, &site).await;
    plane.start().await;
    let after = plane.until(&site, |site| is_taken_over(site) && is_ready(site)).await;
    assert_eq!(after["spec"], before["spec"]);
    plane.quiet().await;
    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
}
