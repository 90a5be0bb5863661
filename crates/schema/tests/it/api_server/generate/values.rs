//! Makes up values for schemas.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

const TEXTS: [&str; 7] = ["a", "b", "c", "abc", "", "x y", "ü<&>"];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "zz"];

/// A value that fits the schema, but for some mistakes.
pub(crate) fn value(dice: &mut Dice, schema: &Value, mistakes: usize) -> Value {
    if dice.chance(mistakes / 4) || (schema["nullable"] == true && dice.chance(25)) {
        return Value::Null;
    }
    if dice.chance(mistakes / 4) {
        return anything(dice, 2);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if dice.chance(50) { dice.below(4).into() } else { dice.pick(&TEXTS).into() };
    }
    if let Some(values) = schema["enum"].as_array() {
        return if dice.chance(80) { values[dice.below(values.len())].clone() } else { "other".into() };
    }
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "date-time" => dice
            .pick(&["2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05.5+01:00", "today"])
            .into(),
        Some("string") => TEXTS[if dice.chance(80) { dice.below(4) } else { dice.below(7) }].into(),
        Some("integer") => integer(dice),
        Some("number") => [json!(1), json!(2.5), json!(-1), json!(2.0), json!(1e21)][dice.below(5)].clone(),
        Some("boolean") => dice.chance(50).into(),
        Some("array") => array(dice, schema, mistakes),
        Some("object") => object(dice, schema, mistakes, 55),
        _ => anything(dice, 2),
    }
}

fn integer(dice: &mut Dice) -> Value {
    match dice.below(30) {
        0 => json!(3_000_000_000_u64),
        1 => json!(1.5),
        2 => json!(2.0),
        3 => json!(-1),
        _ => dice.below(4).into(),
    }
}

fn array(dice: &mut Dice, schema: &Value, mistakes: usize) -> Value {
    let mut items: Vec<Value> = (0..dice.below(4)).map(|_| value(dice, &schema["items"], mistakes)).collect();
    if schema["x-kubernetes-list-type"] == "set" && !dice.chance(mistakes + 3) {
        let mut kept: Vec<Value> = Vec::new();
        for item in items {
            if !kept.contains(&item) {
                kept.push(item);
            }
        }
        items = kept;
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
    if !keys.is_empty() {
        let mut seen = Vec::new();
        for item in &mut items {
            give_keys(dice, item, &schema["items"]);
        }
        let keep_all = dice.chance(mistakes + 3);
        items.retain(|item| {
            let key: Vec<_> = keys.iter().map(|key| item[key.as_str().unwrap_or_default()].clone()).collect();
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new || keep_all
        });
    }
    items.into()
}

fn give_keys(dice: &mut Dice, item: &mut Value, schema: &Value) {
    let Some(item) = item.as_object_mut() else { return };
    if schema["properties"]["name"].is_object() && !dice.chance(4) {
        item.insert("name".to_owned(), dice.pick(&["a", "b", "c"]).into());
    }
    if schema["properties"]["port"].is_object() && !dice.chance(4) {
        item.insert("port".to_owned(), (1 + dice.below(3)).into());
    }
}

/// An object with some of its fields.
pub(crate) fn object(dice: &mut Dice, schema: &Value, mistakes: usize, percent: usize) -> Value {
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required =
            schema["required"].as_array().is_some_and(|required| required.contains(&json!(name)));
        if dice.chance(if is_required { 90 } else { percent }) {
            fields.insert(name.clone(), value(dice, property, mistakes));
        }
    }
    if schema["additionalProperties"].is_object() {
        for _ in 0..dice.below(3) {
            let name = dice.pick(&["k1", "k2", "k3"]).to_owned();
            fields.insert(name, value(dice, &schema["additionalProperties"], mistakes));
        }
    }
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    if dice.chance(if is_open { 60 } else { mistakes / 2 }) {
        fields.insert(dice.pick(&["unknown", "zz"]).to_owned(), anything(dice, 2));
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        fields.insert("apiVersion".to_owned(), dice.pick(&["v1", "a/v1"]).into());
        fields.insert("kind".to_owned(), "Pod".into());
        if dice.chance(50) {
            fields.insert("metadata".to_owned(), json!({"name": "n", "labels": {"a": dice.pick(&TEXTS)}}));
        }
    }
    Value::Object(fields)
}

pub(crate) fn anything(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => dice.chance(50).into(),
        2 => dice.below(9).into(),
        3 => json!(2.5),
        4 | 5 => dice.pick(&TEXTS).into(),
        6 => Value::Array((0..dice.below(3)).map(|_| anything(dice, depth - 1)).collect()),
        _ => (0..dice.below(3)).map(|_| (dice.pick(&NAMES).to_owned(), anything(dice, depth - 1))).collect(),
    }
}
