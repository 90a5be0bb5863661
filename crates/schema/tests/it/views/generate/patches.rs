//! JSON patches and merge patches.

use serde_json::{Map, Value, json};

use super::{object, value};
use crate::dice::Dice;

pub(super) fn json_patch(dice: &mut Dice) -> Value {
    let document = if dice.chance(90) { object(dice, 3) } else { json!([value(dice, 2), 1, {"a": 2}]) };
    let operations: Vec<_> = (0..=dice.below(4)).map(|_| operation(dice, &document)).collect();
    let patch = if dice.chance(97) { Value::from(operations) } else { value(dice, 2) };
    json!({"op": "json-patch", "document": document, "patch": patch.to_string()})
}

fn operation(dice: &mut Dice, document: &Value) -> Value {
    let mut operation = Map::new();
    let kind = dice.pick(&["add", "remove", "replace", "move", "copy", "test", "test", "add", "spin"]);
    let path = pointer(dice, document);
    if dice.chance(98) {
        operation.insert("op".to_owned(), kind.into());
    }
    if dice.chance(97) {
        operation.insert("path".to_owned(), path.as_str().into());
    }
    if matches!(kind, "move" | "copy") || dice.chance(5) {
        operation.insert("from".to_owned(), pointer(dice, document).into());
    }
    let existing = document.pointer(&path).filter(|_| kind == "test" && dice.chance(80)).cloned();
    // A test without a value means something only to the original.
    if kind == "test" || dice.chance(95) {
        // Null that a patch has put in is not the same null to the original as one that was there.
        let fresh = value(dice, 2);
        let fresh = if fresh.is_null() && kind != "test" { json!(7) } else { fresh };
        operation.insert("value".to_owned(), existing.unwrap_or(fresh));
    } else {
        operation.insert("value".to_owned(), json!("x"));
    }
    if dice.chance(2) {
        operation.insert(dice.pick(&["op", "path", "from"]).to_owned(), value(dice, 1));
    }
    operation.into()
}

/// A path that mostly leads somewhere.
fn pointer(dice: &mut Dice, document: &Value) -> String {
    if dice.chance(3) {
        return dice.pick(&["", "a", "/", "//", "a/b", "/-", "/~2"]).to_owned();
    }
    let (mut pointer, mut place) = (String::new(), document);
    loop {
        let key = match place {
            Value::Object(fields) if !fields.is_empty() && dice.chance(90) => {
                fields.keys().nth(dice.below(fields.len())).unwrap().clone()
            }
            Value::Array(items) => match dice.below(10) {
                0 => "-".to_owned(),
                1 => format!("-{}", dice.below(5)),
                2 => dice.pick(&["+1", "01", "x", "99999999999999999999", "", "-0"]).to_owned(),
                3 => items.len().to_string(),
                _ => dice.below(items.len() + 1).to_string(),
            },
            _ => dice.pick(&["a", "b", "c", "new", "d/e"]).to_owned(),
        };
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        place =
            place.pointer(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))).unwrap_or(&Value::Null);
        if dice.chance(40) || !(place.is_object() || place.is_array()) {
            return pointer;
        }
    }
}

pub(super) fn merge_patch(dice: &mut Dice) -> Value {
    let document = object(dice, 3);
    let patch = if dice.chance(97) { object(dice, 3) } else { json!(1) };
    json!({"op": "merge-patch", "document": document, "patch": patch.to_string()})
}
