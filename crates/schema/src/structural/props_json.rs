//! A schema as JSON again.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/v1/marshal.go`.

use serde_json::{Map, Value};

use super::props::{Additional, Dependency, Props, ValidationRule, slice};

impl Props {
    /// The schema as JSON, without what is absent or empty.
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        self.write_texts(&mut json);
        self.write_bounds(&mut json);
        self.write_schemas(&mut json);
        self.write_extensions(&mut json);
        Value::Object(json)
    }

    fn write_texts(&self, json: &mut Map<String, Value>) {
        let texts = [
            ("id", self.id.as_str()),
            ("$schema", &self.schema),
            ("description", &self.description),
            ("type", &self.kind),
            ("format", &self.format),
            ("title", &self.title),
            ("pattern", self.pattern.as_str()),
        ];
        for (name, text) in texts {
            if !text.is_empty() {
                json.insert(name.to_owned(), Value::from(text));
            }
        }
        put(json, "$ref", self.reference.clone());
        put(json, "default", self.default.clone());
        put(json, "example", self.example.clone());
        if let Some(docs) = &self.external_docs {
            let mut written = Map::new();
            for (name, text) in [("description", &docs.description), ("url", &docs.url)] {
                if !text.is_empty() {
                    written.insert(name.to_owned(), Value::from(text.as_str()));
                }
            }
            json.insert("externalDocs".to_owned(), Value::Object(written));
        }
    }

    fn write_bounds(&self, json: &mut Map<String, Value>) {
        for (name, number) in
            [("maximum", self.maximum), ("minimum", self.minimum), ("multipleOf", self.multiple_of)]
        {
            put(json, name, number.map(number_to_json));
        }
        for (name, number) in [
            ("maxLength", self.max_length),
            ("minLength", self.min_length),
            ("maxItems", self.max_items),
            ("minItems", self.min_items),
            ("maxProperties", self.max_properties),
            ("minProperties", self.min_properties),
        ] {
            put(json, name, number);
        }
        for (name, flag) in [
            ("nullable", self.nullable),
            ("exclusiveMaximum", self.exclusive_maximum),
            ("exclusiveMinimum", self.exclusive_minimum),
            ("uniqueItems", self.unique_items),
        ] {
            put(json, name, flag.then_some(true));
        }
        put_list(json, "enum", self.values().to_vec());
        put_list(json, "required", self.required().iter().map(|name| Value::from(name.as_str())).collect());
    }

    fn write_schemas(&self, json: &mut Map<String, Value>) {
        if let Some(items) = &self.items {
            let written = match (&items.schemas, &items.schema) {
                // The list first: so does the marshaller of `JSONSchemaPropsOrArray`.
                (Some(list), _) if !list.is_empty() => Value::Array(list.iter().map(Self::to_json).collect()),
                (_, Some(schema)) => schema.to_json(),
                _ => Value::Null,
            };
            json.insert("items".to_owned(), written);
        }
        for (name, list) in [("allOf", self.all_of()), ("oneOf", self.one_of()), ("anyOf", self.any_of())] {
            put_list(json, name, list.iter().map(Self::to_json).collect());
        }
        put(json, "not", self.not.as_ref().map(|schema| schema.to_json()));
        for (name, map) in [
            ("properties", &self.properties),
            ("patternProperties", &self.pattern_properties),
            ("definitions", &self.definitions),
        ] {
            let written: Map<_, _> =
                map.iter().flatten().map(|(key, schema)| (key.clone(), schema.to_json())).collect();
            if !written.is_empty() {
                json.insert(name.to_owned(), Value::Object(written));
            }
        }
        for (name, additional) in [
            ("additionalProperties", &self.additional_properties),
            ("additionalItems", &self.additional_items),
        ] {
            if let Some(additional) = additional {
                let written = match additional {
                    Additional::Allowed(allowed) => Value::from(*allowed),
                    Additional::Schema(schema) => schema.to_json(),
                };
                json.insert(name.to_owned(), written);
            }
        }
        let dependencies: Map<_, _> = self
            .dependencies
            .iter()
            .flatten()
            .map(|(key, dependency)| (key.clone(), dependency.to_json()))
            .collect();
        if !dependencies.is_empty() {
            json.insert("dependencies".to_owned(), Value::Object(dependencies));
        }
    }

    fn write_extensions(&self, json: &mut Map<String, Value>) {
        put(json, "x-kubernetes-preserve-unknown-fields", self.preserve_unknown_fields);
        put(json, "x-kubernetes-embedded-resource", self.embedded_resource.then_some(true));
        put(json, "x-kubernetes-int-or-string", self.int_or_string.then_some(true));
        put_list(
            json,
            "x-kubernetes-list-map-keys",
            self.list_map_keys().iter().map(|key| Value::from(key.as_str())).collect(),
        );
        put(json, "x-kubernetes-list-type", self.list_type.clone());
        put(json, "x-kubernetes-map-type", self.map_type.clone());
        put_list(
            json,
            "x-kubernetes-validations",
            self.validations().iter().map(ValidationRule::to_json).collect(),
        );
    }
}

impl Dependency {
    fn to_json(&self) -> Value {
        match (slice(self.property.as_ref()), &self.schema) {
            ([_, ..], _) => Value::from(slice(self.property.as_ref()).to_vec()),
            ([], Some(schema)) => schema.to_json(),
            ([], None) => Value::Null,
        }
    }
}

impl ValidationRule {
    fn to_json(&self) -> Value {
        let mut json = Map::new();
        json.insert("rule".to_owned(), Value::from(self.rule.as_str()));
        for (name, text) in [
            ("message", &self.message),
            ("messageExpression", &self.message_expression),
            ("fieldPath", &self.field_path),
        ] {
            if !text.is_empty() {
                json.insert(name.to_owned(), Value::from(text.as_str()));
            }
        }
        put(&mut json, "reason", self.reason.clone());
        put(&mut json, "optionalOldSelf", self.optional_old_self);
        Value::Object(json)
    }
}

fn put(json: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        json.insert(name.to_owned(), value.into());
    }
}

fn put_list(json: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        json.insert(name.to_owned(), Value::Array(list));
    }
}

/// A float as Go writes it: without a fraction and without an exponent if it needs none.
pub(crate) fn number_to_json(number: f64) -> Value {
    // Not as a float: our reader of JSON does not round long ones as everybody does, so that what is read again would be another
    // bound. 9.223372036854775e18 becomes 2^63, which fits no integer, and then nothing fits the bound.
    let text = number.to_string();
    let integer = text.parse::<i64>().map(Value::from);
    integer.or_else(|_| text.parse::<u64>().map(Value::from)).unwrap_or_else(|_| Value::from(number))
}
