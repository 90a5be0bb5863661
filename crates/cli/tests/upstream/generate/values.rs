//! Values of every kind that JSON has.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// An object that is at most this deep.
pub(super) fn object(dice: &mut Dice, depth: usize) -> Value {
    let names = [
        "size",
        "count",
        "on",
        "nested",
        "items",
        "empty",
        "ümlaut",
        "with.dot",
        "with/slash",
        "nothing",
        "",
    ];
    let mut object = Map::new();
    for _ in 0..dice.below(5) {
        object.insert((dice.pick(&names)).to_owned(), value(dice, depth));
    }
    Value::Object(object)
}

fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 4 } else { 7 }) {
        0 => number(dice),
        1 | 4 => text(dice),
        2 => json!(dice.chance(50)),
        3 => Value::Null,
        5 => object(dice, depth - 1),
        _ => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
    }
}

fn number(dice: &mut Dice) -> Value {
    dice.pick(&[
        json!(0),
        json!(3),
        json!(-1),
        json!(1.5),
        json!(-0.25),
        json!(2.0),
        json!(1e-7),
        json!(4_294_967_296_u64),
        json!(9_007_199_254_740_993_u64),
        json!(-9_223_372_036_854_775_808_i64),
        json!(9_223_372_036_854_775_807_u64),
        json!(1e20),
        json!(1e21),
        json!(1.5e300),
    ])
}

fn text(dice: &mut Dice) -> Value {
    let texts = [
        "",
        "text",
        "true",
        "1",
        "null",
        "grüße ☃ 😀",
        "two\nlines",
        "{{ .not }} \"quoted\" \\ <html>",
        " ~",
    ];
    dice.pick(&texts).into()
}
