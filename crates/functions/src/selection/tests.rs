//! What selecting promises, and what tests of functions that select need.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Objects that the plane brings, by the name of what was asked for.
pub(crate) fn given(objects: &[&[Value]], name: impl Fn(usize) -> String) -> Value {
    let resources = |objects: &[Value]| -> Vec<_> {
        objects.iter().map(|object| json!({ "resource": object })).collect()
    };
    let lists =
        objects.iter().enumerate().map(|(index, list)| (name(index), json!({"items": resources(list)})));
    Value::Object(lists.collect())
}

/// Any JSON, made of words that inputs know as often as of others.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..4_u64).prop_map(Value::from),
        "[a-z.\\[\\]]{0,6}".prop_map(Value::from),
        prop::sample::select(&["Reference", "Selector", "Single", "Multiple", "Value", "Optional"][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_field(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_field() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "environmentConfigs",
        "extraResources",
        "defaultData",
        "policy",
        "resolution",
        "context",
        "key",
        "type",
        "ref",
        "name",
        "selector",
        "matchLabels",
        "mode",
        "minMatch",
        "maxMatch",
        "sortByFieldPath",
        "toFieldPath",
        "into",
    ];
    prop_oneof![4 => prop::sample::select(KNOWN).prop_map(str::to_owned), 1 => "[a-z]{1,3}"]
}

fn sorted(path: &str, values: Value) -> Result<Value, String> {
    sorted_naming(Naming::Kind, path, values)
}

fn sorted_naming(naming: Naming, path: &str, values: Value) -> Result<Value, String> {
    let Value::Array(values) = values else { panic!("not a list: {values}") };
    let objects: Vec<JsonObject> = values
        .into_iter()
        .enumerate()
        .map(|(index, value)| Map::from_iter([("at".to_owned(), index.into()), ("v".to_owned(), value)]))
        .collect();
    let mut sorted = objects.iter().collect();
    sort(&mut sorted, Some(path), naming)?;
    Ok(sorted.iter().map(|object| object["at"].clone()).collect())
}

#[test]
fn numbers_and_texts_are_sorted_and_equals_keep_their_order() {
    assert_eq!(sorted("v", json!([10, 9, 1.5, 9])), Ok(json!([2, 1, 3, 0])));
    assert_eq!(sorted("v", json!([1, 0, -0.0, null])), Ok(json!([1, 2, 3, 0])));
    assert_eq!(sorted("v", json!(["b", "a", "B", "10", "9"])), Ok(json!([3, 4, 2, 1, 0])));
}

#[test]
fn object_without_the_field_sorts_as_zero_or_empty() {
    assert_eq!(sorted("v", json!([1, null, -1])), Ok(json!([2, 1, 0])));
    assert_eq!(sorted("v.w", json!([{"w": "a"}, {}, null])), Ok(json!([1, 2, 0])));
    assert_eq!(sorted("missing", json!([2, 1])), Ok(json!([0, 1])));
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let different = "cannot sort values of different types \"float64\" and \"map[string]interface {}\"";
    assert_eq!(sorted("v", json!([1, null, {}])), Err(different.into()));
    assert_eq!(sorted("v", json!([[], []])), Err("unsupported type \"slice\" for sorting".into()));
    assert_eq!(sorted("v", json!([true, null])), Err("unsupported type \"bool\" for sorting".into()));
    assert_eq!(sorted("v.w", json!([1])), Err("v: not an object".into()));
}

#[test]
fn what_cannot_be_sorted_by_has_two_names() {
    let problem = |naming, value: Value| sorted_naming(naming, "v", json!([value, null])).unwrap_err();
    let unsupported = |name: &str| format!("unsupported type \"{name}\" for sorting");
    assert_eq!(problem(Naming::Kind, json!({})), unsupported("map"));
    assert_eq!(problem(Naming::Type, json!({})), unsupported("map[string]interface {}"));
    assert_eq!(problem(Naming::Type, json!([])), unsupported("[]interface {}"));
    assert_eq!(problem(Naming::Type, json!(true)), unsupported("bool"));
}

#[test]
fn no_more_than_the_most_are_taken() {
    let object = Map::new();
    let objects = [&object; 3];
    let taken = [None, Some(0), Some(2), Some(u64::MAX)].map(|most| first(&objects, most).len());
    assert_eq!(taken, [3, 0, 2, 3]);
}

#[test]
fn single_object_needs_no_comparing() {
    assert_eq!(sorted("v", json!([true])), Ok(json!([0])));
    assert_eq!(sorted("v..", json!([])), Ok(json!([])));
    assert_eq!(
        sorted("v..", json!([1])),
        Err("cannot parse path \"v..\": unexpected '.' at position 2".into())
    );
}
