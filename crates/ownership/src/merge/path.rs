//! The steps of a path to a field: a name, the keys of a list item, the value of a set item, an index.
//!
//! Follows structured-merge-diff 6.3.3, `fieldpath/element.go`, `fieldpath/path.go`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::scalar::first_difference;
pub use super::scalar::{Scalar, are_equal, are_equal_objects, compare_values};

/// The names and values that identify an item of a keyed list, sorted by name.
// Shared, because walks clone the elements of every path that they note.
pub type Keys<'a> = Arc<[(Cow<'a, str>, Scalar<'a>)]>;

/// One step of a path. Steps are ordered as they are declared here.
#[derive(Debug, Clone)]
pub enum Element<'a> {
    Field(Cow<'a, str>),
    Key(Keys<'a>),
    // In a box, because nearly all elements are fields, and the size of all is that of the largest.
    Value(Box<Scalar<'a>>),
    Index(i64),
    /// An item that cannot be named, such as one that lost its keys.
    Unnamed,
}

impl<'a> Element<'a> {
    /// The step to a named field.
    pub fn field(name: impl Into<Cow<'a, str>>) -> Self {
        Self::Field(name.into())
    }

    /// The step to the item of a keyed list. The order of the keys does not matter.
    pub fn key(mut keys: Vec<(Cow<'a, str>, Scalar<'a>)>) -> Self {
        // Go compares strings by bytes, and the order is on the wire.
        keys.sort_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
        Self::Key(keys.into())
    }

    /// An owned copy.
    pub fn into_owned(self) -> Element<'static> {
        match self {
            Self::Field(name) => Element::Field(Cow::Owned(name.into_owned())),
            Self::Key(keys) => {
                let keys = keys.iter().cloned();
                Element::Key(
                    keys.map(|(name, value)| (Cow::Owned(name.into_owned()), value.into_owned())).collect(),
                )
            }
            Self::Value(value) => Element::Value(Box::new(value.into_owned())),
            Self::Index(index) => Element::Index(index),
            Self::Unnamed => Element::Unnamed,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
            Self::Unnamed => 4,
        }
    }

    /// A step to the item of a set.
    pub fn value(value: Scalar<'a>) -> Self {
        Self::Value(Box::new(value))
    }

    /// Compares the step to an item with what would name it: the values of its keys, or its own.
    pub(super) fn compare_with<'v>(
        &self,
        keys: impl IntoIterator<Item = (&'v str, &'v Value)>,
        value: &Value,
    ) -> Ordering {
        match self {
            Self::Key(own) => {
                let mut keys = keys.into_iter();
                for (name, value) in own.iter() {
                    let Some((other_name, other)) = keys.next() else { return Ordering::Greater };
                    let order = name.as_bytes().cmp(other_name.as_bytes());
                    let order = order.then_with(|| value.compare_with(other));
                    if order.is_ne() {
                        return order;
                    }
                }
                if keys.next().is_some() { Ordering::Less } else { Ordering::Equal }
            }
            Self::Value(own) => own.compare_with(value),
            Self::Field(_) => Ordering::Less,
            Self::Index(_) | Self::Unnamed => Ordering::Greater,
        }
    }

    /// The order of steps on the wire.
    pub fn compare(&self, other: &Element<'_>) -> Ordering {
        match (self, other) {
            (Self::Field(one), Element::Field(other)) => one.as_bytes().cmp(other.as_bytes()),
            (Self::Key(one), Element::Key(other)) => compare_keys(one, other),
            (Self::Value(one), Element::Value(other)) => one.compare(other),
            (Self::Index(one), Element::Index(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(one: &Keys<'_>, other: &Keys<'_>) -> Ordering {
    let pairs = one.iter().zip(other.iter());
    let differences = pairs
        .map(|(one, other)| one.0.as_bytes().cmp(other.0.as_bytes()).then_with(|| one.1.compare(&other.1)));
    first_difference(differences).then(one.len().cmp(&other.len()))
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

/// The text that errors and conflicts show.
impl fmt::Display for Element<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(keys) => {
                for (index, (name, value)) in keys.iter().enumerate() {
                    let separator = if index == 0 { '[' } else { ',' };
                    write!(formatter, "{separator}{name}={value}")?;
                }
                formatter.write_str(if keys.is_empty() { "[]" } else { "]" })
            }
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
            Self::Unnamed => formatter.write_str("{{invalid path element}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_as_in_conflicts() {
        let port = json!(8080);
        let key = Element::key(vec![
            ("protocol".into(), Scalar::Text("TCP".into())),
            ("containerPort".into(), Scalar::of(&port)),
        ]);
        assert_eq!(key.to_string(), r#"[containerPort=8080,protocol="TCP"]"#);
        assert_eq!(Element::value(Scalar::Float(1e6)).to_string(), "[=1e+06]");
        assert_eq!(Element::field("spec").to_string(), ".spec");
    }

    #[test]
    fn numbers_are_equal_however_they_are_written() {
        assert!(are_equal(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert!(!are_equal(&json!({"a": 1}), &json!({"b": 1})));
        assert_eq!(Element::value(Scalar::Int(1)), Element::value(Scalar::Float(1.0)));
    }
}
