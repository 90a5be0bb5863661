//! Selectors and quantities.

use serde_json::{Value, json};

use super::garble;
use crate::dice::Dice;

const KEYS: [&str; 8] = ["a", "b", "example.org/c", "in", "notin", "-x", "A_b.c", "a/b/c"];
const VALUES: [&str; 9] = ["", "1", "x", "y-z", "in", "5", "-3", "A.b_c", "99999999999999999999"];

fn label_sets(dice: &mut Dice) -> Value {
    let set = |dice: &mut Dice| -> Value {
        let count = dice.below(4);
        (0..count)
            .map(|_| (dice.pick(&KEYS).to_owned(), Value::from(dice.pick(&VALUES))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    (0..4).map(|_| set(dice)).collect()
}

pub(super) fn label(dice: &mut Dice) -> Value {
    let terms: Vec<_> = (0..dice.below(4)).map(|_| term(dice)).collect();
    let separator = dice.pick(&[",", ",", ", ", " ,", ",,"]);
    let text = garble(dice, terms.join(separator), 30);
    json!({"op": "label", "selector": text, "sets": label_sets(dice)})
}

fn term(dice: &mut Dice) -> String {
    let key = dice.pick(&KEYS);
    let space = dice.pick(&["", "", " ", "  \t"]);
    match dice.below(8) {
        0 => key.to_owned(),
        1 => format!("!{space}{key}"),
        2 | 3 => {
            let values: Vec<_> = (0..dice.below(4)).map(|_| dice.pick(&VALUES)).collect();
            format!("{key} {} ({})", dice.pick(&["in", "notin", "In"]), values.join(","))
        }
        _ => format!(
            "{key}{space}{}{space}{}",
            dice.pick(&["=", "==", "!=", ">", "<", "=!", ">="]),
            dice.pick(&VALUES)
        ),
    }
}

fn selector_object(dice: &mut Dice) -> Value {
    let text = |dice: &mut Dice, choices: &[&'static str]| {
        let chosen = dice.pick(choices).to_owned();
        garble(dice, chosen, 5)
    };
    let labels = (0..dice.below(2)).map(|_| (text(dice, &KEYS), Value::from(text(dice, &VALUES))));
    let labels: serde_json::Map<_, _> = labels.collect();
    let expressions: Vec<_> = (0..dice.below(3))
        .map(|_| {
            let operator = dice.pick(&["In", "NotIn", "Exists", "DoesNotExist", "In", "Gt", "<"]);
            let count = if matches!(operator, "In" | "NotIn") { dice.below(3) } else { dice.below(2) };
            let values: Vec<_> = (0..count).map(|_| text(dice, &VALUES)).collect();
            json!({"key": text(dice, &KEYS), "operator": operator, "values": values})
        })
        .collect();
    json!({"matchLabels": labels, "matchExpressions": expressions})
}

pub(super) fn label_object(dice: &mut Dice) -> Value {
    let selector = if dice.chance(3) { Value::Null } else { selector_object(dice) };
    json!({"op": "label-object", "selector": selector, "sets": label_sets(dice)})
}

pub(super) fn list_selector(dice: &mut Dice) -> Value {
    json!({"op": "list-selector", "selector": selector_object(dice)})
}

pub(super) fn field(dice: &mut Dice) -> Value {
    const FIELDS: [&str; 4] = ["metadata.name", "spec.a", "status.phase", ""];
    const TEXTS: [&str; 7] = ["a", "", "b\\,c", "d\\=e", "\\\\", "x y", "é"];
    let terms: Vec<_> = (0..dice.below(4))
        .map(|_| format!("{}{}{}", dice.pick(&FIELDS), dice.pick(&["=", "==", "!="]), dice.pick(&TEXTS)))
        .collect();
    let text = garble(dice, terms.join(","), 30);
    let sets =
        ["a", "b,c", ""].map(|value| json!({"metadata.name": value, "spec.a": "a", "status.phase": value}));
    json!({"op": "field", "selector": text, "sets": sets})
}

fn quantity_text(dice: &mut Dice) -> String {
    const SUFFIXES: [&str; 24] = [
        "", "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3",
        "E-2", "e+7", "e-12", "K", "i",
    ];
    let digits = |dice: &mut Dice, most: usize| -> String {
        let zeros = dice.chance(20);
        (0..dice.below(most))
            .map(|_| if zeros { "0".to_owned() } else { dice.below(10).to_string() })
            .collect()
    };
    let most = if dice.chance(20) { 20 } else { 6 };
    let mut text = dice.pick(&["", "", "", "-", "+"]).to_owned();
    text.push_str(&digits(dice, most));
    if dice.chance(30) {
        text.push('.');
        let most = if dice.chance(20) { 14 } else { 5 };
        text.push_str(&digits(dice, most));
    }
    text.push_str(dice.pick(&SUFFIXES));
    garble(dice, text, 8)
}

pub(super) fn quantity(dice: &mut Dice) -> Value {
    json!({"op": "quantity", "text": quantity_text(dice)})
}

pub(super) fn quantity_pair(dice: &mut Dice) -> Value {
    json!({"op": "quantity-pair", "one": quantity_text(dice), "other": quantity_text(dice)})
}

pub(super) fn duration(dice: &mut Dice) -> Value {
    let units =
        [1, 1_000_000_000, 60_000_000_000, 3_600_000_000_000, 86_400_000_000_000, 31_536_000_000_000_000];
    let unit: i64 = units[dice.below(units.len())];
    let count = i64::try_from(dice.below(250)).unwrap() - 3;
    let rest = i64::try_from(dice.below(3)).unwrap() * units[dice.below(4)];
    json!({"op": "duration", "nanoseconds": unit.saturating_mul(count).saturating_add(rest)})
}
