//! Reads a schema, taking what Kubernetes' decoder takes: null is absent, unknown fields are passed over.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/v1/marshal.go`.

use std::collections::BTreeMap;

use ferroplane_golang::json;
use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::props::{Additional, Dependency, Documentation, Items, Props, ValidationRule};

/// Why something is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// In the words of Go's decoder.
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")]
    Type { found: String, field: String, wanted: &'static str },
    #[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
    Value { found: String, wanted: &'static str },
    #[error("boolean or JSON schema expected")]
    SchemaOrBool,
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error("schema is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

type Decoded<T> = Result<T, DecodeError>;

impl Props {
    /// Reads a schema.
    pub fn decode(json: &Value) -> Decoded<Self> {
        decode(json, 0)
    }
}

/// What the decoder of Go calls a value.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => {
            let text = match number.as_i64() {
                Some(integer) => integer.to_string(),
                None => json::marshal(value),
            };
            format!("number {text}").trim_end().to_owned()
        }
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn decode(json: &Value, depth: usize) -> Decoded<Props> {
    // The reader recurses, and so does everything that walks a schema afterwards: nothing else bounds them.
    if depth > MAX_DEPTH {
        return Err(DecodeError::TooDeep);
    }
    let fields = match json {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Props::default()),
        other => {
            return Err(DecodeError::Value { found: describe(other), wanted: "v1.JSONSchemaProps" });
        }
    };
    let mut props = Props::default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let field = PresentField { name, value, depth };
        // Four groups only because a single function would not fit a screen; a field belongs to one of them.
        if !field.text(&mut props)?
            && !field.bound(&mut props)?
            && !field.schema(&mut props)?
            && !field.extension(&mut props)?
        {
            // An unknown field: what to do about those is not for the schema to say.
        }
    }
    Ok(props)
}

/// A field with a value that is not null.
pub(crate) struct PresentField<'j> {
    pub(crate) name: &'j str,
    pub(crate) value: &'j Value,
    pub(crate) depth: usize,
}

impl PresentField<'_> {
    fn text(&self, props: &mut Props) -> Decoded<bool> {
        match self.name {
            "id" => props.id = self.string()?,
            "$schema" => props.schema = self.string()?,
            "$ref" => props.reference = Some(self.string()?),
            "description" => props.description = self.string()?,
            "type" => props.kind = self.string()?,
            "format" => props.format = self.string()?,
            "title" => props.title = self.string()?,
            "pattern" => props.pattern = self.string()?.into(),
            "default" => props.default = Some(self.value.clone()),
            "example" => props.example = Some(self.value.clone()),
            "externalDocs" => {
                let fields = self.object()?;
                props.external_docs = Some(Documentation {
                    description: text_of(fields, "description", "ExternalDocumentation")?,
                    url: text_of(fields, "url", "ExternalDocumentation")?,
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bound(&self, props: &mut Props) -> Decoded<bool> {
        match self.name {
            "maximum" => props.maximum = Some(self.number()?),
            "minimum" => props.minimum = Some(self.number()?),
            "multipleOf" => props.multiple_of = Some(self.number()?),
            "exclusiveMaximum" => props.exclusive_maximum = self.flag()?,
            "exclusiveMinimum" => props.exclusive_minimum = self.flag()?,
            "maxLength" => props.max_length = Some(self.integer()?),
            "minLength" => props.min_length = Some(self.integer()?),
            "maxItems" => props.max_items = Some(self.integer()?),
            "minItems" => props.min_items = Some(self.integer()?),
            "maxProperties" => props.max_properties = Some(self.integer()?),
            "minProperties" => props.min_properties = Some(self.integer()?),
            "uniqueItems" => props.unique_items = self.flag()?,
            "nullable" => props.nullable = self.flag()?,
            "enum" => props.values = Some(self.array()?.clone()),
            "required" => props.required = Some(self.strings()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn schema(&self, props: &mut Props) -> Decoded<bool> {
        match self.name {
            "items" => props.items = Some(self.items()?),
            "allOf" => props.all_of = Some(self.schemas()?),
            "oneOf" => props.one_of = Some(self.schemas()?),
            "anyOf" => props.any_of = Some(self.schemas()?),
            "not" => props.not = Some(Box::new(self.nested(self.value)?)),
            "properties" => props.properties = Some(self.named()?),
            "patternProperties" => props.pattern_properties = Some(self.named()?),
            "definitions" => props.definitions = Some(self.named()?),
            "additionalProperties" => props.additional_properties = Some(self.additional()?),
            "additionalItems" => props.additional_items = Some(self.additional()?),
            "dependencies" => {
                let entries = self.object()?.iter();
                props.dependencies = Some(
                    entries
                        .map(|(key, value)| Ok((key.clone(), self.dependency(value)?)))
                        .collect::<Decoded<_>>()?,
                );
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn extension(&self, props: &mut Props) -> Decoded<bool> {
        match self.name {
            "x-kubernetes-preserve-unknown-fields" => props.preserve_unknown_fields = Some(self.flag()?),
            "x-kubernetes-embedded-resource" => props.embedded_resource = self.flag()?,
            "x-kubernetes-int-or-string" => props.int_or_string = self.flag()?,
            "x-kubernetes-list-map-keys" => props.list_map_keys = Some(self.strings()?),
            "x-kubernetes-list-type" => props.list_type = Some(self.string()?),
            "x-kubernetes-map-type" => props.map_type = Some(self.string()?),
            "x-kubernetes-validations" => {
                props.validations = Some(self.array()?.iter().map(rule).collect::<Decoded<_>>()?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn wrong<T>(&self, wanted: &'static str) -> Decoded<T> {
        Err(DecodeError::Type {
            found: describe(self.value),
            field: format!("JSONSchemaProps.{}", self.name),
            wanted,
        })
    }

    fn string(&self) -> Decoded<String> {
        self.value.as_str().map_or_else(|| self.wrong("string"), |text| Ok(text.to_owned()))
    }

    fn flag(&self) -> Decoded<bool> {
        self.value.as_bool().map_or_else(|| self.wrong("bool"), Ok)
    }

    fn number(&self) -> Decoded<f64> {
        self.value.as_f64().map_or_else(|| self.wrong("float64"), Ok)
    }

    fn integer(&self) -> Decoded<i64> {
        self.value.as_i64().map_or_else(|| self.wrong("int64"), Ok)
    }

    fn array(&self) -> Decoded<&Vec<Value>> {
        self.value.as_array().map_or_else(|| self.wrong("[]interface {}"), Ok)
    }

    fn object(&self) -> Decoded<&Map<String, Value>> {
        self.value.as_object().map_or_else(|| self.wrong("map[string]interface {}"), Ok)
    }

    fn strings(&self) -> Decoded<Vec<String>> {
        let Some(list) = self.value.as_array() else { return self.wrong("[]string") };
        list.iter()
            .map(|value| match value {
                Value::String(text) => Ok(text.clone()),
                // Go decodes null to the zero value of the element.
                Value::Null => Ok(String::new()),
                other => PresentField { name: self.name, value: other, depth: self.depth }.wrong("string"),
            })
            .collect()
    }

    fn nested(&self, value: &Value) -> Decoded<Props> {
        decode(value, self.depth + 1)
    }

    fn schemas(&self) -> Decoded<Vec<Props>> {
        self.array()?.iter().map(|value| self.nested(value)).collect()
    }

    fn named(&self) -> Decoded<BTreeMap<String, Box<Props>>> {
        self.object()?.iter().map(|(key, value)| Ok((key.clone(), Box::new(self.nested(value)?)))).collect()
    }

    fn items(&self) -> Decoded<Items> {
        Ok(match self.value {
            Value::Object(_) => Items { schema: Some(Box::new(self.nested(self.value)?)), schemas: None },
            Value::Array(_) => Items { schema: None, schemas: Some(self.schemas()?) },
            // Anything but an object or a list leaves both empty: Kubernetes' own decoder ignores it silently
            // here, and complains only in `additional`.
            _ => Items::default(),
        })
    }

    fn additional(&self) -> Decoded<Additional> {
        match self.value {
            Value::Object(_) => Ok(Additional::Schema(Box::new(self.nested(self.value)?))),
            Value::Bool(allowed) => Ok(Additional::Allowed(*allowed)),
            _ => Err(DecodeError::SchemaOrBool),
        }
    }

    fn dependency(&self, value: &Value) -> Decoded<Dependency> {
        Ok(match value {
            Value::Object(_) => Dependency { schema: Some(Box::new(self.nested(value)?)), property: None },
            Value::Array(_) => {
                let field = PresentField { name: self.name, value, depth: self.depth };
                Dependency { schema: None, property: Some(field.strings()?) }
            }
            _ => Dependency::default(),
        })
    }
}

fn text_of(fields: &Map<String, Value>, name: &str, owner: &str) -> Decoded<String> {
    Ok(optional_text_of(fields, name, owner)?.unwrap_or_default())
}

fn optional_text_of(fields: &Map<String, Value>, name: &str, owner: &str) -> Decoded<Option<String>> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(DecodeError::Type {
            found: describe(other),
            field: format!("{owner}.{name}"),
            wanted: "string",
        }),
    }
}

fn rule(json: &Value) -> Decoded<ValidationRule> {
    const OWNER: &str = "ValidationRule";
    let fields = match json {
        Value::Object(fields) => fields,
        Value::Null => return Ok(ValidationRule::default()),
        other => {
            return Err(DecodeError::Value { found: describe(other), wanted: "v1.ValidationRule" });
        }
    };
    let optional_old_self = match fields.get("optionalOldSelf") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(flag)) => Some(*flag),
        Some(other) => {
            return Err(DecodeError::Type {
                found: describe(other),
                field: format!("{OWNER}.optionalOldSelf"),
                wanted: "bool",
            });
        }
    };
    Ok(ValidationRule {
        rule: text_of(fields, "rule", OWNER)?,
        message: text_of(fields, "message", OWNER)?,
        message_expression: text_of(fields, "messageExpression", OWNER)?,
        reason: optional_text_of(fields, "reason", OWNER)?,
        field_path: text_of(fields, "fieldPath", OWNER)?,
        optional_old_self,
    })
}
