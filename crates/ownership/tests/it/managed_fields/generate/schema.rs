//! Makes up structural schemas.

use serde_json::{Value, json};

use crate::dice::Dice;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The schema of a custom resource.
pub(super) fn root(dice: &mut Dice) -> Value {
    let mut root = json!({
        "type": "object",
        "properties": {"spec": object(dice, 3), "status": object(dice, 2)}
    });
    if dice.chance(10) {
        root["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    root
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = json!({});
    for name in NAMES {
        if dice.chance(65) {
            properties[name] = schema(dice, depth - 1);
        }
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if dice.chance(8) {
        schema["x-kubernetes-map-type"] = (*dice.choose(&["atomic", "granular"])).into();
    }
    if dice.chance(6) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schema
}

fn schema(dice: &mut Dice, depth: usize) -> Value {
    if depth == 0 {
        return scalar(dice);
    }
    match dice.below(20) {
        0..4 => scalar(dice),
        4..7 => object(dice, depth),
        7..9 => map(dice, depth),
        9..11 => json!({"type": "array", "items": schema(dice, depth - 1)}),
        11..13 => set(dice),
        13..17 => keyed(dice, depth),
        17 => json!({"x-kubernetes-preserve-unknown-fields": true}),
        18 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        _ => json!({
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true
        }),
    }
}

fn scalar(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0..5 => json!({"type": "string"}),
        5..8 => json!({"type": "integer"}),
        8 => json!({"type": "boolean"}),
        9 => json!({"type": "number"}),
        10 => json!({"type": "string", "format": "date-time"}),
        _ => json!({"x-kubernetes-int-or-string": true}),
    }
}

fn map(dice: &mut Dice, depth: usize) -> Value {
    let mut schema = json!({"type": "object", "additionalProperties": schema(dice, depth - 1)});
    if dice.chance(25) {
        schema["x-kubernetes-map-type"] = (*dice.choose(&["atomic", "granular"])).into();
    }
    schema
}

fn set(dice: &mut Dice) -> Value {
    let items = dice.choose(&["string", "integer", "number", "boolean"]);
    json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": items}})
}

fn keyed(dice: &mut Dice, depth: usize) -> Value {
    let mut items = object(dice, depth);
    let (keys, required) = match dice.below(4) {
        0 | 1 => {
            items["properties"]["name"] = json!({"type": "string"});
            (json!(["name"]), json!(["name"]))
        }
        2 => {
            items["properties"]["port"] = json!({"type": "integer"});
            items["properties"]["protocol"] = json!({"type": "string", "default": "TCP"});
            (json!(["protocol", "port"]), json!(["port"]))
        }
        _ => {
            items["properties"]["number"] = json!({"type": "integer", "default": 1});
            (json!(["number"]), json!([]))
        }
    };
    items["required"] = required;
    json!({
        "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys
    })
}

/// The same schema, with some types of maps and lists changed.
pub(super) fn evolve(dice: &mut Dice, schema: &Value) -> Value {
    let mut changed = schema.clone();
    evolve_below(dice, &mut changed, 0);
    changed
}

fn evolve_below(dice: &mut Dice, schema: &mut Value, depth: usize) {
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            evolve_below(dice, &mut schema[key], depth + 1);
        } else if let Some(schema) =
            schema.as_object_mut().filter(|schema| schema.get(key).is_some_and(Value::is_null))
        {
            schema.remove(key);
        }
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| evolve_below(dice, property, depth + 1));
    }
    if depth == 0 || !dice.chance(30) {
        return;
    }
    let is_list = schema.get("x-kubernetes-list-type").is_some();
    let is_map = schema.get("type") == Some(&json!("object"));
    let Some(schema) = schema.as_object_mut() else { return };
    if is_list {
        schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
        schema.remove("x-kubernetes-list-map-keys");
    } else if is_map && schema.get("x-kubernetes-embedded-resource").is_none() {
        let is_atomic = schema.get("x-kubernetes-map-type") == Some(&json!("atomic"));
        let other = if is_atomic { "granular" } else { "atomic" };
        schema.insert("x-kubernetes-map-type".to_owned(), other.into());
    }
}
