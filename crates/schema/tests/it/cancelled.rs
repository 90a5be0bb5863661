//! Whatever goes through a whole object stops when nothing waits for it any more. Each case is one kind of work alone.

use std::sync::Arc;

use ferroplane_cancellation::{Deadline, within};
use ferroplane_golang::yaml::{self, Library};
use ferroplane_ownership::merge::fields;
use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{Request, Version, VersionedKind, apply};
use ferroplane_schema::field::Path;
use ferroplane_schema::meta;
use ferroplane_schema::patch::{facts, json as json_patch, merge, strategic};
use ferroplane_schema::structural::{Coercion, Props, Schema, strict_json};
use ferroplane_schema::table::{Instant, Options, Printer};
use serde_json::{Map, Value, json};

/// More than the steps between two looks at a deadline, whatever is done with each item.
const MANY: usize = 5_000;

/// Does work whose deadline is over before it begins. It must not get to its end.
#[track_caller]
fn is_cut_off<T>(work: impl FnOnce() -> T) {
    assert!(within(&Deadline::new(|| true), work).is_err(), "the work was done to its end");
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 1}},
                    "x-kubernetes-validations": [{"rule": "self.size < 10"}],
                },
            },
            "embedded": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
        },
    })
}

fn compiled() -> Schema {
    Schema::compile(&Props::decode(&schema()).unwrap())
}

fn items() -> Vec<Value> {
    (0..MANY).map(|index| json!({"name": format!("item-{index}"), "size": 1})).collect()
}

fn object() -> Map<String, Value> {
    let embedded: Vec<_> =
        (0..MANY).map(|_| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})).collect();
    let object = json!({
        "apiVersion": "example.org/v1", "kind": "Large", "metadata": {"name": "a"}, "items": items(), "embedded": embedded,
    });
    object.as_object().unwrap().clone()
}

#[test]
fn texts_are_not_read_to_their_end() {
    let text = Value::Object(object()).to_string();
    is_cut_off(|| strict_json::read(&text));
    is_cut_off(|| yaml::read(&text, Library::V3));
    let block = "- name: a\n".repeat(MANY);
    is_cut_off(|| yaml::read(&block, Library::V3));
}

#[test]
fn objects_are_not_fitted_to_their_schema() {
    let (schema, object) = (compiled(), object());
    is_cut_off(|| schema.prune(&mut object.clone()));
    is_cut_off(|| schema.drop_nulls(&mut object.clone()));
    is_cut_off(|| schema.default(&mut object.clone()));
    is_cut_off(|| schema.coerce(&mut object.clone(), Coercion::Strict));
}

#[test]
fn objects_are_not_validated() {
    let (schema, object) = (compiled(), object());
    is_cut_off(|| schema.validate_embedded(&object, &Path::NIL));
    let value = Value::Object(object);
    is_cut_off(|| schema.validate(&value, &Path::NIL));
    is_cut_off(|| schema.validate_rules(&value, None, &Path::NIL));
}

#[test]
fn schemas_are_not_compiled() {
    let properties: Map<_, _> =
        (0..MANY).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
    let props = Props::decode(&json!({"type": "object", "properties": properties})).unwrap();
    is_cut_off(|| Schema::compile(&props));
}

#[test]
fn owner_references_are_not_validated() {
    let owner = |index| json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": format!("u-{index}")});
    let metadata = json!({"ownerReferences": (0..MANY).map(owner).collect::<Vec<_>>()});
    is_cut_off(|| meta::validate_owner_references(metadata.as_object().unwrap(), &Path::NIL));
}

#[test]
fn patches_are_not_applied() {
    let document = Value::Object(object());
    let operations: Vec<_> =
        (0..MANY).map(|_| json!({"op": "add", "path": "/items/0", "value": 1})).collect();
    let patch = json_patch::Patch::decode(Value::Array(operations)).unwrap();
    is_cut_off(|| patch.apply(document.clone()));

    let fields: Map<_, _> = (0..MANY).map(|index| (format!("f{index}"), json!(1))).collect();
    is_cut_off(|| merge::apply(&mut object(), Value::Object(fields)));

    let list = facts::PatchField::new(facts::PatchShape::list(facts::PatchShape::object("Item")));
    let facts = facts::Facts::default().with(
        "Large",
        "items",
        list.with_strategy(facts::Strategy::Merge).with_merge_key("name"),
    );
    let patch = json!({"items": items()}).as_object().unwrap().clone();
    is_cut_off(|| strategic::apply(&mut object(), patch, facts.kind("Large").unwrap()));
}

#[test]
fn configurations_are_not_applied() {
    let shapes = Arc::new(Shapes::of_custom_resource(Some(&schema())).unwrap());
    let versions = vec![Version { api_version: "example.org/v1".into(), shapes }];
    let kind = VersionedKind { name: "Large".into(), versions };
    let request = Request {
        manager: "me",
        api_version: "example.org/v1",
        time: "2026-01-01T00:00:00Z",
        subresource: "",
        reset_fields: None,
        converter: None,
    };
    let object = object();
    is_cut_off(|| apply(Some(&object), &object, &kind, &request, false).map(drop));

    let owned: Map<_, _> = (0..MANY).map(|index| (format!("f:f{index}"), json!({}))).collect();
    let owned = Value::Object(owned);
    is_cut_off(|| fields::read(&owned).map(drop));
}

#[test]
fn tables_are_not_printed() {
    let objects: Vec<_> = (0..10).map(|index| json!({"metadata": {"name": format!("{index}")}})).collect();
    let printer = Printer::read(&[]).unwrap();
    let now = Instant { seconds: 0, nanoseconds: 0 };
    // Rows may be large, so that each of them is a step of its own.
    is_cut_off(|| printer.table(&objects, &json!({}), Options::default(), now));
}
