//! Paths and tables.

use serde_json::{Value, json};

use super::garble;
use crate::dice::Dice;

fn object() -> Value {
    json!({
        "metadata": {"name": "n", "labels": {"a.b": "x", "c": "<y>"}, "creationTimestamp": null},
        "spec": {
            "size": 3, "ratio": 2.5, "big": 1e22, "on": true, "text": "some text", "none": null, "empty": [], "map": {},
            "items": [
                {"name": "a", "value": 1, "tags": ["p", "q"]},
                {"name": "b", "value": 2, "flag": false},
                {"name": "c d", "value": 2.5},
            ],
            "matrix": [[1, 2], [3, 4]],
            "when": "2020-01-01T00:00:00Z",
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
    })
}

fn some_path(dice: &mut Dice) -> String {
    let start = dice.pick(&["", "", "", "$", "@"]).to_owned();
    let steps: Vec<_> = (0..=dice.below(4)).map(|_| step(dice)).collect();
    let known = dice.pick(&[
        ".spec.size",
        ".spec.items[*].name",
        ".status.conditions[?(@.type=='Ready')].status",
        ".spec.matrix[*][0]",
        ".metadata.labels.a\\.b",
        ".metadata.labels['a\\.b']",
        "..name",
        ".spec.items[?(@.value>1)].name",
        ".spec.none",
        ".spec.items[0:2].value",
        ".spec.text.*",
        ".spec.items[-1:].name",
        ".spec.ratio",
        ".spec.big",
        ".spec.on",
        ".metadata.name}/{.spec.size",
        ".spec.items[?(@.flag)].name",
        ".spec.items[0]['name','value']",
    ]);
    let path = match dice.below(3) {
        0 => known.to_owned(),
        1 => format!("{known}{}", step(dice)),
        _ => start + &steps.concat(),
    };
    garble(dice, path, 25)
}

fn step(dice: &mut Dice) -> String {
    let name = dice.pick(&[
        "spec", "metadata", "items", "name", "value", "labels", "size", "none", "matrix", "tags", "text",
    ]);
    match dice.below(12) {
        0 => "[*]".to_owned(),
        1 => format!(
            "[{}]",
            dice.pick(&["0", "1", "-1", "5", "-9", "0:2", ":1", "1:", "::2", "-2:", "2:1", "0:0", "", "x"])
        ),
        2 => format!("..{name}"),
        3 => "..".to_owned(),
        4 => format!("['{name}']"),
        5 => format!("['{name}','{}']", dice.pick(&["name", "value", "spec"])),
        6 => format!(
            "[?(@.{name}{}{})]",
            dice.pick(&["==", "!=", "<", ">", "<=", ">=", "=", "=~"]),
            literal(dice)
        ),
        7 => format!("[?(@.{name})]"),
        8 => dice.pick(&[" ", "true", "'q'", "12", "-1.5", "}{", "[0,1]", "[*,0]"]).to_owned(),
        _ => format!(".{name}"),
    }
}

fn literal(dice: &mut Dice) -> &'static str {
    dice.pick(&[
        "1",
        "2",
        "2.5",
        "'a'",
        "\"c d\"",
        "true",
        "@.name",
        "'\\u0061'",
        "-1",
        "'it\\'s'",
        "x",
        "1e3",
        "",
    ])
}

pub(super) fn path(dice: &mut Dice) -> Value {
    json!({"op": "path", "path": some_path(dice), "object": object(), "strict": dice.chance(30), "attempts": 30})
}

pub(super) fn table(dice: &mut Dice) -> Value {
    let columns: Vec<_> = (0..=dice.below(3))
        .map(|index| {
            let kind = dice.pick(&["string", "integer", "number", "boolean", "date", "odd"]);
            let path = if dice.chance(30) { some_path(dice) } else { known_path(dice) };
            let path = match kind {
                // Ages change while one looks.
                "date" => dice.pick(&[".spec.none", ".spec.text", ".spec.on", ".x"]).to_owned(),
                // What becomes of a number that does not fit depends on the processor there.
                "integer" if path.contains("big") => ".spec.size".to_owned(),
                _ => path,
            };
            json!({
                "name": format!("Column{index}"), "type": kind, "format": dice.pick(&["", "int64"]),
                "description": dice.pick(&["", "words"]), "priority": dice.below(2), "jsonPath": path,
            })
        })
        .collect();
    let objects: Vec<_> = (0..dice.below(3)).map(|_| object()).collect();
    json!({"op": "table", "columns": columns, "objects": objects, "attempts": 30})
}

fn known_path(dice: &mut Dice) -> String {
    let name = dice.pick(&["size", "ratio", "big", "on", "text", "none", "empty", "map", "items", "missing"]);
    format!(".spec.{name}")
}
