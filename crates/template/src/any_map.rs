//! Maps with keys of any type, as the YAML library of Go gives where not all keys are strings (`8080: http`).
//!
//! Follows Go 1.26, `internal/fmtsort/sort.go`, for the order of the keys.

use std::cmp::Ordering;
use std::ops::Deref;
use std::rc::Rc;

use crate::{Value, sprig};

/// A Go map with keys of any type. It never changes.
#[derive(Debug)]
pub struct AnyMap {
    /// In the order in which Go prints them.
    entries: Vec<(Value, Value)>,
}

impl AnyMap {
    /// A map with these entries, whose keys are all different.
    pub fn new(mut entries: Vec<(Value, Value)>) -> Rc<Self> {
        entries.sort_by(|(one, _), (other, _)| order(one, other));
        Rc::new(Self { entries })
    }

    pub fn get(&self, key: &Value) -> Option<&Value> {
        let begin = self.entries.partition_point(|(known, _)| order(known, key).is_lt());
        // Times of different zones can have the same place and not be the same.
        let mut candidates = self.entries[begin..].iter().take_while(|(known, _)| order(known, key).is_eq());
        candidates.find(|(known, _)| are_same(known, key)).map(|(_, value)| value)
    }
}

impl Deref for AnyMap {
    type Target = [(Value, Value)];

    fn deref(&self) -> &[(Value, Value)] {
        &self.entries
    }
}

/// Nothing comes first. Keys of one type are in order. Types are in the order in which the linker of Go puts them into a program, as
/// function-go-templating v0.4.1 has them.
fn order(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Int(one), Value::Int(other)) => one.cmp(other),
        (Value::Uint64(one), Value::Uint64(other)) => one.cmp(other),
        // What is no number comes before all numbers.
        (Value::Float(one), Value::Float(other)) => {
            one.partial_cmp(other).unwrap_or_else(|| other.is_nan().cmp(&one.is_nan()))
        }
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Object(one), Value::Object(other)) => sprig::order_of_times(&**one, &**other),
        _ => rank(one).cmp(&rank(other)),
    }
}

fn rank(key: &Value) -> u8 {
    match key {
        Value::Nil => 0,
        Value::String(_) => 1,
        Value::Uint64(_) => 2,
        Value::Int(_) => 3,
        Value::Float(_) => 4,
        Value::Bool(_) => 5,
        _ => 6,
    }
}

/// Whether two keys are the same to Go: of the same type, and equal.
#[expect(clippy::float_cmp, reason = "Go compares exactly")]
fn are_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Int(one), Value::Int(other)) => one == other,
        (Value::Uint64(one), Value::Uint64(other)) => one == other,
        (Value::Float(one), Value::Float(other)) => one == other,
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Object(one), Value::Object(other)) => one.equals(&**other).unwrap_or_default(),
        _ => false,
    }
}
