//! What the schema of a custom resource does to objects of 2, 20 and 200 KB.

use std::time::Duration;

use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::structural::{Coercion, CustomResource, Props, Schema};
use serde_json::{Map, Value, json};

use crate::measure::{HEAD, Measured};

const BUDGET: Duration = Duration::from_millis(300);
const RULE: &str = "self.size != 'large' || self.region == 'eu'";
const RULE_FOR_ALL: &str =
    "self.endpoints.all(e, e.port < 65536 && (e.ready || e.name.startsWith('endpoint-')))";

pub(crate) fn run() {
    println!("{HEAD}");
    for items in [12, 138, 1385] {
        let object = object(items);
        let size = Value::Object(object.clone()).to_string().len();
        measure(&object, size);
    }
}

fn measure(object: &Map<String, Value>, size: usize) {
    let resource = resource(RULE);
    let schema = &resource.schema;
    let admitted = admit(&resource, object.clone());
    let value = Value::Object(admitted.clone());
    assert!(resource.validate(&value).is_empty(), "{:?}", resource.validate(&value));
    let look = |what: &str, work: &dyn Fn() -> Vec<Error>| {
        Measured::of(BUDGET, || (), |()| work()).print(what, size);
    };
    look("validate by schema", &|| schema.validate(&value, &Path::NIL));
    look("lists", &|| schema.validate_lists(&admitted, &Path::NIL));
    look("a rule", &|| schema.validate_rules(&value, None, &Path::NIL));
    let every = self::resource(RULE_FOR_ALL).schema;
    assert!(every.validate_rules(&value, None, &Path::NIL).is_empty());
    look("a rule about every item", &|| every.validate_rules(&value, None, &Path::NIL));
    look("validate, all of it", &|| resource.validate(&value));
    look("validate an update", &|| resource.validate_update(&value, &value));
    look("validate a write to the status", &|| resource.validate_status_update(&value, &value));
    let change = |what: &str, work: &dyn Fn(&mut Map<String, Value>)| {
        let work = |mut object: Map<String, Value>| {
            work(&mut object);
            object
        };
        Measured::of(BUDGET, || object.clone(), work).print(what, size);
    };
    change("prune", &|object| schema.prune_silently(object));
    change("default", &|object| schema.default(object));
    change("all that is done to what is sent", &|object| {
        resource.admit(object, Coercion::Strict).expect("it is acceptable");
    });
    Measured::of(BUDGET, || (), |()| object.clone()).print("(clone)", size);
}

fn admit(resource: &CustomResource, mut object: Map<String, Value>) -> Map<String, Value> {
    resource.admit(&mut object, Coercion::Strict).expect("it is acceptable");
    object
}

fn resource(rule: &str) -> CustomResource {
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
            "x-kubernetes-validations": [{"rule": rule}],
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
