//! What is used cannot be deleted.

use ferroplane_testkit::plane::{Plane, condition};
use http::Method;
use serde_json::{Value, json};

const USAGES: &str = "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages";
const CLUSTER_USAGES: &str = "/apis/protection.crossplane.io/v1beta1/clusterusages";
const LEGACY_USAGES: &str = "/apis/apiextensions.crossplane.io/v1beta1/usages";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const ATTEMPT: &str = "usage.crossplane.io/deletion-attempt-with-policy";

async fn make_map(plane: &Plane, namespace: &str, name: &str, labels: Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
    plane.apply(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"), &map).await;
}

async fn make_role(plane: &Plane, name: &str) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}});
    plane.apply(&format!("{ROLES}/{name}"), &role).await;
}

/// What is marked as used is written to, which takes a right, as on a cluster.
async fn let_roles_be_protected(plane: &Plane) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "protect-roles", "labels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}},
        "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["*"]}],
    });
    plane.apply(&format!("{ROLES}/protect-roles"), &role).await;
}

/// A config map, as usages name it.
fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": {"name": name}})
}

fn role(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "resourceRef": {"name": name}})
}

/// Say that something is used, and wait until it is protected. Returns the usage.
async fn protect(plane: &Plane, usages: &str, name: &str, spec: Value) -> Value {
    let (api_version, kind) = match usages {
        LEGACY_USAGES => ("apiextensions.crossplane.io/v1beta1", "Usage"),
        CLUSTER_USAGES => ("protection.crossplane.io/v1beta1", "ClusterUsage"),
        _ => ("protection.crossplane.io/v1beta1", "Usage"),
    };
    let usage = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let path = format!("{usages}/{name}");
    plane.apply(&path, &usage).await;
    plane.until(&path, |usage| condition(usage, "Ready").as_deref() == Some("True/Available")).await
}

/// Try to delete something. Returns the code and the message.
async fn try_delete(plane: &Plane, path: &str, options: Value) -> (u16, String) {
    let (code, answer) = plane.send(Method::DELETE, path, "application/json", &options).await;
    (code, answer["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn used_object_is_refused_to_be_deleted_and_goes_when_its_user_does() {
    let plane = Plane::new().await;
    make_map(&plane, "default", "used", json!({})).await;
    make_map(&plane, "default", "user", json!({})).await;
    let spec = json!({"of": map("used"), "by": map("user"), "replayDeletion": true});
    let usage = protect(&plane, USAGES, "u", spec).await;
    let metadata = &usage["metadata"];
    assert_eq!(metadata["annotations"]["crossplane.io/usage-details"], "ConfigMap/user uses ConfigMap/used");
    assert_eq!(metadata["finalizers"], json!(["usage.apiextensions.crossplane.io"]));
    let owner = &metadata["ownerReferences"][0];
    assert_eq!((&owner["name"], owner.get("controller")), (&json!("user"), None));
    assert_eq!(
        plane.get(&format!("{MAPS}/used")).await["metadata"]["labels"]["crossplane.io/in-use"],
        "true"
    );

    let used = format!("{MAPS}/used");
    let (code, message) = try_delete(&plane, &used, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(code, 409, "{message}");
    assert_eq!(
        message,
        "admission webhook \"nousages.protection.crossplane.io\" denied the request: this resource is in-use by 1 usage, \
         including Usage `u` in namespace `default` by resource ConfigMap/user"
    );
    assert_eq!(plane.get(&used).await["metadata"]["annotations"][ATTEMPT], "Foreground");
    plane.delete(&format!("{MAPS}/user")).await;
    plane.until(&format!("{USAGES}/u"), Value::is_null).await;
    plane.until(&used, Value::is_null).await;
}

#[tokio::test]
async fn what_is_used_for_a_reason_can_be_deleted_after_the_usage() {
    let plane = Plane::new().await;
    make_map(&plane, "default", "used", json!({})).await;
    let usage = protect(&plane, USAGES, "u", json!({"of": map("used"), "reason": "production"})).await;
    assert_eq!(usage["metadata"]["annotations"]["crossplane.io/usage-details"], "production");
    let used = format!("{MAPS}/used");
    let (code, message) = try_delete(&plane, &used, Value::Null).await;
    assert_eq!(code, 409);
    assert!(message.ends_with("with reason: production"), "{message}");
    assert_eq!(plane.get(&used).await["metadata"]["annotations"][ATTEMPT], "Background");
    plane.delete(&format!("{USAGES}/u")).await;
    plane.until(&format!("{USAGES}/u"), Value::is_null).await;
    // Nobody asked for the deletion to be repeated later.
    let map = plane.get(&used).await;
    assert_eq!(map["metadata"].get("labels"), None);
    assert_eq!(try_delete(&plane, &used, Value::Null).await.0, 200);
}

#[tokio::test]
async fn objects_of_the_cluster_are_protected_by_both_kinds_of_usages() {
    let plane = Plane::new().await;
    let_roles_be_protected(&plane).await;
    for (usages, name) in [(CLUSTER_USAGES, "modern"), (LEGACY_USAGES, "legacy")] {
        let (used, by) = (format!("used-{name}"), format!("user-{name}"));
        make_role(&plane, &used).await;
        make_role(&plane, &by).await;
        let spec = json!({"of": role(&used), "by": role(&by), "replayDeletion": true});
        protect(&plane, usages, "u", spec).await;
        let (code, message) = try_delete(&plane, &format!("{ROLES}/{used}"), Value::Null).await;
        assert_eq!(code, 409, "{message}");
        plane.delete(&format!("{ROLES}/{by}")).await;
        plane.until(&format!("{usages}/u"), Value::is_null).await;
        plane.until(&format!("{ROLES}/{used}"), Value::is_null).await;
    }
}

#[tokio::test]
async fn selectors_find_what_is_used_in_the_namespace_of_the_usage() {
    let plane = Plane::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    plane.apply("/api/v1/namespaces/other", &namespace).await;
    make_map(&plane, "default", "used", json!({"app": "db"})).await;
    make_map(&plane, "default", "user", json!({"app": "web"})).await;
    let select = |labels: Value, namespace: Option<&str>| {
        let mut selector = json!({"matchLabels": labels});
        if let Some(namespace) = namespace {
            selector["namespace"] = namespace.into();
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "resourceSelector": selector})
    };
    let spec = json!({"of": select(json!({"app": "db"}), Some("default")), "by": select(json!({"app": "web"}), None)});
    let usage = protect(&plane, USAGES, "u", spec).await;
    assert_eq!(usage["spec"]["of"]["resourceRef"], json!({"name": "used"}));
    assert_eq!(usage["spec"]["by"]["resourceRef"], json!({"name": "user"}));
    let details = &usage["metadata"]["annotations"]["crossplane.io/usage-details"];
    assert_eq!(details, "ConfigMap/user uses ConfigMap/used");
    let (code, _) = try_delete(&plane, &format!("{MAPS}/used"), Value::Null).await;
    assert_eq!(code, 409);
    // One of the same name elsewhere is none of its business.
    make_map(&plane, "other", "used", json!({"crossplane.io/in-use": "true"})).await;
    let elsewhere = "/api/v1/namespaces/other/configmaps/used";
    assert_eq!(try_delete(&plane, elsewhere, Value::Null).await.0, 200);
}

#[tokio::test]
async fn usage_for_a_reason_cannot_name_a_namespace_and_the_message_says_why() {
    let plane = Plane::new().await;
    let mut reference = map("used");
    reference["resourceRef"]["namespace"] = "other".into();
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "resourceSelector": {"matchLabels": {"a": "b"}, "namespace": "other"}});
    for of in [reference, selector] {
        let usage = json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage",
            "metadata": {"name": "u"}, "spec": {"of": of, "reason": "because"}});
        let (code, answer) = plane.send(Method::POST, USAGES, "application/json", &usage).await;
        assert_eq!(code, 422, "{answer}");
        let told = "a Usage protects only resources in its own namespace";
        assert!(answer["message"].as_str().unwrap().contains(told), "{answer}");
    }
}

/// A config map of another team, and a usage in `default` that names it and whose end would make up for its deletion.
async fn foreign_map(plane: &Plane) -> Value {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    plane.apply("/api/v1/namespaces/other", &namespace).await;
    make_map(plane, "other", "payroll", json!({})).await;
    let mut of = map("payroll");
    of["resourceRef"]["namespace"] = "other".into();
    json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "u"},
        "spec": {"of": of, "by": map("user"), "replayDeletion": true}})
}

fn of_namespace(name: &str, reference: &Value) -> Value {
    let of = json!({"apiVersion": "v1", "kind": "Namespace", "resourceRef": reference});
    json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": name},
        "spec": {"of": of, "by": map("user")}})
}

#[tokio::test]
async fn usage_that_reaches_beyond_its_namespace_is_refused_when_it_is_written() {
    let plane = Plane::new().await;
    let usage = foreign_map(&plane).await;
    make_map(&plane, "default", "user", json!({})).await;
    let (code, answer) = plane.send(Method::POST, USAGES, "application/json", &usage).await;
    assert_eq!(code, 422, "{answer}");
    let message = answer["message"].as_str().unwrap();
    let told = "spec.of is in namespace `other`, but a Usage reaches only its own, `default`; write the Usage in `other`";
    assert!(message.ends_with(told), "{message}");
    for reference in [json!({"name": "other"}), json!({"name": "other", "namespace": ""})] {
        let usage = of_namespace("hostage", &reference);
        let (code, answer) = plane.send(Method::POST, USAGES, "application/json", &usage).await;
        assert_eq!(code, 422, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains("Namespace in v1 is cluster scoped"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn usage_that_nobody_refused_neither_holds_nor_deletes_what_it_does_not_reach() {
    let plane = Plane::new().await;
    plane.delete(&format!("{WEBHOOKS}/crossplane-no-usages")).await;
    let usage = foreign_map(&plane).await;
    make_map(&plane, "default", "user", json!({})).await;
    let refused = |usage: &Value| condition(usage, "Ready").as_deref() == Some("False/OutOfReach");
    plane.apply(&format!("{USAGES}/u"), &usage).await;
    let usage = plane.until(&format!("{USAGES}/u"), refused).await;
    assert_eq!(usage["status"]["conditions"][0]["code"], "UsageOutOfReach", "{usage}");
    plane.until_said("u", "a Usage reaches only its own").await;
    plane.apply(&format!("{USAGES}/hostage"), &of_namespace("hostage", &json!({"name": "other"}))).await;
    plane.until(&format!("{USAGES}/hostage"), refused).await;
    let payroll = "/api/v1/namespaces/other/configmaps/payroll";
    for path in [payroll, "/api/v1/namespaces/other"] {
        assert_eq!(plane.get(path).await["metadata"]["labels"].get("crossplane.io/in-use"), None, "{path}");
    }
    // As if it had been protected by an earlier release, and somebody had made up an attempt to delete it.
    let marks = json!({"labels": {"crossplane.io/in-use": "true"}, "annotations": {ATTEMPT: "Background"}});
    plane.merge(payroll, &json!({"metadata": marks})).await;
    let finalizers = json!({"metadata": {"finalizers": ["usage.apiextensions.crossplane.io"]}});
    plane.merge(&format!("{USAGES}/u"), &finalizers).await;
    plane.delete(&format!("{USAGES}/u")).await;
    plane.until(&format!("{USAGES}/u"), Value::is_null).await;
    plane.quiet().await;
    assert!(plane.get(payroll).await.is_object());
}

#[tokio::test]
async fn mark_stays_until_the_last_usage_goes_and_comes_back_if_somebody_takes_it() {
    let plane = Plane::new().await;
    make_map(&plane, "default", "used", json!({})).await;
    for name in ["one", "two"] {
        protect(&plane, USAGES, name, json!({"of": map("used"), "reason": "because"})).await;
    }
    let used = format!("{MAPS}/used");
    let is_marked = |map: &Value| map["metadata"]["labels"]["crossplane.io/in-use"] == "true";
    plane.merge(&used, &json!({"metadata": {"labels": {"crossplane.io/in-use": null}}})).await;
    plane.until(&used, is_marked).await;
    plane.delete(&format!("{USAGES}/one")).await;
    plane.until(&format!("{USAGES}/one"), Value::is_null).await;
    assert!(is_marked(&plane.get(&used).await));
    assert_eq!(try_delete(&plane, &used, Value::Null).await.0, 409);
    plane.delete(&format!("{USAGES}/two")).await;
    plane.until(&format!("{USAGES}/two"), Value::is_null).await;
    assert!(!is_marked(&plane.get(&used).await));
}

#[tokio::test]
async fn many_usages_that_end_at_once_leave_no_mark_behind() {
    let plane = Plane::new().await;
    make_map(&plane, "default", "used", json!({})).await;
    for index in 0..8 {
        protect(&plane, USAGES, &format!("u{index}"), json!({"of": map("used"), "reason": "because"})).await;
    }
    plane.delete(USAGES).await;
    plane.until(USAGES, |list| list["items"] == json!([])).await;
    assert_eq!(plane.get(&format!("{MAPS}/used")).await["metadata"].get("labels"), None);
}

#[tokio::test]
async fn composed_usage_waits_for_what_uses_it() {
    let plane = Plane::new().await;
    make_map(&plane, "default", "used", json!({})).await;
    make_map(&plane, "default", "user", json!({})).await;
    plane.merge(&format!("{MAPS}/user"), &json!({"metadata": {"finalizers": ["example.org/slow"]}})).await;
    protect(&plane, USAGES, "u", json!({"of": map("used"), "by": map("user")})).await;
    let path = format!("{USAGES}/u");
    plane.merge(&path, &json!({"metadata": {"labels": {"crossplane.io/composite": "xr"}}})).await;
    plane.delete(&path).await;
    let is_waiting = |list: &Value| {
        list["items"].as_array().into_iter().flatten().any(|event| event["reason"] == "WaitingUsingDeleted")
    };
    plane.until("/api/v1/namespaces/default/events", is_waiting).await;
    plane.delete(&format!("{MAPS}/user")).await;
    assert_eq!(try_delete(&plane, &format!("{MAPS}/used"), Value::Null).await.0, 409);
    plane.merge(&format!("{MAPS}/user"), &json!({"metadata": {"finalizers": null}})).await;
    plane.until(&path, Value::is_null).await;
    assert_eq!(try_delete(&plane, &format!("{MAPS}/used"), Value::Null).await.0, 200);
}

#[tokio::test]
async fn end_of_a_usage_goes_on_from_wherever_it_was_interrupted() {
    for is_marked in [true, false] {
        let mut plane = Plane::new().await;
        make_map(&plane, "default", "used", json!({})).await;
        let spec = json!({"of": map("used"), "reason": "because", "replayDeletion": true});
        protect(&plane, USAGES, "u", spec).await;
        let used = format!("{MAPS}/used");
        assert_eq!(try_delete(&plane, &used, Value::Null).await.0, 409);
        plane.stop().await;
        plane.delete(&format!("{USAGES}/u")).await;
        if !is_marked {
            plane.merge(&used, &json!({"metadata": {"labels": {"crossplane.io/in-use": null}}})).await;
        }
        plane.start().await;
        plane.until(&format!("{USAGES}/u"), Value::is_null).await;
        plane.until(&used, Value::is_null).await;
    }
}

#[tokio::test]
async fn nothing_that_is_marked_is_deleted_while_nobody_knows_what_is_in_use() {
    let mut plane = Plane::new().await;
    make_map(&plane, "default", "used", json!({})).await;
    protect(&plane, USAGES, "u", json!({"of": map("used"), "reason": "because"})).await;
    plane.stop().await;
    assert_eq!(try_delete(&plane, &format!("{MAPS}/used"), Value::Null).await.0, 503);
    make_map(&plane, "default", "free", json!({})).await;
    assert_eq!(try_delete(&plane, &format!("{MAPS}/free"), Value::Null).await.0, 200);
}

#[tokio::test]
async fn usage_of_what_is_not_there_yet_says_so_and_protects_it_when_it_comes() {
    let plane = Plane::new().await;
    let usage = json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage",
        "metadata": {"name": "u"}, "spec": {"of": map("used"), "reason": "because"}});
    plane.apply(&format!("{USAGES}/u"), &usage).await;
    let is_said = |list: &Value| {
        list["items"].as_array().into_iter().flatten().any(|event| event["reason"] == "GetUsedResource")
    };
    plane.until("/api/v1/namespaces/default/events", is_said).await;
    assert_eq!(plane.event_codes("u").await, ["GetUsedResource: UsageTargetNotFound"]);
    make_map(&plane, "default", "used", json!({})).await;
    protect(&plane, USAGES, "u", json!({"of": map("used"), "reason": "because"})).await;
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let mut plane = Plane::new().await;
    for name in ["used", "user", "late"] {
        make_map(&plane, "default", name, json!({})).await;
    }
    make_role(&plane, "used").await;
    let_roles_be_protected(&plane).await;
    protect(&plane, USAGES, "u", json!({"of": map("used"), "by": map("user")})).await;
    protect(&plane, CLUSTER_USAGES, "u", json!({"of": role("used"), "reason": "because"})).await;
    plane.restart().await;
    plane.writes();
    // What comes last is checked last.
    protect(&plane, USAGES, "last", json!({"of": map("late"), "reason": "because"})).await;
    let last =
        [format!("PUT {USAGES}/last"), format!("PATCH {MAPS}/late"), format!("PUT {USAGES}/last/status")];
    assert_eq!(plane.writes(), last);
}
