//! What holds for every sequence of writes.
//!
//! Lists and maps that are applied are not empty: of those, Kubernetes forgets who applied them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::merge::fields;
use ferroplane_ownership::merge::path::{Element, Scalar};
use ferroplane_ownership::merge::set::Set;
use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{self as ownership, Request, Version, VersionedKind};
use proptest::prelude::*;
use serde_json::{Value, json};

const VERSION: &str = "example.org/v1";

fn kind() -> VersionedKind {
    let scalar = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": scalar, "b": scalar,
        "map": {"type": "object", "additionalProperties": scalar},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": scalar},
        "set": {"type": "array", "items": scalar, "x-kubernetes-list-type": "set"},
        "list": {"type": "array", "items": scalar},
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "value": scalar,
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
            }}
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}}});
    let shapes = Shapes::of_custom_resource(Some(&schema)).expect("the schema is structural");
    let version = Version { api_version: VERSION.to_owned(), shapes: Arc::new(shapes) };
    VersionedKind { name: "Widget".to_owned(), versions: vec![version] }
}

fn number() -> impl Strategy<Value = Value> {
    (0..3_i32).prop_map(Value::from)
}

fn numbers() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[xyz]", number(), 1..3).prop_map(|map| json!(map))
}

fn item() -> impl Strategy<Value = Value> {
    let tags = prop::collection::btree_set("[pq]", 1..3);
    (prop::option::of(number()), prop::option::of(tags)).prop_map(|(value, tags)| {
        let mut item = json!({});
        if let Some(value) = value {
            item["value"] = value;
        }
        if let Some(tags) = tags {
            item["tags"] = json!(tags);
        }
        item
    })
}

fn items() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[uvw]", item(), 1..4).prop_shuffle_values()
}

trait Shuffled: Strategy {
    fn prop_shuffle_values(self) -> BoxedStrategy<Value>;
}

impl<S: Strategy<Value = BTreeMap<String, Value>> + 'static> Shuffled for S {
    fn prop_shuffle_values(self) -> BoxedStrategy<Value> {
        let named = self.prop_map(|items| {
            items
                .into_iter()
                .map(|(name, mut item)| {
                    item["name"] = name.into();
                    item
                })
                .collect::<Vec<_>>()
        });
        named.prop_shuffle().prop_map(Value::from).boxed()
    }
}

fn spec() -> impl Strategy<Value = Value> {
    let optional = |strategy: BoxedStrategy<Value>| prop::option::of(strategy);
    let set = prop::collection::btree_set(0..4_i32, 1..4).prop_map(|set| json!(set));
    let list = prop::collection::vec(0..3_i32, 0..3).prop_map(|list| json!(list));
    let free = prop_oneof![numbers(), numbers().prop_map(|numbers| json!({"below": numbers, "l": [1]}))];
    (
        optional(number().boxed()),
        optional(number().boxed()),
        optional(numbers().boxed()),
        optional(numbers().boxed()),
        optional(set.boxed()),
        optional(list.boxed()),
        optional(items().boxed()),
        optional(free.boxed()),
    )
        .prop_map(|(a, b, map, whole, set, list, items, free)| {
            let names = ["a", "b", "map", "whole", "set", "list", "items", "free"];
            let values = [a, b, map, whole, set, list, items, free];
            let fields = names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)));
            Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
        })
}

/// Has a label, so that a user who applies it owns something.
fn object(spec: &Value) -> JsonObject {
    let metadata = json!({"name": "w", "labels": {"example.org/label": "x"}});
    let object = json!({"apiVersion": VERSION, "kind": "Widget", "metadata": metadata, "spec": spec});
    object.as_object().cloned().expect("it is an object")
}

fn request(manager: &str) -> Request<'_> {
    Request {
        manager,
        api_version: VERSION,
        subresource: "",
        time: "2026-01-01T00:00:00Z",
        reset_fields: None,
        converter: None,
    }
}

/// Applies by force, and stores.
fn apply(live: Option<JsonObject>, manager: &str, spec: &Value, kind: &VersionedKind) -> JsonObject {
    let applied = object(spec);
    let plan =
        ownership::apply(live.as_ref(), &applied, kind, &request(manager), true).expect("it is forced");
    let mut object = plan.perform(live.unwrap_or_default());
    object["metadata"]["uid"] = "uid".into();
    object
}

fn sets(object: &JsonObject) -> Vec<(String, Set<'_>)> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let manager = entry["manager"].as_str().unwrap_or_default().to_owned();
            (manager, fields::read(&entry["fieldsV1"]).expect("it is readable").set)
        })
        .collect()
}

fn element() -> impl Strategy<Value = Element<'static>> {
    prop_oneof![
        ".{0,3}".prop_map(Element::field),
        (".{0,3}", any::<i32>()).prop_map(|(name, value)| {
            Element::key(vec![
                ("name".into(), Scalar::Text(name.into())),
                ("port".into(), Scalar::Float(f64::from(value))),
            ])
        }),
        ".{0,3}".prop_map(|text| Element::value(Scalar::Text(text.into()))),
        any::<i32>().prop_map(|value| Element::value(Scalar::Float(f64::from(value)))),
        any::<bool>().prop_map(|truth| Element::value(Scalar::Bool(truth))),
        any::<i32>().prop_map(|index| Element::Index(i64::from(index))),
    ]
}

fn field_paths() -> impl Strategy<Value = Set<'static>> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..12).prop_map(|paths| {
        let mut set = Set::default();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}

fn exists(object: &JsonObject, path: &[Element<'_>]) -> bool {
    let mut place = Value::Object(object.clone());
    path.iter().all(|element| {
        let found = match element {
            Element::Field(name) => place.get(&**name),
            Element::Key(keys) => {
                let is_wanted = |item: &&Value| {
                    let name = item["name"].as_str().unwrap_or_default();
                    keys.iter().all(|(_, key)| key.to_string() == format!("{name:?}"))
                };
                place.as_array().and_then(|items| items.iter().find(is_wanted))
            }
            Element::Value(value) => {
                let is_wanted = |item: &&Value| Scalar::of(item).to_string() == value.to_string();
                place.as_array().and_then(|items| items.iter().find(is_wanted))
            }
            _ => None,
        };
        let found = found.cloned();
        place = found.clone().unwrap_or_default();
        found.is_some()
    })
}

proptest! {
    #[test]
    fn applying_comes_to_rest(specs in prop::collection::vec((0..3_usize, spec()), 1..6)) {
        let kind = kind();
        let managers = ["m1", "m2", "m3"];
        let mut live = None;
        for (manager, spec) in &specs {
            // What loses all its fields is null at first, and empty if it is applied as that.
            let once = apply(live, managers[*manager], spec, &kind);
            let twice = apply(Some(once.clone()), managers[*manager], spec, &kind);
            if !has_null(&once["spec"]) {
                prop_assert_eq!(&once, &twice);
            }
            let again = object(spec);
            let plan = ownership::apply(Some(&twice), &again, &kind, &request(managers[*manager]), false);
            prop_assert!(plan.expect("everything is owned already").changes_nothing());
            live = Some(twice);
        }
    }

    #[test]
    fn what_is_applied_is_there_and_owned(specs in prop::collection::vec((0..3_usize, spec()), 1..6)) {
        let kind = kind();
        let managers = ["m1", "m2", "m3"];
        let mut live = None;
        for (manager, spec) in &specs {
            let object = apply(live, managers[*manager], spec, &kind);
            for (owner, owned) in sets(&object) {
                owned.for_each(&mut |path| assert!(exists(&object, path), "{owner} owns what is not there"));
            }
            live = Some(object);
        }
    }

    #[test]
    fn only_equal_values_are_owned_together(specs in prop::collection::vec((0..3_usize, numbers()), 1..8)) {
        let kind = kind();
        let managers = ["m1", "m2", "m3"];
        let mut wanted = BTreeMap::new();
        let mut live = None;
        for (manager, numbers) in &specs {
            let object = apply(live, managers[*manager], &json!({ "map": numbers }), &kind);
            wanted.insert(managers[*manager].to_owned(), numbers);
            for (owner, owned) in sets(&object) {
                for name in ["x", "y", "z"] {
                    let path = ["spec", "map", name].map(Element::field);
                    if owned.contains(&path) {
                        prop_assert_eq!(wanted[&owner].get(name), object["spec"]["map"].get(name));
                    }
                }
            }
            live = Some(object);
        }
    }

    #[test]
    fn sets_survive_the_wire(set in field_paths()) {
        let wire = fields::write(&set);
        let read = fields::read(&wire).expect("it was just written");
        prop_assert!(read.is_canonical);
        prop_assert_eq!(&read.set, &set);
        let text: Value = serde_json::from_str(&fields::write_text(&set)).expect("it is JSON");
        prop_assert_eq!(text, wire);
    }

    #[test]
    fn sets_are_sets(one in field_paths(), other in field_paths()) {
        let mut union = one.clone();
        union.unite(other.clone());
        prop_assert!(union.contains_all(&one) && union.contains_all(&other));
        let both = one.intersection(&other);
        prop_assert!(one.contains_all(&both) && other.contains_all(&both));
        let mut rest = one.clone();
        rest.subtract(&other);
        prop_assert_eq!(rest.len() + both.len(), one.len());
        rest.unite(both);
        prop_assert_eq!(rest, one);
    }
}
