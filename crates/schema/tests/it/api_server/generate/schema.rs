//! Makes up structural schemas that a server takes.

use serde_json::{Value, json};

use crate::dice::Dice;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The schema of a custom resource.
pub(crate) fn root(dice: &mut Dice) -> Value {
    let mut root =
        json!({"type": "object", "properties": {"spec": object(dice, 3), "status": object(dice, 2)}});
    // A default that fills in a status which the server dropped is read, but not stored; see docs/differences.md.
    root["properties"]["status"].as_object_mut().unwrap().remove("default");
    if dice.chance(30) {
        root["properties"]["spec"]["properties"]["replicas"] = json!({"type": "integer", "format": "int32"});
        root["properties"]["status"]["properties"]["replicas"] =
            json!({"type": "integer", "format": "int32"});
    }
    if dice.chance(8) {
        root["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if dice.chance(10) {
        root["required"] = json!(["spec"]);
    }
    if dice.chance(10) {
        let rule = dice.pick(&["self.metadata.name != 'x3'", "has(self.spec) || has(self.status)"]);
        root["x-kubernetes-validations"] = json!([{"rule": rule}]);
    }
    root
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = json!({});
    for name in NAMES {
        if dice.chance(55) {
            properties[name] = schema(dice, depth - 1);
        }
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if dice.chance(8) {
        schema["x-kubernetes-map-type"] = dice.pick(&["atomic", "granular"]).into();
    }
    if dice.chance(6) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if dice.chance(8) {
        schema["required"] = json!([NAMES[dice.below(NAMES.len())]]);
    }
    if dice.chance(10) && schema.get("required").is_none() {
        schema["default"] = json!({});
    }
    if dice.chance(12) {
        let name = dice.pick(&NAMES);
        if schema["properties"][name].is_object() {
            let mut rule = json!({"rule": format!("has(self.{name})")});
            decorate_rule(dice, &mut rule);
            if dice.chance(30) {
                rule["fieldPath"] = format!(".{name}").into();
            }
            schema["x-kubernetes-validations"] = json!([rule]);
        }
    }
    without_nulls(schema)
}

/// Looking at a field that is not there has left a null behind.
fn without_nulls(mut schema: Value) -> Value {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|_, property| !property.is_null());
    }
    schema
}

fn schema(dice: &mut Dice, depth: usize) -> Value {
    let mut schema = if depth == 0 { scalar(dice) } else { nested(dice, depth) };
    if dice.chance(8) {
        schema["nullable"] = true.into();
    }
    schema
}

fn nested(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(22) {
        0..6 => scalar(dice),
        6..9 => object(dice, depth),
        9..11 => map(dice, depth),
        11 => json!({"type": "array", "maxItems": 9, "items": without_old(schema(dice, depth - 1))}),
        12 => {
            json!({"type": "array", "items": without_old(scalar(dice)), "x-kubernetes-list-type": "atomic"})
        }
        13..15 => set(dice),
        15..19 => keyed(dice, depth),
        19 => json!({"x-kubernetes-preserve-unknown-fields": true}),
        20 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        _ => json!({
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true
        }),
    }
}

/// Rules may not check what was there before where nobody knows what that was.
fn without_old(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            let has_old = |rules: &Value| rules.to_string().contains("oldSelf");
            if fields.get("x-kubernetes-validations").is_some_and(has_old) {
                fields.remove("x-kubernetes-validations");
            }
            fields.into_iter().map(|(name, value)| (name, without_old(value))).collect()
        }
        other => other,
    }
}

fn scalar(dice: &mut Dice) -> Value {
    let mut schema = match dice.below(12) {
        0..5 => json!({"type": "string", "maxLength": 20}),
        5..8 => json!({"type": "integer"}),
        8 => json!({"type": "boolean"}),
        9 => json!({"type": "number"}),
        10 => json!({"type": "string", "format": "date-time"}),
        _ => return json!({"x-kubernetes-int-or-string": true}),
    };
    let kind = schema["type"].as_str().unwrap_or_default().to_owned();
    let has_format = schema.get("format").is_some();
    match kind.as_str() {
        "string" if !has_format => {
            match dice.below(10) {
                0 => schema["enum"] = json!(["a", "b", "abc"]),
                1 => schema["maxLength"] = 2.into(),
                2 => schema["pattern"] = "^[a-c]+$".into(),
                _ => {}
            }
            if dice.chance(15) {
                schema["default"] = "a".into();
            }
            rules(
                dice,
                &mut schema,
                &["self != 'b'", "self == oldSelf", "self.startsWith('a') || oldSelf == 'c'"],
            );
        }
        "integer" => {
            match dice.below(6) {
                0 => schema["minimum"] = 1.into(),
                1 => schema["maximum"] = 2.into(),
                2 => schema["format"] = dice.pick(&["int32", "int64"]).into(),
                _ => {}
            }
            if dice.chance(15) {
                schema["default"] = 1.into();
            }
            rules(dice, &mut schema, &["self < 3", "self >= oldSelf", "self == oldSelf"]);
        }
        _ => {}
    }
    schema
}

fn rules(dice: &mut Dice, schema: &mut Value, choices: &[&str]) {
    if !dice.chance(12) {
        return;
    }
    let mut rule = json!({"rule": dice.pick(choices)});
    if dice.chance(15) {
        rule = json!({"rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": true});
    }
    decorate_rule(dice, &mut rule);
    schema["x-kubernetes-validations"] = json!([rule]);
}

fn decorate_rule(dice: &mut Dice, rule: &mut Value) {
    if dice.chance(30) {
        rule["message"] = "must be so".into();
    }
    if dice.chance(15) {
        rule["messageExpression"] = dice.pick(&["'it is so'", "string(1 / 0)", "''"]).into();
    }
    if dice.chance(15) {
        let reasons =
            ["FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "FieldValueInvalid"];
        rule["reason"] = dice.pick(&reasons).into();
    }
}

fn map(dice: &mut Dice, depth: usize) -> Value {
    let mut schema =
        json!({"type": "object", "maxProperties": 9, "additionalProperties": schema(dice, depth - 1)});
    if dice.chance(25) {
        schema["x-kubernetes-map-type"] = dice.pick(&["atomic", "granular"]).into();
    }
    schema
}

fn set(dice: &mut Dice) -> Value {
    let items = dice.pick(&["string", "integer", "number", "boolean"]);
    json!({"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": {"type": items}})
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
    let items = items.as_object().unwrap().clone();
    let is_sound = |key: &String| key != "nullable" && key != "default";
    let items: serde_json::Map<_, _> = items.into_iter().filter(|(key, _)| is_sound(key)).collect();
    json!({
        "type": "array", "maxItems": 9, "items": items, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys
    })
}

/// The same schema, with some types of maps and lists changed.
pub(crate) fn evolve(dice: &mut Dice, schema: &Value) -> Value {
    let mut changed = schema.clone();
    evolve_below(dice, &mut changed, 0);
    changed
}

fn evolve_below(dice: &mut Dice, schema: &mut Value, depth: usize) {
    let Some(fields) = schema.as_object_mut() else { return };
    for key in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(key) {
            evolve_below(dice, below, depth + 1);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| evolve_below(dice, property, depth + 1));
    }
    if depth == 0 || !dice.chance(30) {
        return;
    }
    // In what becomes atomic, rules cannot look back.
    let Some(fields) = schema.as_object_mut().filter(|fields| !json!(fields).to_string().contains("oldSelf"))
    else {
        return;
    };
    if fields.contains_key("x-kubernetes-list-type") {
        fields.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
        fields.remove("x-kubernetes-list-map-keys");
    } else if fields.get("type") == Some(&json!("object"))
        && !fields.contains_key("x-kubernetes-embedded-resource")
    {
        let is_atomic = fields.get("x-kubernetes-map-type") == Some(&json!("atomic"));
        let other = if is_atomic { "granular" } else { "atomic" };
        fields.insert("x-kubernetes-map-type".to_owned(), other.into());
    }
}
