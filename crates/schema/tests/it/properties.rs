//! What must hold for whatever comes: patches, selectors, paths, tables.

use ferroplane_schema::jsonpath::JsonPath;
use ferroplane_schema::patch::facts::{Facts, PatchField, PatchShape, Strategy as PatchStrategy};
use ferroplane_schema::patch::{json, merge, strategic};
use ferroplane_schema::selector::{FieldSelector, LabelSelector};
use ferroplane_schema::table::{Include, Instant, Printer, human_duration};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[ab$]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let keys = prop_oneof![
            "[ab]",
            Just("name".to_owned()),
            Just("items".to_owned()),
            Just("values".to_owned()),
            Just("$patch".to_owned()),
            Just("$retainKeys".to_owned()),
            Just("$setElementOrder/items".to_owned()),
            Just("$setElementOrder/values".to_owned()),
            Just("$deleteFromPrimitiveList/values".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[ab]|items|values|name", value(), 0..4)
        .prop_map(|fields| fields.into_iter().collect())
}

/// A type whose lists are merged, and whose items are of the same type.
fn facts() -> Facts {
    let merged = |shape| PatchField::new(shape).with_strategy(PatchStrategy::Merge);
    Facts::default()
        .with("Thing", "items", merged(PatchShape::list(PatchShape::object("Thing"))).with_merge_key("name"))
        .with("Thing", "values", merged(PatchShape::list(PatchShape::other("string"))))
        .with("Thing", "a", PatchField::new(PatchShape::object("Thing")))
        .with("Thing", "b", PatchField::new(PatchShape::list(PatchShape::object("Thing"))))
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

proptest! {
    #[test]
    fn merge_patch_twice_is_merge_patch_once(mut document in object(), patch in object()) {
        merge::apply(&mut document, patch.clone().into()).unwrap();
        let once = document.clone();
        merge::apply(&mut document, patch.into()).unwrap();
        // Nulls inside a list stay only the first time, when there was an object in its place.
        prop_assert_eq!(merge_pruned(document.into()), merge_pruned(once.into()));
    }

    #[test]
    fn merge_patch_with_the_whole_object_gives_that_object(target in object()) {
        let mut target = Value::Object(target);
        without_nulls(&mut target);
        let mut document = Map::new();
        merge::apply(&mut document, target.clone()).unwrap();
        prop_assert_eq!(merge_pruned(Value::Object(document)), merge_pruned(target));
    }

    #[test]
    fn strategic_patch_with_nothing_changes_nothing(document in object()) {
        let mut patched = document.clone();
        strategic::apply(&mut patched, Map::new(), facts().kind("Thing").unwrap()).unwrap();
        prop_assert_eq!(patched, document);
    }

    #[test]
    fn strategic_patch_of_anything_ends(mut document in object(), patch in object()) {
        let _ = strategic::apply(&mut document, patch, facts().kind("Thing").unwrap());
    }

    #[test]
    fn strategic_patch_twice_is_strategic_patch_once(
        names in prop::collection::btree_set("[a-f]", 0..5),
        patched in prop::collection::btree_set("[a-f]", 0..5),
    ) {
        let items = |names: &std::collections::BTreeSet<String>| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name})).collect()
        };
        let Value::Object(mut document) = json!({"items": items(&names)}) else { unreachable!() };
        let Value::Object(patch) = json!({"items": items(&patched)}) else { unreachable!() };
        let facts = facts();
        strategic::apply(&mut document, patch.clone(), facts.kind("Thing").unwrap()).unwrap();
        let found: std::collections::BTreeSet<_> =
            document["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect();
        prop_assert_eq!(&found, &names.union(&patched).cloned().collect());
        let once = document.clone();
        strategic::apply(&mut document, patch, facts.kind("Thing").unwrap()).unwrap();
        prop_assert_eq!(document, once);
    }

    #[test]
    fn what_is_added_can_be_tested_and_removed(document in object(), added in value()) {
        prop_assume!(!document.contains_key("new"));
        let operations = json!([
            {"op": "add", "path": "/new", "value": added},
            {"op": "test", "path": "/new", "value": added},
            {"op": "copy", "from": "/new", "path": "/newer"},
            {"op": "move", "from": "/newer", "path": "/new"},
            {"op": "test", "path": "/new", "value": added},
            {"op": "remove", "path": "/new"},
        ]);
        let patch = json::Patch::decode(operations).unwrap();
        prop_assert_eq!(patch.apply(document.clone().into()).unwrap(), Value::Object(document));
    }

    #[test]
    fn json_patch_of_anything_ends(document in value(), patch in prop::collection::vec(value(), 0..4)) {
        if let Ok(patch) = json::Patch::decode(patch.into()) {
            let _ = patch.apply(document);
        }
    }

    #[test]
    fn selector_is_read_as_it_is_written(text in "[!]?[a-c](=[x-z]?|!=[x-z]| in \\([x-z],[x-z]?\\)| notin \\(\\)|>[0-9]|)(,[a-c])?") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            let written = selector.to_string();
            prop_assert_eq!(LabelSelector::parse(&written).unwrap(), selector);
        }
    }

    #[test]
    fn texts_are_refused_or_taken_but_never_fatal(text in "\\PC{0,40}") {
        let _ = LabelSelector::parse(&text);
        if let Ok(selector) = FieldSelector::parse(&text) {
            let again = FieldSelector::parse(&selector.to_string()).unwrap();
            prop_assert_eq!(again.requirements().len(), selector.requirements().len());
        }
        let _ = JsonPath::parse(&text);
    }

    #[test]
    fn paths_lead_somewhere_or_nowhere(path in "(\\.[ab*]|\\[[-0-9:*]{0,4}\\]|\\.\\.|\\[\\?\\(@\\.[ab](==|<)[ab1]\\)\\]|'a'|\\['a','b'\\]){1,5}", value in value()) {
        if let Ok(path) = JsonPath::parse(&path) {
            let found = path.find(&value).unwrap_or_default();
            let _: Vec<_> = found.iter().flatten().map(ToString::to_string).collect();
        }
    }

    #[test]
    fn tables_have_as_many_cells_as_columns(object in object(), kind in "string|integer|number|boolean|date", path in "\\.[ab]") {
        let columns = [json!({"name": "X", "type": kind, "jsonPath": path})];
        let printer = Printer::read(&columns).unwrap();
        let now = Instant { seconds: 1_600_000_000, nanoseconds: 0 };
        let row = printer.row(&Value::Object(object), Include::Metadata, now);
        prop_assert_eq!(row["cells"].as_array().unwrap().len(), printer.definitions().as_array().unwrap().len());
    }

    #[test]
    fn ages_are_at_most_six_characters(nanoseconds in 0..i64::MAX) {
        prop_assert!(human_duration(nanoseconds).len() <= 6);
    }
}

/// What a merge patch cannot say.
fn merge_pruned(mut value: Value) -> Value {
    fn prune(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, field| !field.is_null());
                fields.values_mut().for_each(prune);
            }
            Value::Array(items) => items.iter_mut().for_each(prune),
            _ => {}
        }
    }
    prune(&mut value);
    value
}
