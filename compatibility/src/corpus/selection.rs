//! Parts of requests for all functions that select objects: selectors, and the objects to select from.

use serde_json::{Map, Value, json};

use super::Difference;
use crate::dice::Dice;

/// A request around an input and the objects it was given. The same pieces, in all sorts of company.
pub(super) fn request(dice: &mut Dice, input: &Value, given: Option<Value>) -> Value {
    let mut request = json!({"meta": {"tag": "tag"}});
    request["input"] = input.clone();
    if dice.chance(97) {
        request["observed"] = json!({"composite": {"resource": composite(dice)}});
    }
    if dice.chance(40) {
        request["desired"] = json!({
            "composite": {"resource": {"status": {"so": "far"}}},
            "resources": {"bucket": {"resource": {"kind": "Bucket"}, "ready": "READY_TRUE"}}
        });
    }
    if let Some(given) = given {
        // The older field is for older functions: it must not be mistaken for the newer one.
        let field = if dice.chance(97) { "requiredResources" } else { "extraResources" };
        request[field] = given;
    }
    request
}

fn composite(dice: &mut Dice) -> Value {
    let mut composite = json!({
        "apiVersion": "example.org/v1", "kind": "XNetwork",
        "metadata": {"name": "cool", "labels": {"team": "a", "example.org/unit": "u"}},
        "spec": {"region": "east", "tier": "gold", "size": 3, "zones": ["a", "b"], "none": null, "nested": {"id": "x"}}
    });
    if dice.chance(15) {
        let spec = composite["spec"].as_object_mut().expect("it is written so above");
        spec.remove(*dice.pick(&["region", "tier", "zones", "nested"]));
    }
    composite
}

/// A label to choose by. Never one that makes the original end its process.
pub(super) fn label_matcher(dice: &mut Dice) -> Value {
    let mut matcher = json!({"key": dice.pick(&["region", "tier", "team", "example.org/unit", ""])});
    match dice.below(20) {
        0..=7 => {
            matcher["type"] = json!("Value");
            matcher["value"] = json!(dice.pick(&["east", "west", "gold", ""]));
        }
        8 => {
            matcher["type"] = json!(dice.pick(&["Other", "value"]));
        }
        kind => {
            if kind % 2 == 0 {
                matcher["type"] = json!(dice.pick(&["FromCompositeFieldPath", ""]));
            }
            matcher["valueFromFieldPath"] = json!(path_in_composite(dice));
        }
    }
    if dice.chance(30) {
        matcher["fromFieldPathPolicy"] = json!(dice.pick(&["Optional", "Optional", "Required", "Other"]));
    }
    matcher
}

fn path_in_composite(dice: &mut Dice) -> &'static str {
    const PRESENT: &[&str] = &[
        "spec.region",
        "spec.tier",
        "spec.zones[0]",
        "spec['nested'].id",
        "metadata.labels[example.org/unit]",
        "metadata.name",
        "spec.nested[id]",
    ];
    const DOUBTFUL: &[&str] = &[
        "spec.size",
        "spec.none",
        "spec.none.deep",
        "spec.zones",
        "spec.zones[7]",
        "spec.zones.name",
        "spec.missing",
        "spec.region[0]",
        "spec.region.deep",
        "spec[*]",
        "spec..region",
        "spec.region.",
        "spec[region",
        "spec.\u{7}bell]",
        "",
    ];
    let paths = if dice.chance(93) { PRESENT } else { DOUBTFUL };
    paths[dice.below(paths.len())]
}

/// The fields of a selector that say how many objects there have to be, and in which order.
pub(super) fn amount(dice: &mut Dice, selector: &mut Value) {
    if dice.chance(35) {
        selector["minMatch"] = json!(dice.pick(&[0, 1, 1, 2, 3]));
    }
    if dice.chance(35) {
        selector["maxMatch"] = json!(dice.pick(&[0_u64, 1, 2, 3, 10_000_000_000_000_000_000]));
    }
    if dice.chance(60) {
        selector["sortByFieldPath"] = json!(sort_path(dice));
    }
}

fn sort_path(dice: &mut Dice) -> &'static str {
    const USUAL: &[&str] =
        &["metadata.name", "data.priority", "metadata.annotations[example.org/rank]", "data.zone"];
    const ODD: &[&str] =
        &["", "data", "data.list", "data.flag", "metadata.name.deep", "data.mixed", "a..b", "data.list[0]"];
    let paths = if dice.chance(85) { USUAL } else { ODD };
    paths[dice.below(paths.len())]
}

/// The labels of a selector.
pub(super) fn label_matchers(dice: &mut Dice) -> Value {
    let count = if dice.chance(90) { 1 + dice.below(3) } else { 0 };
    (0..count).map(|_| label_matcher(dice)).collect()
}

/// Objects that came, most often as many as were wished for.
pub(super) fn given(dice: &mut Dice, wish: usize) -> Value {
    let count = if dice.chance(92) { wish } else { dice.below(5) };
    let mut items: Vec<Value> = (0..count).map(|number| json!({"resource": object(dice, number)})).collect();
    if dice.chance(2) {
        items.push(json!({}));
    }
    if items.is_empty() && dice.chance(50) { json!({}) } else { json!({ "items": items }) }
}

fn object(dice: &mut Dice, number: usize) -> Value {
    let mut object = json!({
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": dice.pick(&["EnvironmentConfig", "EnvironmentConfig", "ConfigMap"]),
        "metadata": {"name": format!("{}-{number}", dice.pick(&["a", "b", "B", "é", "z\"q"]))},
        "data": data(dice)
    });
    if dice.chance(60) {
        object["metadata"]["annotations"] = json!({"example.org/rank": dice.pick(&["1", "2", "10", ""])});
    }
    match dice.below(60) {
        0 => drop(object.as_object_mut().map(|object| object.remove("data"))),
        1 => object["data"] = Value::Null,
        2 => object["data"] = dice.pick(&[json!("text"), json!([1]), json!(7), json!(true)]).clone(),
        3 => drop(object.as_object_mut().map(|object| object.remove("metadata"))),
        4 => object["metadata"]["name"] = json!(5),
        _ => {}
    }
    object
}

/// Data with fields that others have as well, of the same kind or another.
pub(super) fn data(dice: &mut Dice) -> Value {
    let mut data = Map::new();
    for _ in 0..dice.below(6) {
        let (field, value) = field(dice);
        data.insert(field.to_owned(), value);
    }
    Value::Object(data)
}

fn field(dice: &mut Dice) -> (&'static str, Value) {
    match dice.below(24) {
        0..=4 => (
            "priority",
            dice.pick(&[json!(1), json!(2), json!(10), json!(-1.5), json!(1e21), json!(0), json!(-0.0)])
                .clone(),
        ),
        5..=8 => ("zone", json!(dice.pick(&["a", "b", "c"]))),
        9..=12 => {
            let (field, value) = leaf(dice);
            ("network", json!({ field: value, "deep": {field: value} }))
        }
        13 => ("network", dice.pick(&[json!("none"), json!(null), json!([])]).clone()),
        14 => ("list", dice.pick(&[json!([1]), json!([]), json!([2, {"a": null}])]).clone()),
        15 => ("flag", json!(dice.chance(50))),
        16 => (
            "mixed",
            dice.pick(&[json!(1), json!("1"), json!(null), json!([]), json!({}), json!(true)]).clone(),
        ),
        17 => ("kind", dice.pick(&[json!("Special"), json!(""), json!(1)]).clone()),
        18 => (
            "apiVersion",
            dice.pick(&[json!("v1"), json!("a/b"), json!("a/b/c"), json!("/"), json!({})]).clone(),
        ),
        19 => ("place", json!({"of": {leaf(dice).0: 1}})),
        _ => leaf(dice),
    }
}

fn leaf(dice: &mut Dice) -> (&'static str, Value) {
    let field = *dice.pick(&["cidr", "account", "size", "a.b", "<&>"]);
    (
        field,
        dice.pick(&[
            json!("10.0.0.0/8"),
            json!(3),
            json!(0.25),
            json!(null),
            json!(false),
            json!({}),
            json!([1, "x"]),
        ])
        .clone(),
    )
}

/// Break the input at a place of its own choosing.
pub(super) fn spoil(dice: &mut Dice, input: &mut Value) {
    match input {
        Value::Object(object) if !object.is_empty() && dice.chance(80) => {
            let keys: Vec<String> = object.keys().cloned().collect();
            let key = dice.pick(&keys);
            spoil(dice, &mut object[key]);
        }
        Value::Array(items) if !items.is_empty() => {
            let at = dice.below(items.len());
            spoil(dice, &mut items[at]);
        }
        Value::Object(object) => {
            object.insert("surprise".to_owned(), json!(1));
        }
        Value::String(_) => {
            *input = dice.pick(&[json!(1), json!(["x"]), json!({"x": "y"}), json!(true)]).clone();
        }
        Value::Number(_) => {
            *input = dice.pick(&[json!("1"), json!(-1), json!(1.5), json!(1e21), json!([1])]).clone();
        }
        _ => *input = json!("other"),
    }
}

/// Both report an invalid input, with different messages.
pub(super) fn is_input_mistake(difference: &Difference<'_>) -> bool {
    message(difference.theirs)
        .starts_with("cannot get Function input from *v1.RunFunctionRequest: cannot get ")
        && message(difference.ours).starts_with("cannot get Function input: ")
        && differs_only_in(difference, &["/results/0/message"])
}

/// The original refuses the metadata of the input, which the built-in function does not validate.
pub(super) fn is_metadata_mistake(difference: &Difference<'_>) -> bool {
    let metadata = &difference.request["input"]["metadata"];
    message(difference.theirs)
        .starts_with("cannot get Function input from *v1.RunFunctionRequest: cannot get ")
        && metadata.is_object()
        && *metadata != metadata_in_order()
}

/// Metadata that both accept.
pub(super) fn metadata_in_order() -> Value {
    json!({"name": "input", "labels": {"a": "b"}})
}

/// The message of the first result.
pub(super) fn message(answer: &Value) -> &str {
    answer["results"][0]["message"].as_str().unwrap_or_default()
}

/// Whether the answers are the same but for these places, which both have.
pub(super) fn differs_only_in(difference: &Difference<'_>, places: &[&str]) -> bool {
    let [mut theirs, mut ours] = [difference.theirs.clone(), difference.ours.clone()];
    for place in places {
        let (Some(their), Some(our)) = (theirs.pointer_mut(place), ours.pointer_mut(place)) else {
            return false;
        };
        their.clone_from(our);
    }
    theirs == ours
}
