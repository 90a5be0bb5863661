//! Both calls, as the plane makes them.

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::selection::tests::{any_json, given};

const KEY: &str = "apiextensions.crossplane.io/extra-resources";

fn answer(request: &Value) -> Value {
    to_json(&run(&from_json(request).unwrap())).unwrap()
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn by_name(into: &str) -> Value {
    json!({"into": into, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "ref": {"name": "one"}})
}

fn by_label(into: &str) -> Value {
    let matchers = json!([{"key": "region", "valueFromFieldPath": "spec.region"}]);
    json!({"type": "Selector", "into": into, "apiVersion": "v1", "kind": "Pod", "selector": {"matchLabels": matchers}})
}

fn request(spec: &Value) -> Value {
    json!({"input": {"spec": spec}, "observed": {"composite": {"resource": {"spec": {"region": "east"}}}}})
}

/// The answer to the second call, which brings these objects for `list-0`, `list-1`, and so on.
fn second_answer(spec: &Value, objects: &[&[Value]]) -> Value {
    let mut request = request(spec);
    request["requiredResources"] = given(objects, |index| format!("list-{index}"));
    answer(&request)
}

fn problem(spec: &Value, objects: &[&[Value]]) -> String {
    second_answer(spec, objects)["results"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn first_call_asks_for_what_every_source_means() {
    let sources = json!([by_name("a"), by_label("b"), {"type": "Later", "into": "c"}]);
    assert_eq!(
        answer(&request(&json!({"extraResources": sources}))),
        json!({
            "meta": {"ttl": "60s"},
            "requirements": {"resources": {
                "a": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "matchName": "one"},
                "b": {"apiVersion": "v1", "kind": "Pod", "matchLabels": {"labels": {"region": "east"}}}
            }}
        })
    );
}

#[test]
fn second_call_puts_lists_into_the_context() {
    let spec = json!({"extraResources": [by_name("list-0"), by_label("list-1"), by_label("list-2")]});
    let mut request = request(&spec);
    request["context"] = json!({"kept": 1, KEY: "replaced"});
    request["requiredResources"] =
        given(&[&[object("one")], &[object("b"), object("a")], &[]], |index| format!("list-{index}"));
    assert_eq!(
        answer(&request)["context"],
        json!({"kept": 1, KEY: {"list-0": [object("one")], "list-1": [object("a"), object("b")]}})
    );
}

#[test]
fn key_of_the_context_cannot_be_chosen() {
    let spec = json!({"context": {"key": "mine"}, "extraResources": [by_name("list-0")]});
    let expected = "cannot get Function input: spec.context: unknown field `context`, expected \
                    `extraResources` or `policy`";
    assert_eq!(problem(&spec, &[&[object("one")]]), expected);
}

#[test]
fn selector_that_finds_nothing_has_no_list() {
    let mut source = by_label("list-0");
    let spec = json!({"extraResources": [source]});
    assert_eq!(second_answer(&spec, &[&[]])["context"], json!({KEY: {}}));
    source["selector"]["maxMatch"] = json!(0);
    let spec = json!({"extraResources": [source]});
    assert_eq!(second_answer(&spec, &[&[object("a")]])["context"], json!({KEY: {}}));
}

#[test]
fn sources_of_one_list_add_to_it() {
    let by_name_first = |most: u64| {
        let mut source = by_label("list-0");
        source["selector"]["maxMatch"] = json!(most);
        source
    };
    let mut unsorted = by_label("list-0");
    unsorted["selector"]["sortByFieldPath"] = json!("missing");
    let brought = &[object("c"), object("a"), object("b")];

    let spec = json!({"extraResources": [by_name_first(1), unsorted.clone()]});
    let names = json!([object("a"), object("a"), object("b"), object("c")]);
    assert_eq!(second_answer(&spec, &[brought])["context"][KEY]["list-0"], names);

    let spec = json!({"extraResources": [unsorted, by_name_first(1)]});
    let names = json!([object("c"), object("a"), object("b"), object("a")]);
    assert_eq!(second_answer(&spec, &[brought])["context"][KEY]["list-0"], names);
}

#[test]
fn source_of_a_type_nobody_knows_takes_nothing() {
    let spec = json!({"extraResources": [{"type": "Later", "into": "list-0"}]});
    assert_eq!(second_answer(&spec, &[&[object("a")]])["context"], json!({KEY: {}}));
    let spec = json!({"extraResources": [{"type": "Later", "into": "list-1"}]});
    let expected = "verifying and sorting extra resources: cannot find expected extra resource \"list-1\"";
    assert_eq!(problem(&spec, &[&[object("a")]]), expected);
}

#[test]
fn field_that_cannot_be_sorted_by_is_named_by_its_type() {
    let mut source = by_label("list-0");
    source["selector"]["sortByFieldPath"] = json!("metadata");
    let expected =
        "verifying and sorting extra resources: unsupported type \"map[string]interface {}\" for sorting";
    let spec = json!({"extraResources": [source]});
    assert_eq!(problem(&spec, &[&[object("a"), object("b")]]), expected);
}

#[test]
fn named_object_that_is_missing_matters_unless_optional() {
    let mut spec = json!({"extraResources": [by_name("list-0")]});
    let prefix = "verifying and sorting extra resources: ";
    assert_eq!(problem(&spec, &[&[]]), format!("{prefix}Required extra resource \"list-0\" not found"));
    let expected = format!("{prefix}expected exactly one extra resource \"list-0\", got 2");
    assert_eq!(problem(&spec, &[&[object("one"), object("one")]]), expected);
    spec["policy"] = json!({"resolution": "Optional"});
    assert_eq!(second_answer(&spec, &[&[]])["context"], json!({KEY: {}}));
}

#[test]
fn list_that_was_not_brought_is_an_error() {
    let spec = json!({"extraResources": [by_name("list-0"), by_label("list-1")]});
    let expected = "verifying and sorting extra resources: cannot find expected extra resource \"list-1\"";
    assert_eq!(problem(&spec, &[&[object("one")]]), expected);
}

#[test]
fn selector_takes_the_first_few_in_order() {
    let mut source = by_label("list-0");
    source["selector"]["minMatch"] = json!(2);
    source["selector"]["maxMatch"] = json!(2);
    let spec = json!({"extraResources": [source]});
    let found = second_answer(&spec, &[&[object("c"), object("a"), object("b")]]);
    assert_eq!(found["context"][KEY]["list-0"], json!([object("a"), object("b")]));
    let expected =
        "verifying and sorting extra resources: expected at least 2 extra resources \"list-0\", got 1";
    assert_eq!(problem(&spec, &[&[object("a")]]), expected);
}

#[test]
fn source_that_says_too_little_is_an_error() {
    let message = |source: Value| {
        let answer = answer(&request(&json!({"extraResources": [source]})));
        answer["results"][0]["message"].as_str().unwrap().to_owned()
    };
    let prefix = "could not build extra resource requirements: ";
    assert_eq!(
        message(json!({"into": "a"})),
        format!("{prefix}extraResources[0]: type Reference needs a ref")
    );
    let mut source = by_label("a");
    source["selector"]["matchLabels"] = json!([{"key": "a"}]);
    assert_eq!(
        message(source),
        format!("{prefix}ValueFromFieldPath cannot be nil for type 'FromCompositeFieldPath'")
    );
}

proptest! {
    #[test]
    fn nothing_anybody_writes_makes_it_panic(spec in any_json(), object in any_json()) {
        let mut request = request(&spec);
        request["requiredResources"] = json!({"list-0": {"items": [{"resource": {"data": object}}]}});
        if let Ok(request) = from_json(&request) {
            run(&request);
        }
    }
}
