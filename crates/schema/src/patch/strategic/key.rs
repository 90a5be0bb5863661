//! What makes an item of a list that item.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/patch.go`.

use ferroplane_golang::fmt;
use serde_json::Value;

use crate::patch::Error;

/// A value that items can be told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MergeKey<'v> {
    Null,
    Truth(bool),
    Integer(i64),
    /// The bits of a number.
    Number(u64),
    Text(&'v str),
}

impl<'v> MergeKey<'v> {
    /// The value itself as a key. Lists and objects are none.
    pub(super) fn of(value: &'v Value) -> Result<Self, Error> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Truth(*truth),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::Integer(integer),
                // Zero has two signs, but they are equal.
                None => Self::Number((number.as_f64().unwrap_or(0.0) + 0.0).to_bits()),
            },
            Value::String(text) => Self::Text(text),
            Value::Array(_) | Value::Object(_) => {
                let name = fmt::type_name(value).unwrap_or_default();
                return Err(Error::Internal(format!("runtime error: hash of unhashable type {name}")));
            }
        })
    }

    /// The key of an item that is an object, none if it lacks it.
    pub(super) fn of_item(item: &'v Value, merge_key: &str) -> Result<Option<Self>, Error> {
        item.get(merge_key).map(Self::of).transpose()
    }
}
