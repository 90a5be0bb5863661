//! Makes structural schemas, as API servers want them, of Rust types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::marks::{DEFAULT, RULES};

/// A structural schema of an object.
#[derive(Debug, Clone)]
pub(super) struct Schema(Map<String, Value>);

/// The schema of a type.
pub(super) fn of<T: JsonSchema>() -> Schema {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    structural(&mut schema);
    match schema {
        Value::Object(schema) => Schema(schema),
        _ => Schema(Map::new()),
    }
}

impl Schema {
    /// The schema of a kind that has nothing yet but a name.
    pub(super) fn of_object(description: &str) -> Self {
        let mut schema = Self(Map::new());
        schema.0.insert("description".to_owned(), description.into());
        schema.name_kind();
        schema
    }

    /// It is a kind of its own.
    pub(super) fn name_kind(&mut self) {
        self.0.insert("type".to_owned(), "object".into());
        let properties = self.0.entry("properties").or_insert_with(|| json!({}));
        for (name, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            properties[name] = json!({"type": kind});
        }
    }

    /// The same with a field.
    pub(super) fn with(mut self, name: &str, field: Self) -> Self {
        self.0.entry("properties").or_insert_with(|| json!({}))[name] = Value::Object(field.0);
        self
    }

    /// The same in other words.
    pub(super) fn described(mut self, description: &str) -> Self {
        self.0.insert("description".to_owned(), description.into());
        self
    }

    /// Say something about a field, by its path. Null takes back what was said.
    pub(super) fn amend(&mut self, path: &str, keyword: &str, value: Value) {
        // A panic, because this only runs when definitions are generated: a path that is wrong is a mistake
        // in this crate.
        let place = self.field(path).unwrap_or_else(|| panic!("there is a field `{path}`"));
        match value {
            Value::Null => place.remove(keyword),
            value => place.insert(keyword.to_owned(), value),
        };
    }

    /// Say something about a field of the items of a list.
    pub(super) fn amend_item(&mut self, list: &str, field: &str, keyword: &str, value: Value) {
        let items = self.field(list).and_then(|list| list.get_mut("items")?.get_mut("properties"));
        let place = items.and_then(|properties| properties.get_mut(field)?.as_object_mut());
        place
            .unwrap_or_else(|| panic!("there is a field `{list}[].{field}`"))
            .insert(keyword.to_owned(), value);
    }

    /// Say more about a field.
    pub(super) fn add_words(&mut self, field: &str, words: &str) {
        let description = self.0["properties"][field]["description"].as_str().unwrap_or_default();
        let description = format!("{description} {words}");
        self.amend(field, "description", description.into());
    }

    /// Leave out a field, by the path of what it is a field of.
    pub(super) fn remove(&mut self, path: &str, field: &str) {
        let properties = self.field(path).and_then(|place| place.get_mut("properties")?.as_object_mut());
        let removed = properties.and_then(|properties| properties.remove(field));
        assert!(removed.is_some(), "there is a field `{path}.{field}`");
    }

    fn field(&mut self, path: &str) -> Option<&mut Map<String, Value>> {
        let mut fields = path.split('.').filter(|name| !name.is_empty());
        fields.try_fold(&mut self.0, |schema, name| {
            schema.get_mut("properties")?.get_mut(name)?.as_object_mut()
        })
    }

    /// Something more must hold.
    pub(super) fn rule(&mut self, rule: &str, message: &str) {
        let rules = self.0.entry(RULES).or_insert_with(|| json!([]));
        if let Some(rules) = rules.as_array_mut() {
            rules.push(json!({"rule": rule, "message": message}));
        }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// Makes of what describes a Rust type what describes a field to an API server.
fn structural(schema: &mut Value) {
    if *schema == true {
        // Structural schemas have no `true`; this is how they say "anything".
        *schema = json!({"x-kubernetes-preserve-unknown-fields": true});
    }
    let Some(fields) = schema.as_object_mut() else { return };
    unwrap_option(fields);
    unwrap_enum(fields);
    // schemars takes a default of serde for one of the API; those that are meant come under a key of their
    // own.
    for keyword in ["title", "$schema", "default"] {
        fields.remove(keyword);
    }
    // An API server drops unknown fields, and says so; only files are refused because of them.
    if fields.get("additionalProperties") == Some(&json!(false)) {
        fields.remove("additionalProperties");
    }
    if let Some(default) = fields.remove(DEFAULT) {
        fields.insert("default".to_owned(), default);
    }
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    if fields.get("additionalProperties") == Some(&Value::Bool(true)) {
        fields.remove("additionalProperties");
        fields.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(structural);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(keyword) {
            structural(inner);
            // Who lists them has said what they are.
            inner.as_object_mut().and_then(|inner| inner.remove("description"));
        }
    }
}

/// What may be left out is not null.
fn unwrap_option(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get("type") {
        let kind = types.iter().find(|kind| *kind != "null").cloned();
        kind.and_then(|kind| fields.insert("type".to_owned(), kind));
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    // No type of ours is a choice of several; schemars writes an optional one like this.
    let Some(Value::Array(variants)) = fields.remove("anyOf") else { return };
    let some = variants.into_iter().find(|variant| variant["type"] != "null");
    if let Some(Value::Object(some)) = some {
        for (keyword, value) in some {
            fields.entry(keyword).or_insert(value);
        }
    }
}

/// Variants that explain themselves are still only texts.
fn unwrap_enum(fields: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = fields.remove("oneOf") else { return };
    let mut values = Vec::new();
    for variant in &variants {
        values.extend(variant.get("const").cloned());
        values.extend(variant.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
    }
    fields.insert("type".to_owned(), "string".into());
    fields.insert("enum".to_owned(), Value::Array(values));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::marks::{keyed_by, or};

    /// Something.
    #[derive(JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only the schema is of interest")]
    struct Sample {
        /// Must be
        /// said.
        must_be: String,
        /// May be left out.
        #[serde(default)]
        list: Vec<Item>,
        /// Has a default.
        #[schemars(transform = or(json!(7)))]
        number: Option<i64>,
        /// One of two.
        choice: Option<Choice>,
        /// Anything.
        anything: Option<crate::Object>,
        /// By name.
        #[schemars(transform = keyed_by("name"))]
        items: Option<Vec<Item>>,
    }

    /// Not said of items.
    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only the schema is of interest")]
    struct Item {
        /// Its name.
        name: String,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only the schema is of interest")]
    enum Choice {
        /// The one.
        One,
        /// The other.
        Other,
    }

    #[test]
    fn schemas_are_what_an_api_server_takes() {
        let item = json!({
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string", "description": "Its name."}},
        });
        assert_eq!(
            of::<Sample>().into_value(),
            json!({
                "type": "object", "description": "Something.", "required": ["mustBe"],
                "properties": {
                    "mustBe": {"type": "string", "description": "Must be said."},
                    "list": {"type": "array", "description": "May be left out.", "items": item},
                    "number": {"type": "integer", "format": "int64", "description": "Has a default.", "default": 7},
                    "choice": {"type": "string", "description": "One of two.", "enum": ["One", "Other"]},
                    "anything": {
                        "type": "object", "description": "Anything.", "x-kubernetes-preserve-unknown-fields": true,
                    },
                    "items": {
                        "type": "array", "description": "By name.", "items": item,
                        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    },
                },
            })
        );
    }
}
