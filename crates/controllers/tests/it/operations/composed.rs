//! Operations that come with something else: composed by a composite resource, or in a Configuration.

use ferroplane_testkit::plane::{FakeRegistry, Plane, condition};
use serde_json::{Value, json};

use super::{FUNCTION, MAPS, OPERATIONS, map, plane_that_answers, spec, until_succeeded};
use crate::packages::{apply, healthy, package_yaml};

const EXTENSIONS: &str = "/apis/apiextensions.crossplane.io";

/// Define a kind that is composed of an operation of each kind.
async fn define(plane: &Plane, scope: &str) {
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "chores.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "Chore", "plural": "chores"}, "scope": scope,
            "versions": [{"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    plane
        .apply(&format!("{EXTENSIONS}/v2/compositeresourcedefinitions/chores.example.org"), &definition)
        .await;
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "chores"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Chore"}, "mode": "Pipeline",
            "pipeline": [
                {"step": "compose", "functionRef": {"name": FUNCTION}},
                {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
            ],
        },
    });
    plane.apply(&format!("{EXTENSIONS}/v1/compositions/chores"), &composition).await;
    plane.until("/apis/example.org/v1", |kinds| kinds["resources"].as_array().is_some()).await;
}

/// A plane whose function composes operations if it is asked for a composite resource, and otherwise makes a `ConfigMap`.
async fn composing() -> Plane {
    plane_that_answers(|request| {
        if request.observed.is_none() {
            return json!({"desired": {"resources": {"m": map("made", &json!({"by": "operation"}))}}});
        }
        let object = |kind: &str, spec: Value| {
            json!({"resource": {"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "spec": spec}})
        };
        let template = json!({"spec": spec()});
        json!({"desired": {"resources": {
            "once": object("Operation", spec()),
            "daily": object("CronOperation", json!({"schedule": "0 0 1 1 *", "operationTemplate": template})),
            "watching": object("WatchOperation", json!({
                "watch": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"is": "watched"}}, "operationTemplate": template,
            })),
        }}})
    })
    .await
}

#[tokio::test]
async fn composite_resource_is_ready_when_its_operation_has_succeeded() {
    let plane = composing().await;
    define(&plane, "Cluster").await;
    let path = "/apis/example.org/v1/chores/c";
    let chore =
        json!({"apiVersion": "example.org/v1", "kind": "Chore", "metadata": {"name": "c"}, "spec": {}});
    plane.apply(path, &chore).await;
    let ready = plane.until(path, |it| condition(it, "Ready").as_deref() == Some("True/Available")).await;
    assert_eq!(condition(&ready, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    assert_eq!(plane.get(&format!("{MAPS}/made")).await["data"], json!({"by": "operation"}));
    let list = plane.get(OPERATIONS).await;
    let [operation] = &list["items"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!(operation["metadata"]["ownerReferences"][0]["kind"], "Chore");
}

#[tokio::test]
async fn composite_resource_in_a_namespace_may_not_compose_an_operation_and_says_why() {
    let plane = composing().await;
    define(&plane, "Namespaced").await;
    let path = "/apis/example.org/v1/namespaces/default/chores/c";
    let chore =
        json!({"apiVersion": "example.org/v1", "kind": "Chore", "metadata": {"name": "c"}, "spec": {}});
    plane.apply(path, &chore).await;
    let refused =
        plane.until(path, |it| condition(it, "Synced").as_deref() == Some("False/ReconcileError")).await;
    let conditions = refused["status"]["conditions"].as_array().unwrap();
    let synced = conditions.iter().find(|it| it["type"] == "Synced").unwrap();
    assert_eq!(synced["code"], "ComposedResourceClusterScoped", "{synced}");
    let message = synced["message"].as_str().unwrap();
    assert!(message.contains("cluster scoped") && message.contains("Operation"), "{message}");
    assert_eq!(plane.get(OPERATIONS).await["items"], json!([]));
}

#[tokio::test]
async fn configuration_brings_operations_of_all_three_kinds() {
    let registry = FakeRegistry::default();
    let input = json!({
        "apiVersion": "validation.fn.ferroplane.io/v1beta1", "kind": "Validation", "rules": [{"rule": "true", "message": "no"}],
    });
    let step = json!({"step": "check", "functionRef": {"name": "function-cel-validation"}, "input": input});
    let spec = json!({"mode": "Pipeline", "pipeline": [step]});
    let template = json!({"spec": spec});
    let object = |kind: &str, spec: &Value| json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "packaged"}, "spec": spec});
    let watch = json!({"watch": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"is": "watched"}}, "operationTemplate": template});
    let objects = [
        object("Operation", &spec),
        object("CronOperation", &json!({"schedule": "0 0 1 1 *", "operationTemplate": template})),
        object("WatchOperation", &watch),
    ];
    let image = "registry.example.org/acme/chores:v1.0.0";
    registry.push(image, &package_yaml("Configuration", &json!({}), &objects));
    let plane = Plane::with_registry(&registry).await;
    let path = apply(&plane, "Configuration", "chores", "acme/chores:v1.0.0", &json!({})).await;
    healthy(&plane, &path).await;
    // It runs once, when the Configuration is installed.
    let done = until_succeeded(&plane, "packaged", "True/PipelineSuccess").await;
    assert_eq!(done["metadata"]["ownerReferences"][0]["kind"], "ConfigurationRevision");
    for (plural, wanted) in [("cronoperations", "Scheduling"), ("watchoperations", "Watching")] {
        let path = format!("/apis/ops.crossplane.io/v1alpha1/{plural}/packaged");
        plane.until(&path, |it| condition(it, wanted).is_some_and(|it| it.starts_with("True/"))).await;
    }
}
