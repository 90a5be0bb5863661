//! Makes up questions: kinds with lists and maps of all types, and sequences of writes to an object of them.

mod schema;
mod sets;
mod steps;
mod values;

use serde_json::{Value, json};

use crate::dice::Dice;

/// A question about anything.
pub(crate) fn question(dice: &mut Dice) -> Value {
    match dice.below(20) {
        0 => json!({ "sets": [sets::fields(dice, 3), sets::fields(dice, 3)] }),
        1 => sets::scale(dice),
        2 => steps::crowd(dice),
        3 | 4 => steps::parts(dice),
        5..10 => steps::calm(dice),
        _ => steps::sequence(dice),
    }
}
