//! Makes up field sets, and managed fields.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// A set of fields, in any spelling.
pub(super) fn fields(dice: &mut Dice, depth: usize) -> Value {
    let mut out = Map::new();
    for _ in 0..dice.below(5) {
        let key = *dice.choose(&[
            "f:a",
            "f:b",
            "f:c",
            "f:",
            "f:a b",
            "f:é<",
            "k:{\"name\":\"x\"}",
            "k:{\"name\":\"y\"}",
            "k:{\"port\":80,\"protocol\":\"TCP\"}",
            "k:{\"protocol\":\"TCP\", \"port\":443}",
            "k:{\"port\":9}",
            "k:{\"port\":null}",
            "k:{\"a\":{\"b\":[1,true]}}",
            "v:1",
            "v:10",
            "v:2",
            "v:1.5",
            "v:1e6",
            "v:1000000",
            "v:\"x\"",
            "v:\"<\\u003e\"",
            "v:true",
            "v:null",
            "v:[1,2]",
            "v:{\"b\": 1}",
            "i:0",
            "i:10",
            "i:9",
            "i:-1",
            "x:unknown",
        ]);
        let key = if dice.chance(1) {
            *dice.choose(&["f", "nocolon", "i:x", "v:", "v:{", "k:{\"a\":", "k:1", ""])
        } else {
            key
        };
        out.insert(key.to_owned(), if depth == 0 { json!({}) } else { fields(dice, depth - 1) });
    }
    if dice.chance(30) {
        out.insert(".".to_owned(), json!({}));
    }
    if dice.chance(1) { Value::Null } else { out.into() }
}

fn entry(dice: &mut Dice, versions: &[&str], fields: &Value) -> Value {
    let mut entry = json!({
        "manager": dice.choose(&["m1", "m2", "m3"]),
        "operation": dice.choose(&["Apply", "Update"]),
        "apiVersion": dice.choose(versions),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields
    });
    if dice.chance(70) {
        entry["time"] =
            (*dice.choose(&["2001-01-01T00:00:01Z", "2001-01-01T00:00:02Z", "2001-01-01T02:00:02+02:00"]))
                .into();
    }
    if dice.chance(20) {
        entry["subresource"] = (*dice.choose(&["status", "scale"])).into();
    }
    entry
}

/// A question about the owners of a scale.
pub(super) fn scale(dice: &mut Dice) -> Value {
    let versions = ["example.org/v1", "example.org/v2", "example.org/v3"];
    let mut parent = Vec::new();
    for _ in 0..dice.below(4) {
        let mut spec = json!({});
        for name in ["f:replicas", "f:size", "f:other"] {
            if dice.chance(50) {
                spec[name] = json!({});
            }
        }
        parent.push(entry(dice, &versions, &json!({"f:spec": spec})));
    }
    let mut scale = Vec::new();
    for _ in 0..dice.below(3) {
        let fields =
            if dice.chance(80) { json!({"f:spec": {"f:replicas": {}}}) } else { json!({"f:metadata": {}}) };
        scale.push(entry(dice, &["autoscaling/v1", "example.org/v1"], &fields));
    }
    let mut mappings = json!({"example.org/v1": ["spec", "replicas"]});
    if dice.chance(60) {
        mappings["example.org/v2"] = if dice.chance(70) { json!(["spec", "size"]) } else { Value::Null };
    }
    json!({"scale": {"version": "example.org/v1", "mappings": mappings, "parent": parent, "scale": scale}})
}

/// Managed fields as somebody might write them by hand.
pub(super) fn tampered(dice: &mut Dice, managed: &Value) -> Value {
    let mut entries = managed.as_array().cloned().unwrap_or_default();
    match dice.below(12) {
        0 => return json!([]),
        1 => return json!([{}]),
        2 => return Value::Null,
        3 => {
            entries.push(json!({"manager": "broken", "operation": "Update", "apiVersion": "example.org/v1"}));
        }
        4 => entries.push(json!({"manager": "broken", "operation": "Nothing"})),
        5 => entries.push(json!("nonsense")),
        6 => {
            let fields = json!({"f:spec": fields(dice, 2)});
            entries.push(entry(dice, &["example.org/v1", "example.org/v2", "example.org/v9"], &fields));
        }
        7 if !entries.is_empty() => {
            entries.remove(dice.below(entries.len()));
        }
        8 if !entries.is_empty() => {
            let index = dice.below(entries.len());
            entries[index]["manager"] = "m1".into();
        }
        9 if !entries.is_empty() => {
            let index = dice.below(entries.len());
            entries[index]["operation"] = "Apply".into();
        }
        10 if !entries.is_empty() => {
            let index = dice.below(entries.len());
            entries[index]["apiVersion"] =
                (*dice.choose(&["example.org/v1", "example.org/v2", "example.org/v9"])).into();
        }
        _ if !entries.is_empty() => {
            let index = dice.below(entries.len());
            entries[index]["time"] =
                (*dice.choose(&["2001-01-01T00:00:00.5Z", "2001-01-01T01:00:00+01:00", "never"])).into();
        }
        _ => {}
    }
    entries.into()
}
