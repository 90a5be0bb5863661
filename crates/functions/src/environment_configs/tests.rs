//! Both calls, as the plane makes them.

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::selection::tests::{any_json, given};

fn answer(request: &Value) -> Value {
    to_json(&run(&from_json(request).unwrap())).unwrap()
}

fn config(name: &str, data: Value) -> Value {
    let mut config = json!({"kind": "EnvironmentConfig", "metadata": {"name": name}});
    config["data"] = data;
    config
}

fn by_name(name: &str) -> Value {
    json!({"type": "Reference", "ref": {"name": name}})
}

fn by_label(mode: &str) -> Value {
    let matcher = json!({"key": "region", "valueFromFieldPath": "spec.region"});
    json!({"type": "Selector", "selector": {"mode": mode, "matchLabels": [matcher]}})
}

fn request(spec: &Value) -> Value {
    json!({
        "input": {"apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1", "kind": "Input", "spec": spec},
        "observed": {"composite": {"resource": {"spec": {"region": "east"}}}}
    })
}

fn second_call(spec: &Value, given: Value) -> Value {
    let mut request = request(spec);
    request["requiredResources"] = given;
    request
}

/// The environment after the second call, which brings these objects for the sources in order.
fn environment(spec: &Value, objects: &[&[Value]]) -> Value {
    let answer = answer(&second_call(spec, given(objects, |index| format!("environment-config-{index}"))));
    answer["context"][CONTEXT_KEY].clone()
}

fn problem(spec: &Value, objects: &[&[Value]]) -> String {
    let answer = answer(&second_call(spec, given(objects, |index| format!("environment-config-{index}"))));
    answer["results"][0]["message"].as_str().unwrap_or_default().to_owned()
}

fn with_kind(mut data: Value) -> Value {
    data["apiVersion"] = json!("internal.crossplane.io/v1alpha1");
    data["kind"] = json!("Environment");
    data
}

#[test]
fn first_call_asks_for_what_every_source_means() {
    let sources = json!([by_name("one"), by_label("Multiple"), {"type": "Later"}]);
    let answer = answer(&request(&json!({"environmentConfigs": sources})));
    let requirement = |field: &str, value: Value| json!({"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig", field: value});
    assert_eq!(
        answer,
        json!({
            "meta": {"ttl": "60s"},
            "requirements": {"resources": {
                "environment-config-0": requirement("matchName", json!("one")),
                "environment-config-1": requirement("matchLabels", json!({"labels": {"region": "east"}})),
            }}
        })
    );
}

#[test]
fn without_sources_nothing_happens() {
    assert_eq!(answer(&request(&json!({"defaultData": {"a": 1}}))), json!({"meta": {"ttl": "60s"}}));
    assert_eq!(answer(&json!({})), json!({"meta": {"ttl": "60s"}}));
}

#[test]
fn selector_whose_labels_are_all_missing_asks_for_nothing() {
    let mut source = by_label("Single");
    source["selector"]["matchLabels"][0]["valueFromFieldPath"] = json!("spec.missing");
    source["selector"]["matchLabels"][0]["fromFieldPathPolicy"] = json!("Optional");
    let spec = json!({"environmentConfigs": [source, by_name("one")]});
    let first = answer(&request(&spec));
    assert_eq!(first["requirements"]["resources"].as_object().unwrap().len(), 1);

    let given = json!({"environment-config-1": {"items": [{"resource": config("one", json!({"a": 1}))}]}});
    let second = answer(&second_call(&spec, given));
    assert_eq!(second["context"][CONTEXT_KEY], with_kind(json!({"a": 1})));
}

#[test]
fn label_that_cannot_be_read_stops_the_pipeline() {
    let mut source = by_label("Single");
    source["selector"]["matchLabels"][0]["valueFromFieldPath"] = json!("spec.missing");
    let answer = answer(&request(&json!({"environmentConfigs": [source]})));
    let message = "cannot build requirements: cannot get value from field path \"spec.missing\": \
                   spec.missing: no such field";
    assert_eq!(answer["results"][0]["message"], message);
    assert_eq!(answer["requirements"], Value::Null);
}

#[test]
fn later_source_wins_field_by_field() {
    let spec = json!({"environmentConfigs": [by_name("one"), by_name("two")]});
    let one = config("one", json!({"a": {"x": 1, "y": 1}, "list": [1, 2], "text": "one"}));
    let two = config("two", json!({"a": {"y": 2}, "list": [3], "text": {"now": "object"}}));
    assert_eq!(
        environment(&spec, &[&[one], &[two]]),
        with_kind(json!({"a": {"x": 1, "y": 2}, "list": [3], "text": {"now": "object"}}))
    );
}

#[test]
fn configurations_win_over_the_environment_so_far_which_wins_over_defaults() {
    let spec = json!({
        "defaultData": {"a": "default", "b": "default", "c": "default", "deep": {"default": 1}},
        "environmentConfigs": [by_name("one")]
    });
    let data = json!({"a": "config", "deep": {"config": 1}});
    let mut request =
        second_call(&spec, json!({"environment-config-0": {"items": [{"resource": config("one", data)}]}}));
    request["context"] = json!({"kept": 1, CONTEXT_KEY: {"b": "before", "kind": "Mine", "deep": "scalar"}});
    let answer = answer(&request);
    assert_eq!(answer["context"]["kept"], 1);
    assert_eq!(
        answer["context"][CONTEXT_KEY],
        json!({"a": "config", "b": "before", "c": "default", "kind": "Mine", "deep": {"config": 1, "default": 1}})
    );
}

#[test]
fn data_can_go_to_a_place_of_its_own_in_the_order_listed() {
    let mut placed = by_name("two");
    placed["toFieldPath"] = json!("network.zones[1]");
    let mut unusual = by_name("three");
    unusual["toFieldPath"] = json!("network");
    let spec = json!({"environmentConfigs": [by_name("one"), placed, unusual]});
    let one = config("one", json!({"network": {"kept": true, "zones": "none", "last": 1}}));
    let three = config("three", json!({"last": 3}));
    assert_eq!(
        environment(&spec, &[&[one], &[config("two", json!("text"))], &[three]]),
        with_kind(json!({"network": {"kept": true, "zones": [null, "text"], "last": 3}}))
    );
}

#[test]
fn place_that_cannot_be_set_is_an_error() {
    let mut source = by_name("one");
    source["toFieldPath"] = json!("a[");
    assert_eq!(
        problem(&json!({"environmentConfigs": [source]}), &[&[config("one", json!({}))]]),
        "cannot merge environment data: cannot get data from environment config one into path \"a[\""
    );
}

#[test]
fn data_has_to_be_an_object_and_there() {
    let spec = json!({"environmentConfigs": [by_name("one")]});
    let prefix = "cannot merge environment data: cannot get data from environment config \"one\": data: ";
    assert_eq!(problem(&spec, &[&[config("one", json!("text"))]]), format!("{prefix}not an object"));
    let without = json!({"metadata": {"name": "one"}});
    assert_eq!(problem(&spec, &[&[without]]), format!("{prefix}no such field"));
    assert_eq!(environment(&spec, &[&[config("one", json!(null))]]), with_kind(json!({})));
}

#[test]
fn named_configuration_that_is_missing_matters_unless_optional() {
    let mut spec = json!({"environmentConfigs": [by_name("one")]});
    let prefix = "cannot get selected environment configs: cannot process environment config \"one\" by reference, \
                  \"environment-config-0\": ";
    assert_eq!(problem(&spec, &[&[]]), format!("{prefix}Required environment config \"one\" not found"));
    let twice = [config("one", json!({})), config("one", json!({}))];
    let expected = format!("{prefix}expected exactly one required resource \"one\", got 2");
    assert_eq!(problem(&spec, &[&twice]), expected);
    spec["policy"] = json!({"resolution": "Optional"});
    assert_eq!(environment(&spec, &[&[]]), with_kind(json!({})));
}

#[test]
fn single_selector_takes_exactly_one() {
    let spec = json!({"environmentConfigs": [by_label("")]});
    assert_eq!(environment(&spec, &[&[config("one", json!({"a": 1}))]]), with_kind(json!({"a": 1})));
    assert_eq!(
        problem(&spec, &[&[]]),
        "cannot get selected environment configs: cannot process environment config \"environment-config-0\" \
         by selector: expected exactly one required resource, got 0"
    );
}

#[test]
fn multiple_selector_takes_the_first_few_in_order() {
    let mut source = by_label("Multiple");
    source["selector"]["sortByFieldPath"] = json!("data.rank");
    source["selector"]["maxMatch"] = json!(2);
    source["selector"]["minMatch"] = json!(3);
    let spec = json!({"environmentConfigs": [source]});
    let configs = [3, 1, 2].map(|rank| config("c", json!({"rank": rank, (format!("c{rank}")): true})));
    assert_eq!(environment(&spec, &[&configs]), with_kind(json!({"rank": 2, "c1": true, "c2": true})));
    assert!(problem(&spec, &[&configs[..2]]).ends_with("expected at least 3 required resources, got 2"));
}

#[test]
fn mode_nobody_knows_is_an_error() {
    let spec = json!({"environmentConfigs": [by_label("Some")]});
    assert!(problem(&spec, &[&[]]).ends_with("by selector: unknown selector mode \"Some\""));
}

#[test]
fn source_that_says_too_little_is_an_error() {
    let message = |source: Value| {
        let answer = answer(&request(&json!({"environmentConfigs": [by_name("one"), source]})));
        answer["results"][0]["message"].as_str().unwrap().to_owned()
    };
    let prefix = "cannot build requirements: ";
    assert_eq!(message(json!({})), format!("{prefix}environmentConfigs[1]: type Reference needs a ref"));
    assert_eq!(
        message(json!({"type": "Selector"})),
        format!("{prefix}environmentConfigs[1]: type Selector needs a selector")
    );
    let mut source = by_label("Single");
    source["selector"]["matchLabels"] = json!([{"key": "a", "type": "Value"}]);
    assert_eq!(message(source), format!("{prefix}Value cannot be nil for type 'Value'"));
}

#[test]
fn environment_says_what_it_is_unless_the_data_does() {
    let of = |data: Value| {
        let environment =
            environment(&json!({"environmentConfigs": [by_name("one")]}), &[&[config("one", data)]]);
        (environment["apiVersion"].clone(), environment["kind"].clone())
    };
    let ours = (json!("internal.crossplane.io/v1alpha1"), json!("Environment"));
    assert_eq!(of(json!({})), ours);
    assert_eq!(of(json!({"apiVersion": "a/b/c", "kind": "Mine"})), ours);
    assert_eq!(of(json!({"apiVersion": "/", "kind": ""})), ours);
    assert_eq!(of(json!({"kind": "Mine"})), (json!(null), json!("Mine")));
    assert_eq!(of(json!({"apiVersion": "v1"})), (json!("v1"), json!(null)));
}

proptest! {
    #[test]
    fn nothing_anybody_writes_makes_it_panic(spec in any_json(), object in any_json(), environment in any_json()) {
        let mut request = second_call(&spec, json!({"environment-config-0": {"items": [{"resource": {"data": object}}]}}));
        request["context"] = json!({CONTEXT_KEY: environment});
        if let Ok(request) = from_json(&request) {
            run(&request);
        }
    }

    #[test]
    fn no_path_makes_it_panic(path in r"[a-c.\[\]0-9*']{0,12}", data in any_json()) {
        let mut source = by_label("Multiple");
        source["toFieldPath"] = json!(path);
        source["selector"]["sortByFieldPath"] = json!(path);
        source["selector"]["matchLabels"][0]["valueFromFieldPath"] = json!(path);
        source["selector"]["matchLabels"][0]["fromFieldPathPolicy"] = json!("Optional");
        let object = json!({"a": data, "data": data});
        let objects = json!([{"resource": object}, {"resource": object}]);
        let spec = json!({"environmentConfigs": [source]});
        answer(&second_call(&spec, json!({"environment-config-0": {"items": objects}})));
    }
}

#[test]
fn earlier_releases_have_their_own_rules_and_words() {
    let problem = |release, spec: &Value, objects: &[&[Value]]| {
        let request = second_call(spec, given(objects, |index| format!("environment-config-{index}")));
        let answer = to_json(&run_as(release, &from_json(&request).unwrap())).unwrap();
        answer["results"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    let start = "cannot get selected environment configs: ";
    let missing = json!({"environmentConfigs": [by_name("a")]});
    let required = "Required environment config \"a\" not found";
    assert_eq!(problem(Release::V0_1, &missing, &[&[]]), format!("{start}{required}"));
    let wrapped = "cannot process environment config \"a\" by reference, \"environment-config-0\": ";
    assert_eq!(problem(Release::V0_5, &missing, &[&[]]), format!("{start}{wrapped}{required}"));

    let single = json!({"environmentConfigs": [by_label("Single")]});
    let none = "expected exactly one extra resource \"environment-config-0\", got 0";
    assert_eq!(problem(Release::V0_1, &single, &[&[]]), format!("{start}{none}"));
    assert!(problem(Release::V0_5, &single, &[&[]]).ends_with("expected exactly one extra resource, got 0"));
    assert!(
        problem(Release::V0_7, &single, &[&[]]).ends_with("expected exactly one required resource, got 0")
    );

    let two = json!({"environmentConfigs": [by_name("a"), by_name("b")]});
    let first = config("a", json!({}));
    let unasked = "cannot find expected extra resource \"environment-config-1\"";
    assert_eq!(problem(Release::V0_1, &two, &[std::slice::from_ref(&first)]), format!("{start}{unasked}"));
    assert_eq!(problem(Release::V0_5, &two, &[&[first]]), "");

    let sorted = json!({"environmentConfigs": [{"type": "Selector", "selector": {
        "mode": "Multiple", "sortByFieldPath": "data", "matchLabels": [{"key": "a", "type": "Value", "value": "b"}]
    }}]});
    let objects = [config("a", json!({})), config("b", json!({}))];
    assert!(
        problem(Release::V0_5, &sorted, &[&objects]).ends_with("\"map[string]interface {}\" for sorting")
    );
    assert!(problem(Release::V0_7, &sorted, &[&objects]).ends_with("\"map\" for sorting"));

    let targeted = json!({"environmentConfigs": [{"ref": {"name": "a"}, "toFieldPath": "x"}]});
    assert!(problem(Release::V0_5, &targeted, &[&[]]).contains("unknown field `toFieldPath`"));
}
