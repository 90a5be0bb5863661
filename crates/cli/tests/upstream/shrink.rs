//! Finds the least of a case that still shows a difference.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::case::Case;
use crate::compare::{Comparison, Engines};

/// How many smaller cases are tried.
const TRIES: usize = 400;

/// The same difference in a smaller case: whatever can be left out is.
pub(crate) async fn shrink(engines: &Engines, case: Case, comparison: Comparison) -> (Case, Comparison) {
    let wanted = signature(&comparison);
    let (mut smallest, mut shown) = (case, comparison);
    let (mut tries, mut position) = (0, 0);
    // Large parts come first. What had to stay need not be tried again until something else has gone.
    while tries < TRIES {
        let Some(smaller) = without(&smallest.0, position) else { break };
        tries += 1;
        position += 1;
        let smaller = Case(smaller);
        let Some(comparison) = engines.compare(&smaller).await else { continue };
        let now = signature(&comparison);
        if comparison.verdicts == shown.verdicts && !now.is_empty() && now.is_subset(&wanted) {
            (smallest, shown, position) = (smaller, comparison, position - 1);
        }
    }
    (smallest, shown)
}

/// The places of the differences, without numbers: they move when something is left out.
fn signature(comparison: &Comparison) -> BTreeSet<String> {
    let places = comparison.differences.iter().map(|difference| &difference.path);
    places.map(|place| place.chars().filter(|letter| !letter.is_ascii_digit()).collect()).collect()
}

/// The value without its n-th part, counted level by level.
fn without(value: &Value, position: usize) -> Option<Value> {
    let mut level = vec![Vec::new()];
    let mut left = position;
    while !level.is_empty() {
        let mut next = Vec::new();
        for path in level {
            next.extend(
                children(value.pointer(&pointer(&path))?).map(|key| [path.as_slice(), &[key]].concat()),
            );
        }
        if let Some(path) = next.get(left) {
            let mut value = value.clone();
            remove(&mut value, path)?;
            return Some(value);
        }
        left -= next.len();
        level = next;
    }
    None
}

fn children(value: &Value) -> Box<dyn Iterator<Item = String> + '_> {
    match value {
        Value::Object(object) => Box::new(object.keys().cloned()),
        Value::Array(items) => Box::new((0..items.len()).map(|index| index.to_string())),
        _ => Box::new(std::iter::empty()),
    }
}

fn pointer(path: &[String]) -> String {
    path.iter()
        .fold(String::new(), |pointer, part| pointer + "/" + &part.replace('~', "~0").replace('/', "~1"))
}

fn remove(value: &mut Value, path: &[String]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    match value.pointer_mut(&pointer(parents))? {
        Value::Object(object) => object.remove(last),
        Value::Array(items) => Some(items.remove(last.parse().ok()?)),
        _ => None,
    }
}
