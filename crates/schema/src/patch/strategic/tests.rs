//! What each directive does.

use serde_json::json;

use super::*;
use crate::patch::facts::{Facts, PatchField, PatchShape};

fn facts() -> Facts {
    let list = |item| PatchShape::list(PatchShape::object(item));
    Facts::default()
        .with("Pod", "metadata", PatchField::new(PatchShape::object("Meta")))
        .with("Pod", "spec", PatchField::new(PatchShape::object("Spec")))
        .with(
            "Meta",
            "finalizers",
            PatchField::new(PatchShape::list(PatchShape::other("string"))).with_strategy(Strategy::Merge),
        )
        .with(
            "Spec",
            "containers",
            PatchField::new(list("Container")).with_strategy(Strategy::Merge).with_merge_key("name"),
        )
        .with("Spec", "tolerations", PatchField::new(list("Toleration")))
        .with("Spec", "strategy", PatchField::new(PatchShape::object("Strategy")))
        .with("Container", "args", PatchField::new(PatchShape::list(PatchShape::other("string"))))
}

fn patched(object: Value, patch: Value) -> Result<Value, String> {
    let (Value::Object(mut object), Value::Object(patch)) = (object, patch) else { unreachable!() };
    let facts = facts();
    apply(&mut object, patch, facts.kind("Pod").unwrap()).map_err(|error| error.to_string())?;
    Ok(Value::Object(object))
}

fn check(object: Value, patch: Value, expected: &Value) {
    assert_eq!(patched(object, patch).unwrap(), *expected);
}

#[test]
fn items_are_merged_by_their_key_and_new_ones_come_first() {
    check(
        json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "args": ["x"]}]}}),
        json!({"spec": {"containers": [{"name": "c"}, {"name": "b", "image": "2", "args": ["y"]}]}}),
        &json!({"spec": {"containers": [
            {"name": "c"}, {"name": "a", "image": "1"}, {"name": "b", "image": "2", "args": ["y"]}
        ]}}),
    );
}

#[test]
fn list_without_a_strategy_is_replaced() {
    check(
        json!({"spec": {"tolerations": [{"key": "a"}]}}),
        json!({"spec": {"tolerations": [{"key": "b"}]}}),
        &json!({"spec": {"tolerations": [{"key": "b"}]}}),
    );
}

#[test]
fn item_is_deleted_by_directive() {
    check(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
        &json!({"spec": {"containers": [{"name": "b"}]}}),
    );
}

#[test]
fn object_and_list_are_replaced_by_directive() {
    check(
        json!({"spec": {"containers": [{"name": "a"}], "strategy": {"type": "x", "more": 1}}}),
        json!({"spec": {
            "containers": [{"$patch": "replace"}, {"name": "b"}],
            "strategy": {"$patch": "replace", "type": "y"}
        }}),
        &json!({"spec": {"containers": [{"name": "b"}], "strategy": {"type": "y"}}}),
    );
}

#[test]
fn order_is_set_by_directive() {
    check(
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}),
        &json!({"spec": {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}}),
    );
}

#[test]
fn values_are_deleted_from_a_list_of_values() {
    check(
        json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}}),
        &json!({"metadata": {"finalizers": ["d", "a", "c"]}}),
    );
}

#[test]
fn only_retained_keys_stay() {
    check(
        json!({"spec": {"strategy": {"type": "x", "rolling": {"a": 1}}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "y"}}}),
        &json!({"spec": {"strategy": {"type": "y"}}}),
    );
}

#[test]
fn nonsense_is_explained() {
    let failure = |patch| patched(json!({"spec": {"containers": [{"name": "a"}]}}), patch).unwrap_err();
    assert_eq!(
        failure(json!({"spec": {"containers": [{"image": "x"}]}})),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert_eq!(
        failure(json!({"spec": {"$patch": "merge"}})),
        "unknown patch type: merge in map: map[$patch:merge]"
    );
    assert_eq!(
        failure(json!({"spec": {"$retainKeys": ["a"], "containers": []}})),
        "invalid patch format of retainKeys"
    );
}

#[test]
fn large_lists_are_merged_in_little_time() {
    let items =
        |prefix: &str| -> Vec<_> { (0..20_000).map(|i| json!({"name": format!("{prefix}{i}")})).collect() };
    let mut deletions = items("a");
    for item in &mut deletions {
        item["$patch"] = json!("delete");
    }
    deletions.extend(items("b"));
    let merged =
        patched(json!({"spec": {"containers": items("a")}}), json!({"spec": {"containers": deletions}}));
    assert_eq!(merged.unwrap()["spec"]["containers"].as_array().unwrap().len(), 20_000);
}
