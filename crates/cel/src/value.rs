//! Values of expressions. What comes from JSON is borrowed and read when it is checked, never copied.
//!
//! Follows cel-go 0.29.2, `common/types`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::fault::Fault;
use super::message::Message;
use super::meter::Meter;
use super::object::LibraryObject;
use super::shape::{self, ValueSchema};
use super::time::Timestamp;

/// A value, and the JSON that it may borrow from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Value<'v> {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'v>),
    Bytes(Arc<[u8]>),
    List(List<'v>),
    Map(Map<'v>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    /// The name of a type.
    Type(&'static str),
    Optional(Option<Arc<Value<'v>>>),
    /// Something of a library.
    Object(Arc<LibraryObject>),
    Message(Message<'v>),
    /// The JSON does not match its schema, and why. Reading it is an error.
    Invalid(Arc<str>),
}

/// What a JSON number becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// An int where it is integral and fits, else a double: what Kubernetes makes of an object.
    #[default]
    Integral,
    /// Always a double: what becomes of a number in a `google.protobuf.Struct`.
    Double,
}

#[derive(Debug, Clone)]
pub enum Text<'v> {
    Borrowed(&'v str),
    Shared(Arc<str>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub enum List<'v> {
    Json(&'v [Json], Numbers),
    Shaped(&'v [Json], &'v ValueSchema),
    Values(Arc<Vec<Value<'v>>>),
}

impl<'v> List<'v> {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(list, _) | Self::Shaped(list, _) => list.len(),
            Self::Values(list) => list.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Option<Value<'v>> {
        match self {
            Self::Json(list, numbers) => list.get(index).map(|value| Value::from_json(value, *numbers)),
            Self::Shaped(list, shape) => list.get(index).map(|value| Value::from_shape(value, shape.item())),
            Self::Values(list) => list.get(index).cloned(),
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'v>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The elements, for changing. Copies them if they are shared.
    pub(super) fn into_values(self) -> Arc<Vec<Value<'v>>> {
        match self {
            Self::Json(..) | Self::Shaped(..) => Arc::new(self.iter().collect()),
            Self::Values(list) => list,
        }
    }
}

#[derive(Debug, Clone)]
pub enum Map<'v> {
    Json(&'v serde_json::Map<String, Json>, Numbers),
    Shaped(&'v serde_json::Map<String, Json>, &'v ValueSchema),
    Values(Arc<BTreeMap<MapKey<'v>, Value<'v>>>),
}

impl<'v> Map<'v> {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(map, _) | Self::Shaped(map, _) => map.len(),
            Self::Values(map) => map.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is under the key. Numbers of different types that are equal are the same key.
    pub fn get(&self, key: &Value<'v>) -> Option<Value<'v>> {
        match self {
            Self::Json(map, numbers) => {
                let Value::String(key) = key else { return None };
                map.get(key.as_str()).map(|value| Value::from_json(value, *numbers))
            }
            Self::Shaped(map, shape) => {
                let Value::String(key) = key else { return None };
                shape::find(map, shape, key.as_str())
            }
            Self::Values(map) => {
                // `1`, `1u` and `1.0` are one key by CEL's rules, but sort apart here, so that the other
                // spellings are tried in turn.
                let key = MapKey::new(key.clone())?;
                map.get(&key)
                    .or_else(|| key.alternatives().into_iter().flatten().find_map(|key| map.get(&key)))
                    .cloned()
            }
        }
    }

    pub fn field(&self, name: &str) -> Option<Value<'v>> {
        match self {
            Self::Json(map, numbers) => map.get(name).map(|value| Value::from_json(value, *numbers)),
            Self::Shaped(map, shape) => shape::find(map, shape, name),
            Self::Values(_) => self.get(&Value::text(name.to_owned())),
        }
    }

    /// Any one entry.
    pub(super) fn first(&self) -> Option<(Value<'v>, Value<'v>)> {
        match self {
            Self::Json(map, numbers) => map
                .iter()
                .next()
                .map(|(key, value)| (Value::String(Text::Borrowed(key)), Value::from_json(value, *numbers))),
            Self::Shaped(map, shape) => shape::entries(map, shape).next(),
            Self::Values(map) => map.first_key_value().map(|(key, value)| (key.0.clone(), value.clone())),
        }
    }

    pub fn entries(&self) -> Vec<(Value<'v>, Value<'v>)> {
        match self {
            Self::Json(map, numbers) => map
                .iter()
                .map(|(key, value)| (Value::String(Text::Borrowed(key)), Value::from_json(value, *numbers)))
                .collect(),
            Self::Shaped(map, shape) => shape::entries(map, shape).collect(),
            Self::Values(map) => map.iter().map(|(key, value)| (key.0.clone(), value.clone())).collect(),
        }
    }

    pub(super) fn into_values(self) -> Arc<BTreeMap<MapKey<'v>, Value<'v>>> {
        match self {
            Self::Json(..) | Self::Shaped(..) => Arc::new(
                self.entries()
                    .into_iter()
                    .filter_map(|(key, value)| Some((MapKey::new(key)?, value)))
                    .collect(),
            ),
            Self::Values(map) => map,
        }
    }
}

/// A value that can be a key of a map: a bool, a number or a string.
#[derive(Debug, Clone)]
pub struct MapKey<'v>(Value<'v>);

impl<'v> MapKey<'v> {
    pub(super) fn new(value: Value<'v>) -> Option<Self> {
        let is_key = matches!(
            value,
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
        );
        is_key.then_some(Self(value))
    }

    pub(super) fn value(&self) -> &Value<'v> {
        &self.0
    }

    /// The same number as other types.
    fn alternatives(&self) -> [Option<Self>; 2] {
        match self.0 {
            Value::Int(int) => [u64::try_from(int).ok().map(|uint| Self(Value::Uint(uint))), None],
            Value::Uint(uint) => [i64::try_from(uint).ok().map(|int| Self(Value::Int(int))), None],
            Value::Double(double) => [
                lossless_int(double).map(|int| Self(Value::Int(int))),
                lossless_uint(double).map(|uint| Self(Value::Uint(uint))),
            ],
            _ => [None, None],
        }
    }

    fn rank(&self) -> u8 {
        match self.0 {
            Value::Bool(_) => 0,
            Value::Int(_) => 1,
            Value::Uint(_) => 2,
            Value::Double(_) => 3,
            _ => 4,
        }
    }
}

impl PartialEq for MapKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MapKey<'_> {}

impl PartialOrd for MapKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MapKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
            (Value::Int(one), Value::Int(other)) => one.cmp(other),
            (Value::Uint(one), Value::Uint(other)) => one.cmp(other),
            // A total order, or NaN as a key would break the tree.
            (Value::Double(one), Value::Double(other)) => one.total_cmp(other),
            (Value::String(one), Value::String(other)) => one.as_str().cmp(other.as_str()),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl<'v> Value<'v> {
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::Bytes(bytes.into())
    }

    pub fn list(values: Vec<Self>) -> Self {
        Self::List(List::Values(Arc::new(values)))
    }

    /// A map of names.
    pub fn object<'n: 'v>(fields: impl IntoIterator<Item = (&'n str, Self)>) -> Self {
        let fields =
            fields.into_iter().map(|(name, value)| (MapKey(Self::String(Text::Borrowed(name))), value));
        Self::map(fields.collect())
    }

    /// A view of a JSON object.
    pub fn from_json_object(object: &'v serde_json::Map<String, Json>, numbers: Numbers) -> Self {
        Self::Map(Map::Json(object, numbers))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(super) fn map(entries: BTreeMap<MapKey<'v>, Self>) -> Self {
        Self::Map(Map::Values(Arc::new(entries)))
    }

    /// A view of JSON.
    pub fn from_json(json: &'v Json, numbers: Numbers) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                // `1.0` in JSON stays a double: `as_i64` refuses numbers that were written with a fraction.
                Some(int) if numbers == Numbers::Integral => Self::Int(int),
                _ => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::Array(list) => Self::List(List::Json(list, numbers)),
            Json::Object(map) => Self::Map(Map::Json(map, numbers)),
        }
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Object(object) => object.type_name(),
            Self::Message(message) => message.type_name(),
            Self::Invalid(_) => "error",
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Characters of a string, bytes, elements or entries. Nothing else has a size.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.as_str().chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            Self::Object(object) => object.size(),
            _ => None,
        }
    }

    /// Whether this is the value of an unset field of this type.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Bool(false) | Self::Int(0) | Self::Uint(0) | Self::Duration(0) => true,
            Self::Double(value) => *value == 0.0,
            Self::Timestamp(timestamp) => timestamp.is_zero(),
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => self.size() == Some(0),
            _ => false,
        }
    }

    /// Values of different types are not equal, except for numbers of equal worth.
    pub(super) fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, Fault> {
        meter.work(1)?;
        Ok(match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            // The zone in which a time was written does not matter.
            (Self::Timestamp(one), Self::Timestamp(other)) => one.instant() == other.instant(),
            (Self::Object(one), Self::Object(other)) => one == other,
            (Self::Message(one), Self::Message(other)) => one.equals(other, meter)?,
            // In cel-go an error equals nothing and is the answer itself.
            (Self::Invalid(reason), _) | (_, Self::Invalid(reason)) => return Err(Fault::new(&**reason)),
            (Self::String(one), Self::String(other)) => one.as_str() == other.as_str(),
            (Self::Null, Self::Null) | (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(one)), Self::Optional(Some(other))) => one.equals(other, meter)?,
            (Self::List(one), Self::List(other)) => equal_lists(one, other, meter)?,
            (Self::Map(one), Self::Map(other)) => equal_maps(one, other, meter)?,
            (one, other) if one.is_number() && other.is_number() => {
                compare_numbers(one, other) == Some(Ordering::Equal)
            }
            _ => false,
        })
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }

    /// Which comes first. Values of types that have no order, or of two types, are not comparable.
    pub(super) fn compare(&self, other: &Self) -> Result<Ordering, Fault> {
        Ok(match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::String(one), Self::String(other)) => one.as_str().cmp(other.as_str()),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            (Self::Duration(one), Self::Duration(other)) => one.cmp(other),
            (Self::Timestamp(one), Self::Timestamp(other)) => one.instant().cmp(&other.instant()),
            (one, other) if one.is_number() && other.is_number() => {
                compare_numbers(one, other).ok_or(Fault::text("NaN values cannot be ordered"))?
            }
            (Self::Double(number), _) if number.is_nan() => {
                return Err(Fault::text("NaN values cannot be ordered"));
            }
            _ => return Err(Fault::no_such_overload()),
        })
    }

    /// The value as JSON, if it fits into the memory that an evaluation may use. Types that JSON has not become strings.
    pub fn to_json(&self) -> Option<Json> {
        // Nothing here has a cost; what ends it are the fixed limits of the meter.
        super::json::to_json(self, &Meter::new(u64::MAX)).ok()
    }
}

fn equal_lists<'v>(one: &List<'v>, other: &List<'v>, meter: &Meter) -> Result<bool, Fault> {
    if let List::Shaped(list, shape) = one
        && let Some(is_equal) = shape::equal_unordered(list, shape, other, meter)?
    {
        return Ok(is_equal);
    }
    // Values without a schema are wrapped by Kubernetes in a type that equals nothing of another type, which
    // shows only where elements are compared.
    let is_opaque = matches!((one, other), (List::Json(..), List::Shaped(_, shape)) if shape.is_opaque(""));
    if one.len() != other.len() || (is_opaque && !one.is_empty()) {
        return Ok(false);
    }
    for index in 0..one.len() {
        let (Some(one), Some(other)) = (one.get(index), other.get(index)) else { return Ok(false) };
        if !one.equals(&other, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps<'v>(one: &Map<'v>, other: &Map<'v>, meter: &Meter) -> Result<bool, Fault> {
    if let Map::Shaped(map, shape) = one {
        return shape::equal_objects(map, shape, other, meter);
    }
    if one.len() != other.len() {
        return Ok(false);
    }
    for (key, value) in one.entries() {
        if let (Map::Json(..), Map::Shaped(_, shape)) = (one, other)
            && shape.is_opaque(key.as_str().unwrap_or_default())
        {
            return Ok(false);
        }
        match other.get(&key) {
            Some(other) if value.equals(&other, meter)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "large integers and doubles are compared as doubles, by definition"
)]
fn compare_numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Uint(one), Value::Uint(other)) => Some(one.cmp(other)),
        (Value::Int(one), Value::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Uint(one), Value::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), Value::Int(other)) => one.partial_cmp(&(*other as f64)),
        (Value::Double(one), Value::Uint(other)) => one.partial_cmp(&(*other as f64)),
        (Value::Int(one), Value::Double(other)) => (*one as f64).partial_cmp(other),
        (Value::Uint(one), Value::Double(other)) => (*one as f64).partial_cmp(other),
        _ => None,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "checked by converting back"
)]
pub(super) fn lossless_int(double: f64) -> Option<i64> {
    let is_inside = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&double);
    (is_inside && (double as i64) as f64 == double).then_some(double as i64)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "checked by converting back"
)]
pub(super) fn lossless_uint(double: f64) -> Option<u64> {
    let is_inside = (0.0..18_446_744_073_709_551_616.0).contains(&double);
    (is_inside && (double as u64) as f64 == double).then_some(double as u64)
}
