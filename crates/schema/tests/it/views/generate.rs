//! Makes questions: half sensible, half nonsense.

mod metadata;
mod patches;
mod paths;
mod strategic;
mod words;

use serde_json::Value;

use crate::dice::Dice;

type Generate = fn(&mut Dice) -> Value;

/// What can be asked.
pub(crate) const KINDS: &[(&str, Generate)] = &[
    ("json-patch", patches::json_patch),
    ("merge-patch", patches::merge_patch),
    ("strategic", strategic::question),
    ("label", words::label),
    ("label-object", words::label_object),
    ("list-selector", words::list_selector),
    ("field", words::field),
    ("quantity", words::quantity),
    ("quantity-pair", words::quantity_pair),
    ("duration", words::duration),
    ("name", metadata::name),
    ("meta", metadata::meta),
    ("status", metadata::status),
    ("path", paths::path),
    ("table", paths::table),
];

/// A value with a few fields, lists and texts.
pub(crate) fn value(dice: &mut Dice, depth: usize) -> Value {
    let kinds = if depth == 0 { 6 } else { 10 };
    match dice.below(kinds) {
        0 => Value::Null,
        1 => dice.chance(50).into(),
        2 => dice.below(3).into(),
        3 => [0.5, -2.25, 1e30, 1e-9][dice.below(4)].into(),
        4 | 5 => dice.pick(&["", "a", "b c", "x/y", "é\"", "12"]).into(),
        6 | 7 => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => object(dice, depth - 1),
    }
}

pub(crate) fn object(dice: &mut Dice, depth: usize) -> Value {
    let count = dice.below(5);
    let fields =
        (0..count).map(|_| (dice.pick(&["a", "b", "c", "d/e", "f~g", ""]).to_owned(), value(dice, depth)));
    Value::Object(fields.collect())
}

/// Changes a text a little now and then.
pub(crate) fn garble(dice: &mut Dice, text: String, percent: usize) -> String {
    const NOISE: [&str; 24] = [
        "", " ", "(", ")", ",", "!", "=", "[", "]", "{", "}", "'", "\"", "\\", ".", "..", "*", "?", "@", "-",
        "é", "/", "\n", "0",
    ];
    if !dice.chance(percent) {
        return text;
    }
    let mut characters: Vec<_> = text.chars().map(String::from).collect();
    for _ in 0..=dice.below(2) {
        let position = dice.below(characters.len() + 1);
        if dice.chance(40) && position < characters.len() {
            characters.remove(position);
        } else {
            characters.insert(position, dice.pick(&NOISE).to_owned());
        }
    }
    characters.concat()
}
