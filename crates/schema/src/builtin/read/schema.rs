//! Reads the values in schemas of custom resources that may be a schema or something simpler.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/v1/marshal.go`.

use serde_json::Value;

use super::super::location::FieldLocation;
use super::super::table::{Package, Type};
use super::{ReadResult, Reader};

/// The type of schemas.
fn schema() -> Option<&'static Type> {
    Package::get(Package::number("apiextensions.v1")?).find("JSONSchemaProps")
}

impl Reader {
    fn schema(&mut self, json: &Value, place: &FieldLocation<'_>) -> ReadResult {
        match schema() {
            Some(of) => Ok(Some(Value::Object(self.structure(of, json, place)?))),
            None => Ok(None),
        }
    }

    /// A schema, or a list of them.
    pub(super) fn schema_or_list(&mut self, json: &Value, place: &FieldLocation<'_>) -> ReadResult {
        match json {
            Value::Object(_) => self.schema(json, place),
            Value::Array(list) => {
                let mut read = Vec::with_capacity(list.len());
                for (index, item) in list.iter().enumerate() {
                    read.extend(self.schema(item, &place.index(index))?);
                }
                Ok(Some(Value::Array(read)))
            }
            _ => Ok(Some(Value::Null)),
        }
    }

    /// A schema, or whether there may be anything.
    pub(super) fn schema_or_flag(&mut self, json: &Value, place: &FieldLocation<'_>) -> ReadResult {
        match json {
            Value::Object(_) => self.schema(json, place),
            Value::Bool(_) => Ok(Some(json.clone())),
            _ => Err("boolean or JSON schema expected".to_owned()),
        }
    }

    /// A schema, or names of fields.
    pub(super) fn schema_or_texts(&mut self, json: &Value, place: &FieldLocation<'_>) -> ReadResult {
        match json {
            Value::Object(_) => self.schema(json, place),
            Value::Array(list) => {
                for item in list.iter().filter(|item| !item.is_string() && !item.is_null()) {
                    self.note(place, item, "string");
                }
                let texts = list.iter().map(|item| Value::from(item.as_str().unwrap_or_default()));
                Ok(Some(texts.collect()))
            }
            _ => Ok(Some(Value::Null)),
        }
    }
}
