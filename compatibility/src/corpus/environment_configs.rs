//! The cases of `function-environment-configs`.

use serde_json::{Map, Value, json};

use super::selection::{self, differs_only_in, is_input_mistake, message};
use super::{Corpus, Difference, INVALID_INPUT, adds_nothing, minor, no_files};
use crate::dice::Dice;

pub(super) const CORPUS: Corpus = Corpus {
    function: "function-environment-configs",
    generate,
    adapt,
    asks_formerly: |version| minor(version) < 7,
    files: no_files,
    by_hand,
    without_additions: adds_nothing,
    deliberate,
};

const KEY: &str = "apiextensions.crossplane.io/environment";
/// Where the environment is in an answer.
const ENVIRONMENT: &str = "/context/apiextensions.crossplane.io~1environment";

fn generate(dice: &mut Dice) -> Value {
    let count = if dice.chance(97) { 1 + dice.below(4) } else { 0 };
    // Where data meets data of another target, the original throws dice of its own.
    let is_overlapping = dice.chance(4);
    let sources: Vec<(Value, usize)> = (0..count).map(|_| source(dice, is_overlapping)).collect();
    let given = if dice.chance(88) { Some(given(dice, &sources)) } else { None };
    let mut input = input(dice, &sources.into_iter().map(|(source, _)| source).collect());
    if dice.chance(4) {
        selection::spoil(dice, &mut input);
    }
    let mut request = selection::request(dice, &input, given);
    if dice.chance(40) {
        request["context"] = context(dice);
    }
    request
}

fn input(dice: &mut Dice, sources: &Value) -> Value {
    let mut spec = json!({ "environmentConfigs": sources });
    if dice.chance(35) {
        spec["defaultData"] = selection::data(dice);
    }
    if dice.chance(35) {
        spec["policy"] = dice
            .pick(&[
                json!({"resolution": "Optional"}),
                json!({"resolution": "Required"}),
                json!({}),
                json!(null),
            ])
            .clone();
    }
    let mut input =
        json!({"apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1", "kind": "Input", "spec": spec});
    if dice.chance(10) {
        input["metadata"] = selection::metadata_in_order();
    }
    input
}

/// A source, and how many objects it wishes for.
fn source(dice: &mut Dice, is_overlapping: bool) -> (Value, usize) {
    let mut source = json!({});
    let wish;
    if dice.chance(45) {
        source["ref"] = json!({"name": dice.pick(&["one", "two", "q\"uote", "tab\t", ""])});
        wish = 1;
        if dice.chance(50) {
            source["type"] = json!(dice.pick(&["Reference", "Reference", "Reference", "", "Other"]));
        }
    } else {
        source["type"] = json!("Selector");
        let mut selector = json!({"matchLabels": selection::label_matchers(dice)});
        wish = if dice.chance(25) { 1 } else { multiple(dice, &mut selector) };
        source["selector"] = selector;
    }
    if dice.chance(if is_overlapping { 60 } else { 8 }) {
        let targets: &[&str] =
            if is_overlapping { &["network", "network.deep", "place.of"] } else { ODD_TARGETS };
        source["toFieldPath"] = json!(dice.pick(targets));
    }
    (source, wish)
}

/// Targets that hold no field of the data, and some that cannot be set.
const ODD_TARGETS: &[&str] = &["own", "own", "own", "own", "own", "", "own[", "[0]", "own[2000]"];

fn multiple(dice: &mut Dice, selector: &mut Value) -> usize {
    selector["mode"] = json!(if dice.chance(95) { "Multiple" } else { *dice.pick(&["Single", "", "Other"]) });
    selection::amount(dice, selector);
    usize::try_from(selector["minMatch"].as_u64().unwrap_or_default()).unwrap_or_default() + dice.below(4)
}

fn given(dice: &mut Dice, sources: &[(Value, usize)]) -> Value {
    let mut given = Map::new();
    for (index, (_, wish)) in sources.iter().enumerate() {
        if dice.chance(95) {
            given.insert(format!("environment-config-{index}"), selection::given(dice, *wish));
        }
    }
    if dice.chance(5) {
        given.insert("other".to_owned(), selection::given(dice, 1));
    }
    Value::Object(given)
}

fn context(dice: &mut Dice) -> Value {
    let environment = match dice.below(10) {
        0 => json!("text"),
        1 => Value::Null,
        _ => selection::data(dice),
    };
    let mut context = json!({"other": {"kept": true}});
    if dice.chance(80) {
        context[KEY] = environment;
    }
    context
}

fn by_hand() -> Vec<(&'static str, Value)> {
    let config = |name: &str, data: Value| {
        json!({"resource": {"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig",
            "metadata": {"name": name}, "data": data}})
    };
    let input = |spec: Value| json!({"spec": spec});
    let by_name = json!({"environmentConfigs": [{"ref": {"name": "one"}}]});
    let many: Vec<Value> =
        (0..40).map(|at| config(&format!("c{:02}", at * 7 % 40), json!({"n": at, "zone": at % 3}))).collect();
    let by_label = |sort_by: &str| {
        json!({"environmentConfigs": [{"type": "Selector", "selector": {"mode": "Multiple", "maxMatch": 20,
            "sortByFieldPath": sort_by, "matchLabels": [{"key": "a", "type": "Value", "value": "b"}]}}]})
    };
    vec![
        ("no input", json!({})),
        ("empty input", json!({"input": {}})),
        ("no list of sources", json!({"input": {"spec": {"defaultData": {"a": 1}}}})),
        ("empty list of sources", json!({"input": {"spec": {"environmentConfigs": []}}})),
        (
            "null for everything",
            json!({"input": {"apiVersion": null, "kind": null, "metadata": null, "spec": null}}),
        ),
        ("first call by name", json!({"input": input(by_name.clone())})),
        (
            "first call with both fields of old and new",
            json!({"input": input(by_name.clone()), "extraResources": {"environment-config-0": {"items": [config("one", json!({"a": 1}))]}}}),
        ),
        (
            "second call by name",
            json!({"input": input(by_name.clone()), "requiredResources": {"environment-config-0": {"items": [config("one", json!({"a": 1}))]}}}),
        ),
        (
            "second call by name, not found",
            json!({"input": input(by_name.clone()), "requiredResources": {"environment-config-0": {}}}),
        ),
        (
            "second call, asked for nothing like it",
            json!({"input": input(by_name.clone()), "requiredResources": {"bootstrap": {"items": [config("one", json!({"a": 1}))]}}}),
        ),
        (
            "forty objects by name",
            json!({"input": {"spec": by_label("")}, "requiredResources": {"environment-config-0": {"items": many}}}),
        ),
        (
            "forty objects by zone",
            json!({"input": {"spec": by_label("data.zone")}, "requiredResources": {"environment-config-0": {"items": many}}}),
        ),
        (
            "what the environment holds already, and defaults of another kind",
            json!({
                "input": input(json!({"defaultData": {"k": {"default": 1}}, "environmentConfigs": [{"ref": {"name": "one"}}]})),
                "context": {KEY: {"k": "scalar", "kept": [1]}},
                "requiredResources": {"environment-config-0": {"items": [config("one", json!({"k": {"config": 2}}))]}}
            }),
        ),
        ("unknown metadata", json!({"input": {"metadata": {"nme": "x"}, "spec": by_name}})),
        ("input with an unknown field", json!({"input": {"spec": {"environmentConfig": []}}})),
        ("field in another case", json!({"input": {"spec": {"EnvironmentConfigs": []}}})),
    ]
}

/// Before v0.7.0, data could not go to a field of the environment. Some requests are left to be refused.
fn adapt(version: &str, dice: &mut Dice, request: &mut Value) {
    let sources = request.pointer_mut("/input/spec/environmentConfigs").and_then(Value::as_array_mut);
    if minor(version) >= 7 || dice.chance(10) {
        return;
    }
    for source in sources.into_iter().flatten().filter_map(Value::as_object_mut) {
        source.remove("toFieldPath");
    }
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    if minor(difference.version) < 3 && asks_for_former_version(difference) {
        return Some("EnvironmentConfigs are requested in the API version that is served today");
    }
    if is_input_mistake(difference) {
        return Some(INVALID_INPUT);
    }
    if selection::is_metadata_mistake(difference) {
        return Some("the metadata of the input is not validated");
    }
    if is_data_of_another_kind(difference) {
        return Some("data that is not an object is reported without types of Go");
    }
    if is_order_of_targets(difference) {
        return Some("data for several fields is merged in the order of the list, not in a random order");
    }
    if is_order_of_equals(difference) {
        return Some(
            "more than twelve objects with equal sort keys keep their order, which the original changes",
        );
    }
    None
}

/// Whether the two are the same but for the version of what is asked for.
fn asks_for_former_version(difference: &Difference<'_>) -> bool {
    let mut theirs = difference.theirs.clone();
    let asked = theirs.pointer_mut("/requirements/resources").and_then(Value::as_object_mut);
    for selector in asked.into_iter().flatten().map(|(_, selector)| selector) {
        selector["apiVersion"] = json!("apiextensions.crossplane.io/v1beta1");
    }
    theirs == *difference.ours
}

fn is_data_of_another_kind(difference: &Difference<'_>) -> bool {
    let before = |text: &str, end: &str| text.split_once(end).map(|(before, _)| before.to_owned());
    let theirs =
        before(message(difference.theirs), ": cannot unmarshal value from JSON: json: cannot unmarshal ");
    theirs.is_some()
        && theirs == before(message(difference.ours), ": data: not an object")
        && differs_only_in(difference, &["/results/0/message"])
}

/// Some source goes to a place of its own, another elsewhere, and nothing but what comes of merging differs.
fn is_order_of_targets(difference: &Difference<'_>) -> bool {
    let sources = difference.request["input"]["spec"]["environmentConfigs"].as_array();
    let mut targets: Vec<&str> = sources
        .into_iter()
        .flatten()
        .map(|source| source["toFieldPath"].as_str().unwrap_or_default())
        .collect();
    targets.sort_unstable();
    targets.dedup();
    let is_merge_error = |answer| message(answer).starts_with("cannot merge environment data: ");
    targets.len() > 1
        && (differs_only_in(difference, &[ENVIRONMENT])
            || (is_merge_error(difference.theirs)
                && is_merge_error(difference.ours)
                && differs_only_in(difference, &["/results/0/message"])))
}

/// So many objects came for one source that the original's way of sorting is not stable.
fn is_order_of_equals(difference: &Difference<'_>) -> bool {
    let given = difference.request["requiredResources"].as_object();
    let is_long = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() > 12);
    given.is_some_and(|given| given.values().any(is_long)) && differs_only_in(difference, &[ENVIRONMENT])
}
