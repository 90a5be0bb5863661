//! Whatever is applied and updated, it ends without a panic, and a plan says whether it changes anything.
#![no_main]

use std::sync::{Arc, LazyLock};

use ferroplane_ownership::{self as ownership, VersionedKind, Request, Version};
use ferroplane_ownership::merge::shape::Shapes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use ferroplane_golang::json::JsonObject;

static KIND: LazyLock<VersionedKind> = LazyLock::new(|| {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let keyed = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
        "items": {"type": "object", "properties": {
            "k": {"type": "string"}, "p": {"type": "integer", "default": 1}, "v": any,
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
        }}
    });
    let schema = json!({"type": "object", "properties": {
        "a": any, "k": keyed, "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": keyed},
        "w": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": any}
    }});
    let version = |name: &str, schema: Option<&Value>| Version {
        api_version: name.to_owned(),
        shapes: Arc::new(Shapes::of_custom_resource(schema).expect("it is structural")),
    };
    VersionedKind { name: "K".to_owned(), versions: vec![version("g/v1", Some(&schema)), version("g/v2", None)] }
});

fuzz_target!(|data: &[u8]| {
    let Ok(steps) = serde_json::from_slice::<Vec<Value>>(data) else { return };
    let mut live: Option<JsonObject> = None;
    for (index, step) in steps.into_iter().take(8).enumerate() {
        let Value::Object(mut object) = step else { continue };
        let flags = object.remove("!").and_then(|flags| flags.as_u64()).unwrap_or_default();
        let api_version = if flags & 1 == 0 { "g/v1" } else { "g/v2" };
        let time = format!("2026-01-01T00:00:{index:02}Z");
        let request = Request {
            manager: ["m1", "m2", "kubectl", ""][(flags >> 1 & 3) as usize],
            api_version,
            subresource: if flags & 8 == 0 { "" } else { "status" },
            time: &time,
            reset_fields: None,
            converter: None,
        };
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), "K".into());
        if flags & 16 == 0 {
            live = Some(ownership::update(live.as_ref(), object, &KIND, &request).object);
            continue;
        }
        let Ok(plan) = ownership::apply(live.as_ref(), &object, &KIND, &request, flags & 32 != 0) else { continue };
        let before = live.take().unwrap_or_default();
        let changes_nothing = plan.changes_nothing();
        let after = plan.perform(before.clone());
        assert_eq!(changes_nothing, after == before);
        live = Some(after);
    }
});
