//! Reads JSON as Kubernetes does, and says which fields are there twice.
//!
//! Knows only text. What is unknown to a schema is for [`super::CustomResource::admit`] to say.
//!
//! Follows sigs.k8s.io/json of 2025-07-30, `internal/golang/encoding/json/decode.go`.

use std::fmt;

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::strconv;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// More mistakes than these are not told.
const MAX_MISTAKES: usize = 100;

/// What to do about fields that are unknown or there twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl FieldValidation {
    /// By the name that a request gives it; nothing else is one.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// Reads JSON. The last of several fields with one name counts, and each such name is reported once with its path.
pub fn read(text: &str) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut path = String::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Seed { path: &mut path, duplicates: &mut duplicates }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, duplicates))
}

/// The message for a duplicate field.
pub fn duplicate_field(path: &str) -> String {
    format!("duplicate field {}", strconv::quote(path))
}

/// The words for a field that no schema knows.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// The one error that strict validation makes of all complaints.
pub fn strict_error(complaints: &[String]) -> String {
    format!("strict decoding error: {}", complaints.join(", "))
}

struct Seed<'s> {
    path: &'s mut String,
    duplicates: &'s mut Vec<String>,
}

impl Seed<'_> {
    fn below(&mut self) -> Seed<'_> {
        Seed { path: self.path, duplicates: self.duplicates }
    }

    fn report(&mut self) {
        if self.duplicates.len() < MAX_MISTAKES && !self.duplicates.contains(self.path) {
            self.duplicates.push(self.path.clone());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        checkpoint();
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    /// Integers that do not fit into 64 bits with a sign are floats.
    #[expect(clippy::cast_precision_loss, reason = "as Kubernetes reads them")]
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let length = self.path.len();
        loop {
            // Pushed before it is known that there is another item: serde gives no other place to do it.
            self.path.push_str(&format!("[{}]", list.len()));
            let item = items.next_element_seed(self.below())?;
            self.path.truncate(length);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let length = self.path.len();
        while let Some(name) = entries.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if map.contains_key(&name) {
                self.report();
            }
            let value = entries.next_value_seed(self.below())?;
            self.path.truncate(length);
            // The last one wins, as in Go.
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_there_twice_are_told_with_their_path() {
        let text = r#"{"a": 1, "b": [{"c": 1, "c": 2, "c": 3}], "a": {"d": 1, "d": 2}}"#;
        let (value, duplicates) = read(text).unwrap();
        assert_eq!(value, json!({"a": {"d": 2}, "b": [{"c": 3}]}));
        assert_eq!(duplicates, ["b[0].c", "a", "a.d"]);
        assert_eq!(duplicate_field(&duplicates[0]), r#"duplicate field "b[0].c""#);
    }

    #[test]
    fn large_integers_are_floats() {
        let (value, _) = read("[9223372036854775807, 9223372036854775808]").unwrap();
        assert!(value[0].is_i64() && value[1].is_f64());
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(read(&("[".repeat(200) + &"]".repeat(200))).is_err());
        assert!(read("{} {}").is_err());
    }
}
