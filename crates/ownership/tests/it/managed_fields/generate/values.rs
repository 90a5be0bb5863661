//! Makes up values that fit a schema, most of the time.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// What to do wrong, in percent.
#[derive(Clone, Copy)]
pub(super) struct Faults {
    pub(super) duplicates: usize,
    pub(super) nonsense: usize,
    pub(super) nulls: usize,
}

/// A value of a schema.
pub(super) fn value(dice: &mut Dice, schema: &Value, faults: Faults) -> Value {
    if dice.chance(faults.nulls) {
        return Value::Null;
    }
    if faults.nonsense > 0 && dice.below(400) < faults.nonsense {
        return anything(dice, 2);
    }
    match schema["type"].as_str() {
        Some("string") => text(dice).into(),
        Some("integer") => integer(dice).into(),
        Some("number") => {
            if dice.chance(50) {
                json!(0.5)
            } else {
                integer(dice).into()
            }
        }
        Some("boolean") => dice.chance(50).into(),
        Some("array") => list(dice, schema, faults),
        Some("object") => object(dice, schema, faults),
        _ if schema["x-kubernetes-int-or-string"] == true => {
            if dice.chance(50) {
                integer(dice).into()
            } else {
                text(dice).into()
            }
        }
        _ => anything(dice, 3),
    }
}

fn text(dice: &mut Dice) -> &'static str {
    dice.choose::<&str>(&["x", "y", "z", "x", "y", "z", "", "<&>", "é\"\\\n", "a b"])
}

fn integer(dice: &mut Dice) -> i64 {
    *dice.choose(&[0, 1, 2, 3, 1, 2, 3, 10, -1, 1_000_000, 123_456_789])
}

fn anything(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => dice.chance(50).into(),
        2 => integer(dice).into(),
        3 | 4 => text(dice).into(),
        5 => (0..dice.below(3)).map(|_| anything(dice, depth - 1)).collect::<Vec<_>>().into(),
        _ => {
            let names = ["a", "b", "c"];
            let mut fields = Map::new();
            for name in names {
                if dice.chance(50) {
                    fields.insert(name.to_owned(), anything(dice, depth - 1));
                }
            }
            fields.into()
        }
    }
}

fn list(dice: &mut Dice, schema: &Value, faults: Faults) -> Value {
    let mut items: Vec<Value> = Vec::new();
    let list_type = schema["x-kubernetes-list-type"].as_str().unwrap_or("atomic");
    for _ in 0..dice.below(5) {
        let faults = if list_type == "set" { Faults { nulls: faults.nulls / 4, ..faults } } else { faults };
        let mut item = value(dice, &schema["items"], faults);
        if list_type == "map" {
            add_keys(dice, schema, &mut item, faults);
        }
        let is_known = items.iter().any(|other| same_item(schema, other, &item));
        if !is_known || dice.chance(faults.duplicates) {
            items.push(item);
        }
    }
    items.into()
}

fn add_keys(dice: &mut Dice, schema: &Value, item: &mut Value, faults: Faults) {
    if !item.is_object() && !dice.chance(faults.nonsense) {
        *item = json!({});
    }
    let required = schema["items"]["required"].as_array().cloned().unwrap_or_default();
    for key in required.iter().filter_map(Value::as_str) {
        if !item.is_object() || dice.below(300) < faults.nonsense {
            continue;
        }
        item[key] =
            if key == "port" { (*dice.choose(&[80, 443, 1_000_000, 9])).into() } else { text(dice).into() };
    }
}

fn same_item(schema: &Value, one: &Value, other: &Value) -> bool {
    match schema["x-kubernetes-list-map-keys"].as_array() {
        Some(keys) => keys.iter().filter_map(Value::as_str).all(|key| {
            let default = &schema["items"]["properties"][key]["default"];
            let value = |item: &Value| item.get(key).unwrap_or(default).clone();
            value(one) == value(other)
        }),
        None => schema["x-kubernetes-list-type"] == "set" && one == other,
    }
}

/// An object with some of its fields.
pub(super) fn object(dice: &mut Dice, schema: &Value, faults: Faults) -> Value {
    let mut fields = Map::new();
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            if dice.chance(55) {
                fields.insert(name.clone(), value(dice, property, faults));
            }
        }
    }
    if schema["additionalProperties"].is_object() {
        for name in ["k1", "k2", "k.3"] {
            if dice.chance(50) {
                fields.insert(name.to_owned(), value(dice, &schema["additionalProperties"], faults));
            }
        }
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Thing".into());
        fields.insert("metadata".to_owned(), metadata(dice));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true || dice.below(300) < faults.nonsense {
        for name in ["u", "v"] {
            if dice.chance(50) {
                fields.insert(name.to_owned(), anything(dice, 3));
            }
        }
    }
    fields.into()
}

/// Some metadata.
pub(super) fn metadata(dice: &mut Dice) -> Value {
    let mut metadata = json!({"name": "thing"});
    if dice.chance(30) {
        metadata["namespace"] = "somewhere".into();
    }
    for name in ["labels", "annotations"] {
        if dice.chance(40) {
            let mut texts = Map::new();
            for key in ["p", "q", "example.org/r"] {
                if dice.chance(50) {
                    texts.insert(key.to_owned(), text(dice).into());
                }
            }
            metadata[name] = texts.into();
        }
    }
    if dice.chance(25) {
        let finalizers = ["f1", "f2", "f3"].into_iter().filter(|_| dice.chance(50));
        metadata["finalizers"] = finalizers.collect::<Vec<_>>().into();
    }
    if dice.chance(20) {
        let uids = ["u1", "u2"].into_iter().filter(|_| dice.chance(60)).collect::<Vec<_>>();
        let owners = uids.into_iter().map(|uid| {
            json!({"uid": uid, "name": text(dice), "kind": "Owner", "apiVersion": "v1", "controller": dice.chance(50)})
        });
        metadata["ownerReferences"] = owners.collect::<Vec<_>>().into();
    }
    metadata
}

/// The same value with something changed, removed or added.
pub(super) fn mutate(dice: &mut Dice, value: &mut Value, schema: &Value, faults: Faults) {
    match value {
        Value::Object(fields) if dice.chance(80) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let fresh = object(dice, schema, faults);
            if dice.chance(30)
                && let Some((name, value)) = fresh.as_object().and_then(|fresh| fresh.iter().next())
            {
                fields.insert(name.clone(), value.clone());
            }
            if names.is_empty() {
                return;
            }
            let name = dice.choose(&names).clone();
            let property = schema["properties"].get(&name).unwrap_or(&schema["additionalProperties"]).clone();
            if dice.chance(25) {
                fields.remove(&name);
            } else if let Some(field) = fields.get_mut(&name) {
                mutate(dice, field, &property, faults);
            }
        }
        Value::Array(items) if !items.is_empty() && dice.chance(75) => {
            let index = dice.below(items.len());
            match dice.below(6) {
                4 | 5 => {
                    let fresh = list(dice, schema, faults);
                    let is_new = |item: &Value| !items.iter().any(|other| same_item(schema, other, item));
                    let fresh = fresh.as_array().and_then(|fresh| fresh.iter().find(|item| is_new(item)));
                    items.splice(index..index, fresh.cloned());
                }
                0 => {
                    items.remove(index);
                }
                1 => {
                    let item = items.remove(index);
                    let place = dice.below(items.len() + 1);
                    items.insert(place, item);
                }
                _ if items[index].is_object() => mutate(dice, &mut items[index], &schema["items"], faults),
                _ => {}
            }
        }
        other => *other = self::value(dice, schema, faults),
    }
}
