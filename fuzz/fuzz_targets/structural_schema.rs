//! Whatever a schema says, it does to whatever an object is what it should: twice is once.
#![no_main]

use ferroplane_schema::structural::{Coercion, CustomResource, Props, Schema, strict_json};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

// A schema and an object, between them an empty line.
fuzz_target!(|text: &str| {
    let Some((schema, object)) = text.split_once("\n\n") else { return };
    let (Ok((schema, _)), Ok((Value::Object(mut object), _))) = (strict_json::read(schema), strict_json::read(object))
    else {
        return;
    };
    let Ok(props) = Props::decode(&schema) else { return };
    let schema = Schema::compile(&props);
    let resource = CustomResource {
        group: "example.org".to_owned(),
        version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        is_namespaced: true,
        preserves_unknown_fields: false,
        scale: None,
        schema: schema.clone(),
    };
    let mut pruned = object.clone();
    schema.prune(&mut pruned);
    assert!(schema.prune(&mut pruned).is_empty());
    let mut defaulted = object.clone();
    schema.default(&mut defaulted);
    let once = defaulted.clone();
    schema.default(&mut defaulted);
    assert_eq!(once, defaulted);
    object.insert("apiVersion".to_owned(), Value::from("example.org/v1"));
    object.insert("kind".to_owned(), Value::from("Thing"));
    let old = Value::Object(object.clone());
    if resource.admit(&mut object, Coercion::Dropping).is_ok() {
        let object = Value::Object(object);
        for error in resource.validate(&object).iter().chain(&resource.validate_update(&object, &old)) {
            let _ = error.to_string();
        }
    }
});
