//! Objects that an old Crossplane wrote before it applied.

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::{SETTINGS, SITES, is_ready, plane_with_sites, plane_with_sites_by};
use http::Method;
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

/// Rights to do everything that these tests need, and this to definitions of kinds.
async fn allow(plane: &Plane, kinds: &[&str]) {
    let granting =
        |groups: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": ["*"], "verbs": verbs});
    let groups = [
        "",
        "apiextensions.crossplane.io",
        "pkg.crossplane.io",
        "protection.crossplane.io",
        "ops.crossplane.io",
        "example.org",
        "rbac.authorization.k8s.io",
        "authorization.k8s.io",
    ];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "limited"},
        "rules": [granting(&groups, &["*"]), granting(&["apiextensions.k8s.io"], kinds)],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterroles/limited", &role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/limited", &binding).await;
}

#[tokio::test]
async fn failure_is_told_where_a_definition_of_crossplane_knows_no_codes() {
    let fails = json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no such color"}]});
    let mut plane = plane_with_sites_by(move |_| fails.clone()).await;
    let synced = |site: &Value| {
        let conditions = site["status"]["conditions"].as_array();
        conditions.into_iter().flatten().find(|condition| condition["type"] == "Synced").cloned()
    };
    plane.stop().await;
    allow(&plane, &["*"]).await;
    plane.start_as(Identity::authenticated("limited", ["system:authenticated".to_owned()])).await;
    plane.create_site("known", "red").await;
    let is_coded = |site: &Value| synced(site).is_some_and(|synced| synced["code"] == "FunctionFatalResult");
    plane.until(&format!("{SITES}/known"), is_coded).await;

    // From now on nobody can make the definition what it should be.
    allow(&plane, &["get", "list", "watch"]).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.example.org";
    let mut definition = plane.get(path).await;
    let properties =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions/items/properties";
    let properties = definition.pointer_mut(properties).and_then(Value::as_object_mut).unwrap();
    for field in ["code", "step", "resource"] {
        assert!(properties.remove(field).is_some(), "{field}");
    }
    let (code, answer) = plane.send(Method::PUT, path, "application/json", &definition).await;
    assert_eq!(code, 200, "{answer}");

    plane.create_site("blog", "red").await;
    let is_told = |site: &Value| {
        let message = synced(site).and_then(|synced| Some(synced["message"].as_str()?.to_owned()));
        message.is_some_and(|message| message.contains("no such color"))
    };
    let blog = plane.until(&format!("{SITES}/blog"), is_told).await;
    assert_eq!(synced(&blog).unwrap().get("code"), None);
}
