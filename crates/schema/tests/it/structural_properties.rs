//! What holds for every schema and every object.

use ferroplane_schema::field::Path;
use ferroplane_schema::structural::crd::{self, Definition};
use ferroplane_schema::structural::{
    Coercion, CustomResource, MAX_DEPTH, Props, Schema, openapi, strict_json,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-5..9i64).prop_map(Value::from),
        (0..40i32).prop_map(|number| Value::from(f64::from(number) / 4.0)),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|metadata|kind|apiVersion", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-d]|metadata|kind|apiVersion|spec", value(), 0..5)
        .prop_map(|fields| fields.into_iter().collect())
}

/// A schema that says things that fit, and some that do not.
fn schema() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!({"type": "string", "maxLength": 2, "pattern": "^[a-c]*$"})),
        Just(json!({"type": "integer", "minimum": 0, "default": 3})),
        Just(json!({"type": "number", "multipleOf": 0.5, "format": "float"})),
        Just(json!({"type": "boolean", "nullable": true, "default": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "string", "enum": ["a", "b"], "default": "a"})),
        Just(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        ),
        value(),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        let properties = prop::collection::btree_map("[a-d]|spec", inner.clone(), 0..4);
        prop_oneof![
            (properties, inner.clone()).prop_map(|(properties, default)| {
                let mut properties: Map<_, _> = properties.into_iter().collect();
                properties.entry("a").or_insert_with(|| json!({"type": "string"}));
                json!({"type": "object", "properties": properties, "required": ["a"], "default": default})
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|items| {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})
            }),
            inner.clone().prop_map(|other| json!({"type": "object", "additionalProperties": other})),
            (inner.clone(), inner).prop_map(|(one, other)| {
                json!({"type": "object", "properties": {"a": one}, "anyOf": [{"required": ["a"]}, other]})
            }),
        ]
    })
}

fn compile(json: &Value) -> Option<Schema> {
    Props::decode(json).ok().map(|props| Schema::compile(&props))
}

fn resource(schema: Schema) -> CustomResource {
    CustomResource {
        group: "example.org".to_owned(),
        version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        is_namespaced: false,
        preserves_unknown_fields: false,
        scale: None,
        schema,
    }
}

proptest! {
    #[test]
    fn what_is_pruned_stays_pruned(schema in schema(), object in object()) {
        let Some(schema) = compile(&schema) else { return Ok(()) };
        let mut once = object;
        schema.prune(&mut once);
        let mut twice = once.clone();
        prop_assert!(schema.prune(&mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn pruning_takes_the_same_whether_or_not_it_is_reported(schema in schema(), object in object()) {
        let Some(schema) = compile(&schema) else { return Ok(()) };
        let (mut one, mut other) = (object.clone(), object);
        schema.prune(&mut one);
        schema.prune_silently(&mut other);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn what_has_defaults_gets_no_more(schema in schema(), object in object()) {
        let Some(schema) = compile(&schema) else { return Ok(()) };
        let mut once = object;
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_is_valid_stays_valid_when_pruned(schema in schema(), object in object()) {
        // Fields that nobody named may be counted or refused; those schemas are left out.
        let text = schema.to_string();
        prop_assume!(!text.contains("additionalProperties") && !text.contains("anyOf") && !text.contains("Properties\":") && !text.contains("enum"));
        let Some(schema) = compile(&schema) else { return Ok(()) };
        let mut pruned = object.clone();
        schema.prune(&mut pruned);
        if schema.validate(&Value::Object(object), &Path::NIL).is_empty() {
            prop_assert_eq!(schema.validate(&Value::Object(pruned), &Path::NIL), []);
        }
    }

    #[test]
    fn nothing_is_held_against_what_did_not_change(schema in schema(), object in object()) {
        let Some(schema) = compile(&schema) else { return Ok(()) };
        let mut object = object;
        schema.prune(&mut object);
        let object = Value::Object(object);
        let created = schema.validate(&object, &Path::NIL);
        let updated = schema.validate_update(&object, &object, &Path::NIL);
        prop_assert!(updated.len() <= created.len());
        prop_assert!(updated.iter().all(|error| created.contains(error)));
    }

    #[test]
    fn any_object_is_judged(schema in schema(), object in object(), old in object()) {
        let Some(schema) = compile(&schema) else { return Ok(()) };
        let resource = resource(schema);
        for coercion in [Coercion::Strict, Coercion::Dropping] {
            let mut object = object.clone();
            object.insert("apiVersion".to_owned(), json!("example.org/v1"));
            object.insert("kind".to_owned(), json!("Thing"));
            if resource.admit(&mut object, coercion).is_ok() {
                let (object, old) = (Value::Object(object), Value::Object(old.clone()));
                for error in resource.validate(&object).iter().chain(&resource.validate_update(&object, &old)) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }

    #[test]
    fn any_definition_is_judged(schema in schema(), odd in value()) {
        let mut json = json!({
            "metadata": {"name": "things.example.org", "labels": odd.clone()},
            "spec": {
                "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing", "shortNames": odd.clone()},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}, odd],
            },
        });
        let json = json.as_object_mut().expect("it is one");
        crd::default(json);
        let Ok(definition) = Definition::decode(json) else { return Ok(()) };
        let created = crd::validate(&definition);
        let updated = crd::validate_update(&definition, &definition);
        prop_assert!(created.iter().chain(&updated).all(|error| !error.to_string().is_empty()));
        prop_assert!(openapi::version_3(&definition, "v1").is_some());
        prop_assert!(openapi::version_2(&definition, "v1").is_some());
    }

    #[test]
    fn any_text_is_read_as_serde_reads_it(value in value()) {
        let (read, duplicates) = strict_json::read(&value.to_string()).expect("it is JSON");
        prop_assert_eq!(read, value);
        prop_assert!(duplicates.is_empty());
    }
}

#[test]
fn deep_schemas_are_refused_and_deepest_ones_fit_into_a_small_stack() {
    let run = || {
        let mut schema = json!({"type": "object"});
        for _ in 0..MAX_DEPTH {
            schema = json!({"type": "object", "properties": {"a": schema}, "x-kubernetes-validations": [{"rule": "true"}]});
        }
        let mut definition = json!({
            "metadata": {"name": "things.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let json = definition.as_object_mut().expect("it is one");
        crd::default(json);
        let definition = Definition::decode(json).expect("it is not too deep");
        assert_eq!(crd::validate(&definition), []);
        assert!(openapi::version_3(&definition, "v1").is_some());
        let schema = Schema::compile(definition.schema("v1").expect("it is there"));
        let mut object = json!({});
        for _ in 0..MAX_DEPTH {
            object = json!({"a": object});
        }
        assert_eq!(schema.validate(&object, &Path::NIL), []);
        assert_eq!(schema.validate_rules(&object, Some(&object), &Path::NIL), []);
        let deeper = json!({"properties": {"a": json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]}});
        assert!(Props::decode(&deeper).is_err());
    };
    // Threads of servers and tests have two megabytes.
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(run)
        .expect("there are threads")
        .join()
        .expect("it ends");
}

#[test]
fn deep_values_fit_into_a_small_stack() {
    let run = || {
        let mut value = json!({"a": 1});
        for _ in 0..120 {
            value = json!({"a": [value]});
        }
        let schema =
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}});
        let schema = compile(&schema).expect("it is a schema");
        let mut object = value.as_object().expect("it is one").clone();
        assert!(!schema.validate(&value, &Path::NIL).is_empty());
        schema.prune(&mut object);
    };
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(run)
        .expect("there are threads")
        .join()
        .expect("it ends");
}
