//! The values inside paths: what identifies items of lists, and how values compare.
//!
//! Follows structured-merge-diff 6.3.3, `value/value.go`, `value/scalar.go`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use ferroplane_golang::json::JsonObject;
use ferroplane_golang::json::float_text;
use ferroplane_golang::strconv::{format_float, quote};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::text::{self, Numeric};

/// A value inside a path: what identifies an item of a list.
#[derive(Debug, Clone)]
pub enum Scalar<'a> {
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    Bool(bool),
    /// A list or an object, which only appears where a client wrote field sets by hand.
    Tree(Box<Value>),
    Null,
}

impl<'a> Scalar<'a> {
    /// What a value is in a path.
    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => match Numeric::of(number) {
                Numeric::Int(integer) => Self::Int(integer),
                Numeric::Float(float) => Self::Float(float),
            },
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(_) | Value::Object(_) => Self::Tree(Box::new(value.clone())),
        }
    }

    /// Appends the value as JSON.
    pub(super) fn push_json(&self, out: &mut String) {
        match self {
            Self::Int(integer) => out.push_str(&integer.to_string()),
            Self::Float(float) => out.push_str(&float_text(*float)),
            Self::Text(string) => text::push_json_string(out, string, true),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Tree(value) => text::push_json(out, value),
            Self::Null => out.push_str("null"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::Text(_) => 1,
            Self::Bool(_) => 2,
            Self::Tree(value) if value.is_array() => 3,
            Self::Tree(_) => 4,
            Self::Null => 5,
        }
    }

    fn numeric(&self) -> Numeric {
        match self {
            Self::Int(integer) => Numeric::Int(*integer),
            Self::Float(float) => Numeric::Float(*float),
            _ => Numeric::Int(0),
        }
    }

    /// Compares with a value as [`Scalar::of`] would have it.
    pub(super) fn compare_with(&self, value: &Value) -> Ordering {
        match (self, value) {
            (Self::Text(own), Value::String(text)) => own.as_bytes().cmp(text.as_bytes()),
            _ => self.compare(&Scalar::of(value)),
        }
    }

    pub(super) fn compare(&self, other: &Scalar<'_>) -> Ordering {
        match (self, other) {
            (Self::Text(one), Scalar::Text(other)) => one.as_bytes().cmp(other.as_bytes()),
            (Self::Bool(one), Scalar::Bool(other)) => one.cmp(other),
            (Self::Tree(one), Scalar::Tree(other)) => compare_values(one, other),
            (Self::Int(_) | Self::Float(_), Scalar::Int(_) | Scalar::Float(_)) => {
                compare_numbers(self.numeric(), other.numeric())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    /// An owned copy.
    pub fn into_owned(self) -> Scalar<'static> {
        match self {
            Self::Int(integer) => Scalar::Int(integer),
            Self::Float(float) => Scalar::Float(float),
            Self::Text(text) => Scalar::Text(Cow::Owned(text.into_owned())),
            Self::Bool(truth) => Scalar::Bool(truth),
            Self::Tree(value) => Scalar::Tree(value),
            Self::Null => Scalar::Null,
        }
    }
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(integer) => integer.fmt(formatter),
            Self::Float(float) => formatter.write_str(&format_float(*float, 'g', None)),
            Self::Text(string) => formatter.write_str(&quote(string)),
            Self::Bool(truth) => truth.fmt(formatter),
            Self::Tree(value) => formatter.write_str(&describe(value)),
            Self::Null => formatter.write_str("null"),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Reads what identifies an item. Strings are borrowed where they need no unescaping, numbers are floats.
struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Bool(truth))
    }

    // JSON numbers in paths are read as floats upstream, so that a large integer key loses digits there, too.
    fn visit_i64<E>(self, integer: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Float(Numeric::Int(integer).as_float()))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of field sets are floats")]
    fn visit_u64<E>(self, integer: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Float(integer as f64))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Float(float))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Scalar<'de>, A::Error> {
        let items = Value::deserialize(SeqAccessDeserializer::new(items))?;
        Ok(Scalar::Tree(Box::new(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Scalar<'de>, A::Error> {
        let fields = Value::deserialize(MapAccessDeserializer::new(fields))?;
        Ok(Scalar::Tree(Box::new(fields)))
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(describe).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, field)| format!("{name}={}", describe(field))).collect();
            fields.concat()
        }
        scalar => Scalar::of(scalar).to_string(),
    }
}

fn compare_numbers(one: Numeric, other: Numeric) -> Ordering {
    match (one, other) {
        (Numeric::Int(one), Numeric::Int(other)) => one.cmp(&other),
        // JSON has no NaN, so that this order is total.
        _ => one.as_float().partial_cmp(&other.as_float()).unwrap_or(Ordering::Equal),
    }
}

/// A total order of values, in which numbers of equal size are equal.
pub fn compare_values(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            let differences = one.iter().zip(other).map(|(one, other)| compare_values(one, other));
            first_difference(differences).then(one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one.iter().zip(other);
            let differences = pairs.map(|((name, one), (other_name, other))| {
                name.cmp(other_name).then_with(|| compare_values(one, other))
            });
            first_difference(differences).then(one.len().cmp(&other.len()))
        }
        (Value::Number(one), Value::Number(other)) => compare_numbers(Numeric::of(one), Numeric::of(other)),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        _ => rank(one).cmp(&rank(other)),
    }
}

pub(super) fn first_difference(mut differences: impl Iterator<Item = Ordering>) -> Ordering {
    differences.find(|difference| difference.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Whether two values are the same, however their numbers are written.
pub fn are_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => are_equal_objects(one, other),
        (Value::Number(one), Value::Number(other)) => {
            compare_numbers(Numeric::of(one), Numeric::of(other)).is_eq()
        }
        _ => one == other,
    }
}

/// Whether two objects are the same, however their numbers are written.
pub fn are_equal_objects(one: &JsonObject, other: &JsonObject) -> bool {
    let is_same = |((name, one), (other_name, other)): ((&String, &Value), (&String, &Value))| {
        name == other_name && are_equal(one, other)
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}
