//! Objects of the size that users have.

use std::collections::BTreeMap;

use ferroplane_wire::Struct;
use serde_json::{Map, Value, json};

/// A composed resource of about a kilobyte.
pub(crate) fn composed(number: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": format!("app-{number}"),
            "labels": {"app.kubernetes.io/name": "app", "app.kubernetes.io/instance": format!("app-{number}")},
            "annotations": {"example.org/description": "a resource that is about as long as they are in practice"}
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": format!("app-{number}")}},
            "template": {
                "metadata": {"labels": {"app": format!("app-{number}")}},
                "spec": {"containers": [{
                    "name": "app", "image": "registry.example/acme/app:v1.2.3",
                    "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 9090, "name": "metrics"}],
                    "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-west-1"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5}
                }]}
            }
        }
    })
}

/// The composite resource.
pub(crate) fn xr() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "App",
        "metadata": {"name": "app", "uid": "75e4a668-035f-4ce8-8c45-f4d3ac850155", "labels": {"crossplane.io/composite": "app"}},
        "spec": {"size": "small", "regions": ["eu-west-1", "eu-central-1"], "replicas": 3}
    })
}

/// The step input that makes the dummy function answer with this many resources.
pub(crate) fn dummy_input(resources: usize) -> Value {
    let resources: BTreeMap<_, _> = (0..resources)
        .map(|number| {
            (format!("resource-{number:03}"), json!({"resource": composed(number), "ready": "READY_TRUE"}))
        })
        .collect();
    json!({
        "apiVersion": "dummy.fn.crossplane.io/v1beta1", "kind": "Response",
        "response": {"desired": {"resources": resources}}
    })
}

/// A composition of the dummy function: one step that makes resources, and others that pass them on.
pub(crate) fn composition(steps: usize, resources: usize) -> Value {
    let pipeline: Vec<_> = (0..steps)
        .map(|step| {
            let mut value =
                json!({"step": format!("step-{step}"), "functionRef": {"name": "function-dummy"}});
            if step == 0 {
                value["input"] = dummy_input(resources);
            }
            value
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "app"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "App"}, "mode": "Pipeline", "pipeline": pipeline
        }
    })
}

/// A JSON object. Panics on anything else.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    object
}

/// A JSON object, as it crosses the wire.
pub(crate) fn to_struct(value: Value) -> Struct {
    Struct::try_from(object(value)).expect("it is not deep")
}
