//! What JSON is known to be like: which values its fields have, by the schema that it was held against.
//!
//! A value with a shape is still borrowed from JSON. Fields that the shape does not know are not there, texts may be
//! times, durations or bytes, and lists may be sets or maps.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/common/valuesunstructured.go`, `pkg/cel/escaping.go`.

use std::collections::{BTreeMap, HashMap, HashSet};

use ferroplane_golang::base64;
use serde_json::{Map as JsonMap, Value as Json};

use super::fault::Fault;
use super::formats;
use super::json::to_json;
use super::meter::Meter;
use super::parser::RESERVED;
use super::value::{List, Map, Numbers, Text, Value};

/// What a value is like.
#[derive(Debug, Clone, Default)]
pub enum ValueSchema {
    /// Nothing is known of its fields.
    #[default]
    Unknown,
    /// Not even its type is known. Equals only what is as unknown.
    Opaque,
    /// As it is in JSON.
    Plain,
    Double,
    Bytes,
    Duration,
    Date,
    DateTime,
    /// Has fields with names, which expressions write with escapes.
    Struct(BTreeMap<Box<str>, ValueSchema>),
    Map(Box<ValueSchema>),
    List(Box<ValueSchema>),
    Set(Box<ValueSchema>),
    /// A list whose items are identified by these fields.
    Keyed(Box<ValueSchema>, Box<[Box<str>]>),
}

/// Words that cannot be names of fields as they are, besides those that are reserved.
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

fn is_reserved(word: &str) -> bool {
    LITERALS.contains(&word) || RESERVED.contains(&word)
}

/// The name of a field as expressions write it, if they can.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        // Tested before single characters, so that no escape can be forged by a name such as `a__dot__b`.
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match character {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => escaped.push(character),
            _ => return None,
        }
        rest = &rest[character.len_utf8()..];
    }
    Some(escaped)
}

/// The name of a field from what an expression writes.
pub fn unescape(escaped: &str) -> Option<String> {
    if !escaped.contains("__") {
        return Some(escaped.to_owned());
    }
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(start) = rest.find("__") {
        let inside = &rest[start + 2..];
        let Some(end) = inside.find('_').filter(|end| *end > 0 && inside[*end..].starts_with("__")) else {
            // Two underscores that nothing closes stand for themselves.
            name.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        };
        name.push_str(&rest[..start]);
        match &inside[..end] {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            // A reserved word is escaped only where it is the whole name.
            word if is_reserved(word) && word.len() + 4 == escaped.len() => name.push_str(word),
            _ => return None,
        }
        rest = &inside[end + 2..];
    }
    name.push_str(rest);
    Some(name)
}

impl<'v> Value<'v> {
    /// A view of JSON that has a shape.
    pub fn from_shape(json: &'v Json, shape: &'v ValueSchema) -> Self {
        let plain = || Self::from_json(json, Numbers::Integral);
        match (shape, json) {
            (ValueSchema::Double, Json::Number(number)) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            (ValueSchema::Bytes, Json::String(text)) => bytes(text),
            (ValueSchema::Duration, Json::String(text)) => {
                formats::parse_duration(text).map_or_else(invalid("duration", text), Self::Duration)
            }
            (ValueSchema::Date, Json::String(text)) => {
                formats::parse_date(text).map_or_else(invalid("date formatted string", text), Self::Timestamp)
            }
            (ValueSchema::DateTime, Json::String(text)) => formats::parse_date_time(text)
                .map_or_else(invalid("date-time formatted string", text), Self::Timestamp),
            (
                ValueSchema::Struct(_) | ValueSchema::Map(_) | ValueSchema::Unknown | ValueSchema::Opaque,
                Json::Object(map),
            ) => Self::Map(Map::Shaped(map, shape)),
            (ValueSchema::List(_) | ValueSchema::Set(_) | ValueSchema::Keyed(..), Json::Array(list)) => {
                Self::List(List::Shaped(list, shape))
            }
            _ => plain(),
        }
    }
}

/// An error that is returned only if an expression reads the value. Such a value can be stored: formats are checked more loosely
/// than they are read, and what was stored before its schema had a format stays.
fn invalid<'v>(what: &str, text: &str) -> impl Fn(String) -> Value<'v> {
    move |reason| Value::Invalid(format!("Invalid {what} {text}: {reason}").into())
}

fn bytes(text: &str) -> Value<'static> {
    // The alphabet for URLs, though the format `byte` names the standard one: `strfmt.Base64.UnmarshalText`,
    // which Kubernetes 1.37 calls here, decodes so. What has `+` or `/` is valid and cannot be checked.
    match base64::decode_url(text.as_bytes()) {
        Ok(bytes) => Value::bytes(bytes),
        Err(at) => invalid("byte formatted string", text)(format!("illegal base64 data at input byte {at}")),
    }
}

impl ValueSchema {
    pub(super) fn item(&self) -> &Self {
        match self {
            Self::List(item) | Self::Set(item) | Self::Keyed(item, _) | Self::Map(item) => item,
            other => other,
        }
    }

    /// Whether plain JSON cannot equal what is under the name, or in the list.
    pub(super) fn is_opaque(&self, name: &str) -> bool {
        match self {
            Self::Struct(fields) => fields.get(name).is_some_and(|field| matches!(field, Self::Opaque)),
            other => matches!(other.item(), Self::Opaque),
        }
    }

    fn knows(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.get(name),
            Self::Map(value) => Some(value),
            _ => None,
        }
    }
}

/// What is under a key of an object, as an expression writes it.
pub(super) fn find<'v>(
    map: &'v JsonMap<String, Json>,
    shape: &'v ValueSchema,
    key: &str,
) -> Option<Value<'v>> {
    if let ValueSchema::Struct(_) = shape {
        let name = unescape(key)?;
        // Kubernetes treats null fields of objects with known fields as absent, and null entries of maps as
        // null (`unstructuredMap.Find`).
        let value = map.get(&name).filter(|value| !value.is_null())?;
        return Some(Value::from_shape(value, shape.knows(&name)?));
    }
    Some(Value::from_shape(map.get(key)?, shape.knows(key)?))
}

/// What an object has that its shape knows.
pub(super) fn entries<'v>(
    map: &'v JsonMap<String, Json>,
    shape: &'v ValueSchema,
) -> impl Iterator<Item = (Value<'v>, Value<'v>)> {
    map.iter().filter_map(move |(name, value)| {
        let below = shape.knows(name)?;
        let key = match shape {
            ValueSchema::Struct(_) => {
                escape(name).map_or(Text::Borrowed(name), |escaped| Text::Shared(escaped.into()))
            }
            _ => Text::Borrowed(name),
        };
        Some((Value::String(key), Value::from_shape(value, below)))
    })
}

/// Whether an object equals another map. What no shape knows is compared as JSON.
pub(super) fn equal_objects<'v>(
    map: &'v JsonMap<String, Json>,
    shape: &'v ValueSchema,
    other: &Map<'v>,
    meter: &Meter,
) -> Result<bool, Fault> {
    if map.len() != other.len() {
        return Ok(false);
    }
    for (name, value) in map {
        meter.work(1)?;
        if shape.knows(name).is_some() {
            let one = find(map, shape, name);
            let another = other.get(&Value::String(Text::Borrowed(name)));
            match (one, another) {
                (None, None) => {}
                (Some(one), Some(another)) if one.equals(&another, meter)? => {}
                _ => return Ok(false),
            }
        } else if let Map::Shaped(other, _) = other {
            // A field that only one of them has makes no difference, as in Kubernetes'
            // `unstructuredMap.Equal`; that both have as many was checked above.
            if other.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
        } else {
            return Err(Fault::no_such_overload());
        }
    }
    Ok(true)
}

/// Whether a set or a keyed list has what another list has, in whatever order. Nothing if the order matters.
pub(super) fn equal_unordered<'v>(
    list: &'v [Json],
    shape: &'v ValueSchema,
    other: &List<'v>,
    meter: &Meter,
) -> Result<Option<bool>, Fault> {
    if list.len() != other.len() {
        return Ok(Some(false));
    }
    match shape {
        ValueSchema::Set(_) => {
            let known: HashSet<&Json> = list.iter().collect();
            for item in other.iter() {
                meter.work(1)?;
                if !known.contains(&to_json(&item, meter)?) {
                    return Ok(Some(false));
                }
            }
            Ok(Some(true))
        }
        ValueSchema::Keyed(item_shape, keys) => {
            let known: HashMap<_, _> = list.iter().map(|item| (json_key(item, keys), item)).collect();
            for item in other.iter() {
                meter.work(1)?;
                let json = to_json(&item, meter)?;
                match known.get(&json_key(&json, keys)) {
                    Some(mine) if Value::from_shape(mine, item_shape).equals(&item, meter)? => {}
                    _ => return Ok(Some(false)),
                }
            }
            Ok(Some(true))
        }
        _ => Ok(None),
    }
}

fn json_key(item: &Json, keys: &[Box<str>]) -> Vec<Json> {
    keys.iter().map(|key| item.get(&**key).cloned().unwrap_or(Json::Null)).collect()
}

/// The items of a set or a keyed list with those of another added: new ones at the end, known ones in their place.
pub(super) fn union<'v>(
    list: &'v [Json],
    shape: &'v ValueSchema,
    other: &List<'v>,
    meter: &Meter,
) -> Result<Option<Vec<Value<'v>>>, Fault> {
    let keys: &[Box<str>] = match shape {
        ValueSchema::Set(_) => &[],
        ValueSchema::Keyed(_, keys) => keys,
        _ => return Ok(None),
    };
    let mut items: Vec<_> = list.iter().map(|item| Value::from_shape(item, shape.item())).collect();
    let identity = |json: &Json| if keys.is_empty() { vec![json.clone()] } else { json_key(json, keys) };
    let mut known: HashMap<_, _> =
        list.iter().enumerate().map(|(index, item)| (identity(item), index)).collect();
    for item in other.iter() {
        let json = to_json(&item, meter)?;
        match known.get(&identity(&json)) {
            Some(index) if !keys.is_empty() => items[*index] = item,
            Some(_) => {}
            None => {
                known.insert(identity(&json), items.len());
                items.push(item);
            }
        }
    }
    Ok(Some(items))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Environment, Limits, Type};

    #[test]
    fn bytes_that_cannot_be_decoded_are_an_error_when_they_are_looked_at() {
        let shape = ValueSchema::Struct([("data".into(), ValueSchema::Bytes)].into());
        let evaluate = |source: &str, data: &str| {
            let program = Environment::new().variable("self", Type::Dyn).compile(source).unwrap();
            let json = json!({"data": data});
            let variables = [("self", Value::from_shape(&json, &shape))];
            let (outcome, _) = program.evaluate_with(variables, Limits { cost: 1000 });
            outcome.map(|evaluated| evaluated.value.as_bool()).map_err(|error| error.to_string())
        };
        // Bits after the last byte do not matter, nor do line breaks.
        for data in ["YWI=", "YWJ=", "YW\nI="] {
            assert_eq!(evaluate("self.data == b'ab'", data), Ok(Some(true)), "{data:?}");
        }
        let wrong = Err("Invalid byte formatted string a+/b: illegal base64 data at input byte 1".to_owned());
        for source in ["self.data == b'ab'", "size(self.data) == 4", "self == {'data': b'ab'}"] {
            assert_eq!(evaluate(source, "a+/b"), wrong, "{source}");
        }
        for source in ["has(self.data)", "self.data == b'' || true", "size(self) == 1"] {
            assert_eq!(evaluate(source, "a+/b"), Ok(Some(true)), "{source}");
        }
    }
}
