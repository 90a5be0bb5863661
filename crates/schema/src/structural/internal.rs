//! Schemas as Kubernetes shows them in errors: its internal types as JSON, with every field.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/types_jsonschema.go`.

use std::collections::BTreeMap;

use ferroplane_golang::json;
use serde_json::Value;

use super::props::{Additional, Dependency, Items, Props, ValidationRule};
use crate::field::BadValue;

impl Props {
    /// The whole schema, as an error shows it.
    pub(crate) fn shown(&self) -> BadValue {
        BadValue::Text(self.internal())
    }

    /// The order of fields is that of Go's struct, and every field is shown, even if it is empty: errors print it with
    /// `encoding/json` and no tags.
    pub(crate) fn internal(&self) -> String {
        let fields = self.described(GoStruct::default());
        let fields = self.composed(self.limited(fields));
        self.extended(fields).close()
    }

    fn described(&self, fields: GoStruct) -> GoStruct {
        fields
            .text("ID", &self.id)
            .text("Schema", &self.schema)
            .raw("Ref", &optional_text(self.reference.as_ref()))
            .text("Description", &self.description)
            .text("Type", &self.kind)
            .flag("Nullable", self.nullable)
            .text("Format", &self.format)
            .text("Title", &self.title)
            .raw("Default", &optional(self.default.as_ref()))
    }

    fn limited(&self, fields: GoStruct) -> GoStruct {
        fields
            .raw("Maximum", &number(self.maximum))
            .flag("ExclusiveMaximum", self.exclusive_maximum)
            .raw("Minimum", &number(self.minimum))
            .flag("ExclusiveMinimum", self.exclusive_minimum)
            .raw("MaxLength", &integer(self.max_length))
            .raw("MinLength", &integer(self.min_length))
            .text("Pattern", self.pattern.as_str())
            .raw("MaxItems", &integer(self.max_items))
            .raw("MinItems", &integer(self.min_items))
            .flag("UniqueItems", self.unique_items)
            .raw("MultipleOf", &number(self.multiple_of))
            .raw("Enum", &list(self.values.as_ref(), json::marshal))
            .raw("MaxProperties", &integer(self.max_properties))
            .raw("MinProperties", &integer(self.min_properties))
            .raw("Required", &texts(self.required.as_ref()))
    }

    fn composed(&self, fields: GoStruct) -> GoStruct {
        fields
            .raw("Items", &self.items.as_ref().map_or_else(null, Items::internal))
            .raw("AllOf", &list(self.all_of.as_ref(), Self::internal))
            .raw("OneOf", &list(self.one_of.as_ref(), Self::internal))
            .raw("AnyOf", &list(self.any_of.as_ref(), Self::internal))
            .raw("Not", &self.not.as_ref().map_or_else(null, |schema| schema.internal()))
            .raw("Properties", &map(self.properties.as_ref(), |schema| schema.internal()))
            .raw("AdditionalProperties", &additional(self.additional_properties.as_ref()))
            .raw("PatternProperties", &map(self.pattern_properties.as_ref(), |schema| schema.internal()))
            .raw("Dependencies", &map(self.dependencies.as_ref(), Dependency::internal))
            .raw("AdditionalItems", &additional(self.additional_items.as_ref()))
            .raw("Definitions", &map(self.definitions.as_ref(), |schema| schema.internal()))
    }

    fn extended(&self, fields: GoStruct) -> GoStruct {
        let docs = self.external_docs.as_ref().map_or_else(null, |docs| {
            GoStruct::default().text("Description", &docs.description).text("URL", &docs.url).close()
        });
        fields
            .raw("ExternalDocs", &docs)
            .raw("Example", &optional(self.example.as_ref()))
            .raw("XPreserveUnknownFields", &optional_flag(self.preserve_unknown_fields))
            .flag("XEmbeddedResource", self.embedded_resource)
            .flag("XIntOrString", self.int_or_string)
            .raw("XListMapKeys", &texts(self.list_map_keys.as_ref()))
            .raw("XListType", &optional_text(self.list_type.as_ref()))
            .raw("XMapType", &optional_text(self.map_type.as_ref()))
            .raw("XValidations", &list(self.validations.as_ref(), ValidationRule::internal))
    }
}

impl Dependency {
    fn internal(&self) -> String {
        GoStruct::default()
            .raw("Schema", &self.schema.as_ref().map_or_else(null, |schema| schema.internal()))
            .raw("Property", &texts(self.property.as_ref()))
            .close()
    }
}

impl Items {
    pub(crate) fn internal(&self) -> String {
        GoStruct::default()
            .raw("Schema", &self.schema.as_ref().map_or_else(null, |schema| schema.internal()))
            .raw("JSONSchemas", &list(self.schemas.as_ref(), Props::internal))
            .close()
    }
}

impl ValidationRule {
    pub(crate) fn internal(&self) -> String {
        GoStruct::default()
            .text("Rule", &self.rule)
            .text("Message", &self.message)
            .text("MessageExpression", &self.message_expression)
            .raw("Reason", &optional_text(self.reason.as_ref()))
            .text("FieldPath", &self.field_path)
            .raw("OptionalOldSelf", &optional_flag(self.optional_old_self))
            .close()
    }
}

/// Writes a struct field by field.
#[derive(Default)]
pub(crate) struct GoStruct(String);

impl GoStruct {
    pub(crate) fn raw(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        json::push_string(name, &mut self.0);
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        let mut quoted = String::new();
        json::push_string(value, &mut quoted);
        self.raw(name, &quoted)
    }

    pub(crate) fn flag(self, name: &str, value: bool) -> Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    pub(crate) fn close(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

pub(crate) fn null() -> String {
    "null".to_owned()
}

fn optional(value: Option<&Value>) -> String {
    value.map_or_else(null, json::marshal)
}

pub(crate) fn optional_text(value: Option<&String>) -> String {
    value.map_or_else(null, |text| json::marshal(&Value::from(text.as_str())))
}

fn optional_flag(value: Option<bool>) -> String {
    value.map_or_else(null, |flag| flag.to_string())
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(null, |number| json::marshal(&Value::from(number)))
}

fn integer(value: Option<i64>) -> String {
    value.map_or_else(null, |number| number.to_string())
}

pub(crate) fn list<T>(values: Option<&Vec<T>>, write: impl Fn(&T) -> String) -> String {
    values.map_or_else(null, |values| {
        let written: Vec<_> = values.iter().map(write).collect();
        format!("[{}]", written.join(","))
    })
}

pub(crate) fn texts(values: Option<&Vec<String>>) -> String {
    list(values, |text| json::marshal(&Value::from(text.as_str())))
}

fn map<T>(values: Option<&BTreeMap<String, T>>, write: impl Fn(&T) -> String) -> String {
    values.map_or_else(null, |values| {
        let fields =
            values.iter().fold(GoStruct::default(), |fields, (key, value)| fields.raw(key, &write(value)));
        fields.close()
    })
}

fn additional(value: Option<&Additional>) -> String {
    value.map_or_else(null, |additional| {
        GoStruct::default()
            .flag("Allows", additional.allows())
            .raw("Schema", &additional.schema().map_or_else(null, Props::internal))
            .close()
    })
}
