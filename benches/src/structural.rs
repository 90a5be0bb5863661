//! What the schema of a custom resource does to objects of 2, 20 and 200 KB.

use std::hint::black_box;
use std::time::Duration;

use ferroplane_schema::field::Path;
use ferroplane_schema::structural::{Coercion, CustomResource, Props, Schema};
use serde_json::{Map, Value, json};

use crate::measure::{Times, pretty};

pub(crate) fn run() {
    let resource = resource();
    println!("| object | what | best | p50 |\n|---|---|---|---|");
    for items in [12, 138, 1385] {
        let object = object(items);
        let size = Value::Object(object.clone()).to_string().len();
        measure(&resource, &object, size);
    }
}

fn measure(resource: &CustomResource, object: &Map<String, Value>, size: usize) {
    let budget = Duration::from_millis(500);
    let schema = &resource.schema;
    let mut admitted = object.clone();
    resource.admit(&mut admitted, Coercion::Strict).expect("it is acceptable");
    let value = Value::Object(admitted.clone());
    assert!(resource.validate(&value).is_empty(), "{:?}", resource.validate(&value));
    let report = |what: &str, times: &Times| {
        println!("| {size} bytes | {what} | {} | {} |", pretty(times.best()), pretty(times.p50()));
    };
    report("validate by schema", &Times::of(budget, || schema.validate(black_box(&value), &Path::NIL)));
    report("lists", &Times::of(budget, || schema.validate_lists(black_box(&admitted), &Path::NIL)));
    report("rules", &Times::of(budget, || schema.validate_rules(black_box(&value), None, &Path::NIL)));
    report("validate, all of it", &Times::of(budget, || resource.validate(black_box(&value))));
    report("validate an update", &Times::of(budget, || resource.validate_update(black_box(&value), &value)));
    let clone = Times::of(budget, || object.clone());
    report("(clone)", &clone);
    let prune = Times::of(budget, || {
        let mut object = object.clone();
        schema.prune_silently(&mut object);
        schema.drop_nulls(&mut object);
        schema.default(&mut object);
        object
    });
    report("clone, prune and default", &prune);
    let admit = Times::of(budget, || {
        let mut object = object.clone();
        resource.admit(&mut object, Coercion::Strict).expect("it is acceptable");
        object
    });
    report("clone and admit", &admit);
}

fn resource() -> CustomResource {
    let item = json!({
        "type": "object", "required": ["name", "port"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z][-a-z0-9]*$"},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
            "weight": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "ready": {"type": "boolean", "default": false},
        },
    });
    let schema = json!({
        "type": "object", "required": ["spec"],
        "properties": {"spec": {
            "type": "object", "required": ["region"],
            "properties": {
                "region": {"type": "string", "enum": ["eu", "us"]},
                "size": {"type": "string", "default": "small"},
                "since": {"type": "string", "format": "date-time"},
                "endpoints": {
                    "type": "array", "items": item, "maxItems": 2000, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
            },
            "x-kubernetes-validations": [{"rule": "self.size != 'large' || self.region == 'eu'"}],
        }},
    });
    let props = Props::decode(&schema).expect("the schema is fixed");
    CustomResource {
        group: "example.org".to_owned(),
        version: "v1".to_owned(),
        kind: "Service".to_owned(),
        is_namespaced: true,
        preserves_unknown_fields: false,
        scale: None,
        schema: Schema::compile(&props),
    }
}

fn object(items: usize) -> Map<String, Value> {
    let endpoint = |index: usize| {
        json!({
            "name": format!("endpoint-{index}"), "port": 8000 + index % 1000, "weight": if index.is_multiple_of(2) { json!(5) } else { json!("50%") },
            "labels": {"app.kubernetes.io/name": "backend", "topology.kubernetes.io/zone": "eu-1"}, "ready": index.is_multiple_of(3),
        })
    };
    let object = json!({
        "apiVersion": "example.org/v1", "kind": "Service",
        "metadata": {"name": "backend", "namespace": "default", "labels": {"team": "a"}, "annotations": {"note": "none"}},
        "spec": {"region": "eu", "since": "2024-01-02T03:04:05Z", "endpoints": (0..items).map(endpoint).collect::<Vec<_>>()},
    });
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
