//! What functions get to see of other namespaces: nothing, unless an administrator has granted it.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites_by};
use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};

const BLOG: &str = "/apis/example.org/v1/namespaces/default/sites/blog";
const GRANT: &str = "/apis/ferroplane.io/v1alpha1/accessgrants/blog";
/// A Secret of somebody else.
const VICTIM: &str = "/api/v1/namespaces/other/secrets/victim";

/// Everything that a function was told, as text.
type Told = Arc<Mutex<String>>;

fn secret(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"paint": "yes"}},
        "data": {"color": STANDARD.encode(value)},
    })
}

async fn create_victim(plane: &Plane) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    plane.apply("/api/v1/namespaces/other", &namespace).await;
    plane.apply(VICTIM, &secret("victim", "stolen")).await;
}

/// A plane whose function asks for this, and says which colors it was shown.
async fn plane_requiring(selector: Value) -> (Plane, Told) {
    let told = Told::default();
    let log = told.clone();
    let plane = plane_with_sites_by(move |request| {
        let color = colors(request).join(",");
        log.lock().unwrap().push_str(&color);
        json!({
            "requirements": {"resources": {"it": selector}},
            "desired": {"composite": {"resource": {"status": {"color": color}}}},
        })
    })
    .await;
    create_victim(&plane).await;
    (plane, told)
}

/// The colors in the Secrets and other objects that a function is shown.
fn colors(request: &RunFunctionRequest) -> Vec<String> {
    let items = request.required_resources.values().flat_map(|resources| &resources.items);
    let objects = items.map(|item| item.resource.as_ref().unwrap().json().unwrap());
    let color = |object: &serde_json::Map<String, Value>| {
        let color = object["data"]["color"].as_str().unwrap_or_default();
        let clear = STANDARD.decode(color).ok().filter(|_| object["kind"] == "Secret");
        clear.map_or_else(|| color.to_owned(), |clear| String::from_utf8(clear).unwrap())
    };
    objects.map(color).collect()
}

fn saw(told: &Told, value: &str) -> bool {
    let told = told.lock().unwrap();
    told.contains(value) || told.contains(&STANDARD.encode(value))
}

async fn until_denied(plane: &Plane, what: &str) -> Value {
    let is_denied = |site: &Value| {
        let conditions = site["status"]["conditions"].as_array().into_iter().flatten();
        let mut denials = conditions.filter(|condition| condition["code"] == "AccessNotGranted");
        denials.any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            condition["type"] == "Synced" && condition["status"] == "False" && message.contains(what)
        })
    };
    plane.until(BLOG, is_denied).await
}

fn grant(read: &Value) -> Value {
    json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "blog"},
        "spec": {"to": {"namespaces": ["default"]}, "read": [read]},
    })
}

fn one_secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "namespace": "other", "matchName": "victim"})
}

#[tokio::test]
async fn function_cannot_read_a_secret_of_another_namespace() {
    let (plane, told) = plane_requiring(one_secret()).await;
    plane.create_site("blog", "red").await;
    until_denied(&plane, "Secret `other/victim`").await;
    plane
        .until_said("blog", "Warning/ComposeResources: cannot compose resources: cannot let pipeline step")
        .await;
    assert!(!saw(&told, "stolen"));
}

#[tokio::test]
async fn function_cannot_read_all_secrets_and_nothing_is_kept_of_them() {
    let (plane, told) =
        plane_requiring(json!({"apiVersion": "v1", "kind": "Secret", "matchLabels": {"labels": {}}})).await;
    plane.create_site("blog", "red").await;
    until_denied(&plane, "objects of kind Secret in all namespaces").await;
    assert!(!saw(&told, "stolen"));
    // The site itself. Not one Secret.
    assert_eq!(plane.holdings().objects, 1);
}

#[tokio::test]
async fn objects_of_other_namespaces_are_denied_like_secrets() {
    let selector =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": {"paint": "yes"}}});
    let (plane, _) = plane_requiring(selector).await;
    plane.create_site("blog", "red").await;
    until_denied(&plane, "objects of kind ConfigMap in all namespaces").await;
}

#[tokio::test]
async fn objects_of_cluster_scoped_kinds_need_no_grant() {
    let selector = json!({"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig", "matchName": "paint"});
    let (plane, _) = plane_requiring(selector).await;
    let config = json!({
        "apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig",
        "metadata": {"name": "paint"}, "data": {"color": "green"},
    });
    plane.apply("/apis/apiextensions.crossplane.io/v1beta1/environmentconfigs/paint", &config).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, |site| is_ready(site) && site["status"]["color"] == "green").await;
}

/// Sites are composed by a step that says this besides.
async fn denied_by_composition(step: Value, what: &str) {
    let told = Told::default();
    let log = told.clone();
    let plane = plane_with_sites_by(move |request| {
        log.lock().unwrap().push_str(&ferroplane_wire::to_json(request).unwrap().to_string());
        json!({})
    })
    .await;
    create_victim(&plane).await;
    let mut it = json!({"step": "test", "functionRef": {"name": "function-test"}});
    it.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
    plane.compose_sites_of(&json!([it])).await;
    plane.create_site("blog", "red").await;
    until_denied(&plane, what).await;
    assert!(!saw(&told, "stolen"));
    // The composition is right; it takes a grant.
    let read = json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["other"], "names": ["victim"]});
    plane.apply(GRANT, &grant(&read)).await;
    plane.until(BLOG, is_ready).await;
    assert!(saw(&told, "stolen"));
}

#[tokio::test]
async fn credentials_of_another_namespace_take_a_grant() {
    let secret = json!({"namespace": "other", "name": "victim"});
    let credentials = json!([{"name": "cloud", "source": "Secret", "secretRef": secret}]);
    denied_by_composition(json!({"credentials": credentials}), "Secret `other/victim`").await;
}

#[tokio::test]
async fn input_of_another_namespace_takes_a_grant() {
    let input = json!({"apiVersion": "v1", "kind": "Secret", "name": "victim", "namespace": "other"});
    denied_by_composition(json!({"inputRef": input}), "Secret `other/victim`").await;
}

#[tokio::test]
async fn required_resources_of_another_namespace_take_a_grant() {
    let required = json!([{
        "requirementName": "it", "apiVersion": "v1", "kind": "Secret", "name": "victim", "namespace": "other",
    }]);
    denied_by_composition(json!({"requirements": {"requiredResources": required}}), "Secret `other/victim`")
        .await;
}

#[tokio::test]
async fn grant_is_honoured_at_once_and_until_it_is_removed() {
    let (plane, told) = plane_requiring(one_secret()).await;
    plane.create_site("blog", "red").await;
    until_denied(&plane, "Secret `other/victim`").await;
    let read = json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["other"]});
    plane.apply(GRANT, &grant(&read)).await;
    plane.until(BLOG, |site| is_ready(site) && site["status"]["color"] == "stolen").await;
    plane.quiet().await;
    // A grant that is there costs nothing.
    assert_eq!(plane.quiet().await, Vec::<String>::new());
    // What is granted is followed like anything else.
    plane.apply(VICTIM, &secret("victim", "changed")).await;
    plane.until(BLOG, |site| site["status"]["color"] == "changed").await;
    plane.quiet().await;
    told.lock().unwrap().clear();
    plane.delete(GRANT).await;
    until_denied(&plane, "Secret `other/victim`").await;
    assert!(!saw(&told, "changed"));
}

#[tokio::test]
async fn grant_that_is_changed_counts_as_it_is_and_survives_a_restart() {
    let (mut plane, _) = plane_requiring(one_secret()).await;
    let read = json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["other"], "names": ["victim"]});
    plane.apply(GRANT, &grant(&read)).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    plane.restart().await;
    plane.quiet().await;
    assert!(is_ready(&plane.get(BLOG).await));
    plane.merge(GRANT, &json!({"spec": {"to": {"namespaces": ["other"]}}})).await;
    until_denied(&plane, "Secret `other/victim`").await;
    plane.merge(GRANT, &json!({"spec": {"to": {"namespaces": ["*"]}}})).await;
    plane.until(BLOG, is_ready).await;
}

#[tokio::test]
async fn grant_that_cannot_mean_what_it_says_is_refused() {
    let (plane, _) = plane_requiring(one_secret()).await;
    let rule = json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["other"]});
    let bad = |change: fn(&mut Value)| {
        let mut grant = grant(&rule);
        change(&mut grant["spec"]);
        grant
    };
    for grant in [
        bad(|spec| spec["to"]["namespaces"] = json!([])),
        bad(|spec| spec["to"]["namespaces"] = json!(["team-*"])),
        bad(|spec| spec["to"]["functions"] = json!([])),
        bad(|spec| spec["read"] = json!([])),
        bad(|spec| spec["read"][0]["names"] = json!(["*"])),
        bad(|spec| spec["read"][0]["kinds"] = json!([])),
        bad(|spec| spec["network"] = json!({"hosts": ["example.org"]})),
    ] {
        let path = "/apis/ferroplane.io/v1alpha1/accessgrants?fieldValidation=Strict";
        let (code, answer) = plane.send(http::Method::POST, path, "application/json", &grant).await;
        assert!([400, 422].contains(&code), "{code} {answer} {grant}");
    }
}

#[tokio::test]
async fn secrets_of_the_own_namespace_are_followed_and_not_kept() {
    let own = "/api/v1/namespaces/default/secrets/paint";
    let by_name = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "default", "matchName": "paint"});
    let labels = json!({"labels": {"paint": "yes"}});
    let by_labels =
        json!({"apiVersion": "v1", "kind": "Secret", "namespace": "default", "matchLabels": labels});
    for selector in [by_name, by_labels] {
        let (plane, told) = plane_requiring(selector).await;
        plane.create_site("blog", "red").await;
        plane.until(BLOG, is_ready).await;
        plane.quiet().await;
        plane.apply(own, &secret("paint", "green")).await;
        plane.until(BLOG, |site| site["status"]["color"] == "green").await;
        plane.quiet().await;
        plane.apply(own, &secret("paint", "blue")).await;
        plane.until(BLOG, |site| site["status"]["color"] == "blue").await;
        plane.quiet().await;
        assert_eq!(plane.quiet().await, Vec::<String>::new());
        assert_eq!(plane.holdings().objects, 1);
        plane.delete(own).await;
        plane.until(BLOG, |site| site["status"]["color"].as_str().unwrap_or_default() == "").await;
        assert!(!saw(&told, "stolen"));
    }
}

#[tokio::test]
async fn references_do_not_lead_out_of_the_namespace() {
    let plane = plane_with_sites_by(|_| json!({})).await;
    // Somebody's cluster scoped object that looks composed and that nobody controls.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
        "metadata": {"name": "precious", "annotations": {"crossplane.io/composition-resource-name": "it"}},
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/precious";
    plane.apply(path, &role).await;
    let reference =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "precious"});
    let site = json!({
        "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": "blog"},
        "spec": {"color": "red", "crossplane": {"resourceRefs": [reference]}},
    });
    plane.apply(&format!("{SITES}/blog"), &site).await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    assert!(!plane.get(path).await.is_null());
}

/// Stores, which are legacy composite resources and become what the function says.
async fn plane_with_stores() -> (Plane, Told) {
    let told = Told::default();
    let log = told.clone();
    let plane = Plane::with_function("function-test", move |request| {
        log.lock().unwrap().push_str(&ferroplane_wire::to_json(request).unwrap().to_string());
        let bucket = json!({
            "apiVersion": "cloud.example.org/v1", "kind": "Bucket",
            "spec": {"writeConnectionSecretToRef": {"namespace": "other", "name": "victim"}},
        });
        let desired = json!({"resources": {"bucket": {"resource": bucket, "ready": "READY_TRUE"}}});
        ferroplane_wire::from_json(&json!({"meta": {}, "desired": desired})).unwrap()
    })
    .await;
    create_victim(&plane).await;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open}}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "buckets.cloud.example.org"},
        "spec": {
            "group": "cloud.example.org", "scope": "Cluster", "names": {"kind": "Bucket", "plural": "buckets"},
            "versions": [version],
        },
    });
    plane
        .apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/buckets.cloud.example.org", &crd)
        .await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
    let xrd = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "stores.legacy.example.org"},
        "spec": {
            "group": "legacy.example.org", "names": {"kind": "Store", "plural": "stores"},
            "versions": [{"name": "v1", "served": true, "referenceable": true, "schema": schema}],
        },
    });
    let path = "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions/stores.legacy.example.org";
    plane.apply(path, &xrd).await;
    plane.until(path, |xrd| condition(xrd, "Established").is_some_and(|it| it.starts_with("True"))).await;
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "stores"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "legacy.example.org/v1", "kind": "Store"}, "mode": "Pipeline",
            "pipeline": [{"step": "test", "functionRef": {"name": "function-test"}}],
        },
    });
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/stores", &composition).await;
    (plane, told)
}

#[tokio::test]
async fn legacy_composite_does_not_get_to_read_the_secret_of_somebody_else() {
    let (plane, told) = plane_with_stores().await;
    let store = json!({
        "apiVersion": "legacy.example.org/v1", "kind": "Store", "metadata": {"name": "shop"},
        "spec": {"writeConnectionSecretToRef": {"namespace": "other", "name": "victim"}},
    });
    let path = "/apis/legacy.example.org/v1/stores/shop";
    plane.apply(path, &store).await;
    let is_refused = |store: &Value| {
        let conditions = store["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|it| it["code"] == "ConnectionSecretControlled"))
    };
    plane.until(path, is_refused).await;
    assert!(!told.lock().unwrap().is_empty());
    assert!(!saw(&told, "stolen"));
}

#[tokio::test]
async fn composed_resource_does_not_lend_the_secret_of_somebody_else() {
    let (plane, told) = plane_with_stores().await;
    let store = json!({"apiVersion": "legacy.example.org/v1", "kind": "Store", "metadata": {"name": "shop"}, "spec": {}});
    let path = "/apis/legacy.example.org/v1/stores/shop";
    plane.apply(path, &store).await;
    plane.until(path, |store| condition(store, "Ready").as_deref() == Some("True/Available")).await;
    plane.until_said("shop", "Secret `other/victim` belongs to another object").await;
    plane.quiet().await;
    assert!(!saw(&told, "stolen"));
    // Whoever manages the bucket says that these are its connection details.
    let mut own = secret("victim", "handed over");
    own["type"] = "connection.crossplane.io/v1alpha1".into();
    plane.delete(VICTIM).await;
    plane.apply(VICTIM, &own).await;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while !saw(&told, "handed over") {
        assert!(tokio::time::Instant::now() < deadline, "the details never came");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
