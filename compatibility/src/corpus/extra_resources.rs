//! The cases of `function-extra-resources`.

use serde_json::{Map, Value, json};

use super::selection::{self, differs_only_in, is_input_mistake};
use super::{Corpus, Difference, INVALID_INPUT, adds_nothing, as_it_is, minor, no_files};
use crate::dice::Dice;

pub(super) const CORPUS: Corpus = Corpus {
    function: "function-extra-resources",
    generate,
    adapt: as_it_is,
    asks_formerly: |version| minor(version) < 3,
    files: no_files,
    by_hand,
    without_additions: adds_nothing,
    deliberate,
};

const KEY: &str = "apiextensions.crossplane.io/extra-resources";

fn generate(dice: &mut Dice) -> Value {
    let count = if dice.chance(97) { 1 + dice.below(3) } else { 0 };
    let sources: Vec<(Value, usize)> = (0..count).map(|index| source(dice, index)).collect();
    let given = if dice.chance(90) { Some(given(dice, &sources)) } else { None };
    let mut input = input(dice, &sources.into_iter().map(|(source, _)| source).collect());
    if dice.chance(4) {
        selection::spoil(dice, &mut input);
    }
    let mut request = selection::request(dice, &input, given);
    if dice.chance(40) {
        request["context"] =
            dice.pick(&[json!({"other": {"kept": true}}), json!({KEY: {"old": []}}), json!({})]).clone();
    }
    request
}

fn input(dice: &mut Dice, sources: &Value) -> Value {
    let mut spec = json!({ "extraResources": sources });
    if dice.chance(40) {
        spec["policy"] = dice
            .pick(&[
                json!({"resolution": "Optional"}),
                json!({"resolution": "Required"}),
                json!({}),
                json!(null),
            ])
            .clone();
    }
    // What the next release may know, this one must not.
    if dice.chance(1) {
        spec["context"] = dice.pick(&[json!({"key": "other"}), json!({}), json!(null)]).clone();
    }
    json!({"apiVersion": "extra-resources.fn.crossplane.io/v1beta1", "kind": "Input", "spec": spec})
}

/// A source, and how many objects it wishes for.
fn source(dice: &mut Dice, index: usize) -> (Value, usize) {
    let into = if dice.chance(88) {
        format!("list-{index}")
    } else {
        (*dice.pick(&["list-0", "list-0", "", "q\"uote"])).to_owned()
    };
    let mut source = json!({"into": into});
    if dice.chance(95) {
        source["kind"] = json!(dice.pick(&["ConfigMap", "Subnet"]));
        source["apiVersion"] = json!(dice.pick(&["v1", "network.example.org/v1"]));
    }
    if dice.chance(30) {
        source["namespace"] =
            json!(dice.pick(&[json!("default"), json!("platform"), json!(""), json!(null)]));
    }
    if dice.chance(40) {
        source["ref"] = json!({"name": dice.pick(&["one", "two", ""])});
        if dice.chance(50) {
            source["type"] = json!(dice.pick(&["Reference", "Reference", "Reference", "", "Other"]));
        }
        return (source, 1);
    }
    source["type"] = json!("Selector");
    source["selector"] = json!({"matchLabels": selection::label_matchers(dice)});
    selection::amount(dice, &mut source["selector"]);
    if dice.chance(2) {
        source["selector"]["matchLabels"] = json!([{"key": "a", "type": dice.pick(&["Value", ""])}]);
    }
    let least =
        usize::try_from(source["selector"]["minMatch"].as_u64().unwrap_or_default()).unwrap_or_default();
    (source, least + dice.below(4))
}

fn given(dice: &mut Dice, sources: &[(Value, usize)]) -> Value {
    let mut given = Map::new();
    for (source, wish) in sources {
        if dice.chance(96) {
            given.insert(
                source["into"].as_str().unwrap_or_default().to_owned(),
                selection::given(dice, *wish),
            );
        }
    }
    if dice.chance(5) {
        given.insert("other".to_owned(), selection::given(dice, 1));
    }
    Value::Object(given)
}

fn by_hand() -> Vec<(&'static str, Value)> {
    let object = |name: &str, zone: &str| json!({"resource": {"apiVersion": "v1", "kind": "Subnet", "metadata": {"name": name}, "spec": {"zone": zone}}});
    let by_name = json!({"extraResources": [{"into": "a", "kind": "ConfigMap", "apiVersion": "v1", "ref": {"name": "one"}}]});
    let by_label = |sort_by: &str| {
        json!({"extraResources": [{"type": "Selector", "into": "a", "kind": "Subnet", "apiVersion": "v1", "namespace": "n",
            "selector": {"sortByFieldPath": sort_by, "matchLabels": [{"key": "k", "type": "Value", "value": "v"}]}}]})
    };
    let many: Vec<Value> =
        (0..30).map(|at| object(&format!("n{:02}", at * 7 % 30), ["a", "b", "c"][at % 3])).collect();
    vec![
        ("no input", json!({})),
        ("no input, but objects", json!({"requiredResources": {"a": {"items": [object("one", "a")]}}})),
        (
            "empty list of sources",
            json!({"input": {"spec": {"extraResources": []}}, "requiredResources": {"a": {}}}),
        ),
        ("first call by name", json!({"input": {"spec": by_name}})),
        ("first call by label", json!({"input": {"spec": by_label("")}})),
        (
            "objects in the older field",
            json!({"input": {"spec": by_name}, "extraResources": {"a": {"items": [object("one", "a")]}}}),
        ),
        (
            "second call by name",
            json!({"input": {"spec": by_name}, "requiredResources": {"a": {"items": [object("one", "a")]}}}),
        ),
        (
            "second call by name, not found",
            json!({"input": {"spec": by_name}, "requiredResources": {"a": {}}}),
        ),
        (
            "second call by name, twice",
            json!({"input": {"spec": by_name}, "requiredResources": {"a": {"items": [object("one", "a"), object("one", "b")]}}}),
        ),
        (
            "second call by label, nothing",
            json!({"input": {"spec": by_label("")}, "requiredResources": {"a": {}}}),
        ),
        (
            "second call by label, none of those wanted",
            json!({"input": {"spec": with(&by_label(""), "maxMatch", &json!(0))}, "requiredResources": {"a": {"items": [object("one", "a")]}}}),
        ),
        (
            "one list by label and by name",
            json!({"input": {"spec": {"extraResources": [by_label("")["extraResources"][0], by_name["extraResources"][0]]}},
                "requiredResources": {"a": {"items": [object("one", "a")]}}}),
        ),
        (
            "one list by zone and by nothing",
            json!({"input": {"spec": {"extraResources": [by_label("spec.zone")["extraResources"][0], by_label("none")["extraResources"][0]]}},
                "requiredResources": {"a": {"items": [object("one", "b"), object("two", "a")]}}}),
        ),
        (
            "unknown type",
            json!({"input": {"spec": {"extraResources": [{"type": "Later", "into": "a"}]}}, "requiredResources": {"a": {"items": [object("one", "a")]}}}),
        ),
        (
            "unknown type without its fields",
            json!({"input": {"spec": {"extraResources": [{"type": "Later", "into": "a"}]}}, "requiredResources": {"b": {}}}),
        ),
        (
            "sorted by an object",
            json!({"input": {"spec": by_label("metadata")}, "requiredResources": {"a": {"items": [object("one", "a"), object("two", "b")]}}}),
        ),
        (
            "key of the context",
            json!({"input": {"spec": {"context": {"key": "mine"}, "extraResources": []}}}),
        ),
        (
            "thirty objects by name",
            json!({"input": {"spec": by_label("")}, "requiredResources": {"a": {"items": many}}}),
        ),
        (
            "thirty objects by zone",
            json!({"input": {"spec": by_label("spec.zone")}, "requiredResources": {"a": {"items": many}}}),
        ),
        ("unknown metadata", json!({"input": {"metadata": {"nme": "x"}, "spec": by_name}})),
    ]
}

/// The specification, with this field in its only selector.
fn with(specification: &Value, field: &str, value: &Value) -> Value {
    let mut specification = specification.clone();
    specification["extraResources"][0]["selector"][field] = value.clone();
    specification
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    if is_input_mistake(difference) {
        return Some(INVALID_INPUT);
    }
    if selection::is_metadata_mistake(difference) {
        return Some("the metadata of the input is not validated");
    }
    if is_order_of_equals(difference) {
        return Some(
            "more than twelve objects with equal sort keys keep their order, which the original changes",
        );
    }
    None
}

/// The lists hold the same objects, and one that is long holds them in another order.
fn is_order_of_equals(difference: &Difference<'_>) -> bool {
    let ours = lists(difference.ours);
    ours.iter().any(|list| list.len() > 12)
        && ours == lists(difference.theirs)
        && differs_only_in(difference, &["/context"])
}

/// What the lists of an answer hold, in no order.
fn lists(answer: &Value) -> Vec<Vec<String>> {
    let sorted = |list: &Value| {
        let mut texts: Vec<String> = list.as_array().into_iter().flatten().map(Value::to_string).collect();
        texts.sort_unstable();
        texts
    };
    let values = answer["context"].as_object().into_iter().flat_map(Map::values).filter_map(Value::as_object);
    values.flat_map(Map::values).map(sorted).collect()
}
