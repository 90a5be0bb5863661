//! Questions about objects that the original makes by chance, and about what we make of those.

use ferroplane_schema::builtin;
use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// Asks for objects of every kind.
pub(crate) fn samples(seed: u64, count: u64) -> Vec<Value> {
    let kinds = builtin::kinds().filter(|kind| !kind.name().ends_with("List"));
    let kinds =
        kinds.filter(|kind| !kind.name().ends_with("Options") && kind.name() != "SerializedReference");
    kinds
        .flat_map(|kind| {
            (seed..seed + count).map(move |seed| {
                json!({
                    "op": "sample", "group": kind.group(), "version": kind.version(), "kind": kind.name(), "seed": seed,
                })
            })
        })
        .collect()
}

pub(crate) fn seed(sample: &Value) -> u64 {
    sample["seed"].as_u64().unwrap()
}

/// What a question is about: the kind, and the object as it was made.
pub(crate) fn subject(sample: &Value, answer: &Value) -> Value {
    assert!(answer["object"].is_object(), "{sample}: {answer}");
    json!({
        "group": sample["group"], "version": sample["version"], "kind": sample["kind"], "object": answer["object"],
    })
}

fn question(op: &str, subject: &Value, object: &Value) -> Value {
    json!({
        "op": op, "group": subject["group"], "version": subject["version"], "kind": subject["kind"],
        "text": object.to_string(),
    })
}

/// About an object as it is.
pub(crate) fn whole(subject: &Value, _seed: u64) -> Value {
    question("read", subject, &subject["object"])
}

/// About an object with one thing wrong with it.
pub(crate) fn mistaken(subject: &Value, seed: u64) -> Value {
    let mut dice = Dice::new(seed);
    let mut object = subject["object"].clone();
    let mut places = Vec::new();
    collect(&object, String::new(), &mut places);
    places.retain(|place| !matches!(place.as_str(), "/kind" | "/apiVersion"));
    let place = places[dice.below(places.len())].clone();
    let value = object.pointer_mut(&place).unwrap();
    match if place.is_empty() { 9 } else { dice.below(10) } {
        0 => *value = Value::Null,
        1 => *value = json!("words"),
        2 => *value = json!(1),
        3 => *value = json!(1.5),
        4 => *value = json!(true),
        5 => *value = json!([]),
        6 => *value = json!({}),
        7 => *value = json!([{"a": 1}]),
        8 => *value = json!(3_000_000_000_i64),
        _ => {
            if let Value::Object(fields) = value {
                fields.insert("bogus".to_owned(), json!({"a": 1}));
            } else {
                *value = json!("");
            }
        }
    }
    question("read", subject, &object)
}

/// About the fields that an object has.
pub(crate) fn typed(subject: &Value, _seed: u64) -> Value {
    question("typed", subject, &without_empty_lists(&subject["object"]))
}

/// About an object to which a part of another is merged.
pub(crate) fn patched(subject: &Value, seed: u64) -> Value {
    let mut dice = Dice::new(seed);
    let mut original = without_nulls(&subject["object"]);
    let mut patch = original.clone();
    shake(&mut original, &mut dice);
    shake(&mut patch, &mut dice);
    let mut question = question("patch", subject, &original);
    question["patch"] = patch;
    question
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Whether a list is empty or absent is forgotten when it is stored.
fn without_empty_lists(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), without_empty_lists(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Array(list) => list.iter().map(without_empty_lists).collect(),
        other => other.clone(),
    }
}

/// Takes parts away and changes others.
fn shake(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Object(fields) => {
            let names: Vec<_> = fields.keys().cloned().collect();
            for name in names {
                if dice.chance(15) {
                    fields.remove(&name);
                } else {
                    shake(&mut fields[&name], dice);
                }
            }
        }
        Value::Array(list) => {
            if dice.chance(20) && !list.is_empty() {
                list.remove(0);
            }
            for item in list {
                shake(item, dice);
            }
        }
        Value::String(text) if dice.chance(20) => text.push_str(dice.pick(&["x", "y"])),
        Value::Bool(flag) if dice.chance(30) => *flag = !*flag,
        _ => {}
    }
}

fn collect(value: &Value, pointer: String, places: &mut Vec<String>) {
    let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect(value, format!("{pointer}/{}", escape(name)), places);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{pointer}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(pointer);
}
