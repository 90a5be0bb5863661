//! A schema as it is written in a definition: every field that Kubernetes knows, whether it may be used or not.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/v1/types_jsonschema.go`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pattern::Pattern;

/// `JSONSchemaProps`. Absent and empty lists differ, because they do for Kubernetes in places.
#[expect(clippy::struct_excessive_bools, reason = "a schema says many things with yes or no")]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Props {
    pub id: String,
    pub schema: String,
    pub reference: Option<String>,
    pub description: String,
    pub kind: String,
    pub nullable: bool,
    pub format: String,
    pub title: String,
    pub default: Option<Value>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Pattern,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub multiple_of: Option<f64>,
    pub values: Option<Vec<Value>>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Option<Vec<String>>,
    pub items: Option<Items>,
    pub all_of: Option<Vec<Props>>,
    pub one_of: Option<Vec<Props>>,
    pub any_of: Option<Vec<Props>>,
    pub not: Option<Box<Props>>,
    /// A node of the map has room for eleven, so that large values would cost most where there are few.
    pub properties: Option<BTreeMap<String, Box<Props>>>,
    pub additional_properties: Option<Additional>,
    pub pattern_properties: Option<BTreeMap<String, Box<Props>>>,
    pub dependencies: Option<BTreeMap<String, Dependency>>,
    pub additional_items: Option<Additional>,
    pub definitions: Option<BTreeMap<String, Box<Props>>>,
    pub external_docs: Option<Documentation>,
    pub example: Option<Value>,
    pub preserve_unknown_fields: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_map_keys: Option<Vec<String>>,
    pub list_type: Option<String>,
    pub map_type: Option<String>,
    pub validations: Option<Vec<ValidationRule>>,
}

/// What `items` says: one schema, or a list of them, which is refused later.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Items {
    pub schema: Option<Box<Props>>,
    pub schemas: Option<Vec<Props>>,
}

/// What `additionalProperties` says.
#[derive(Debug, Clone, PartialEq)]
pub enum Additional {
    Allowed(bool),
    Schema(Box<Props>),
}

impl Additional {
    pub fn schema(&self) -> Option<&Props> {
        match self {
            Self::Allowed(_) => None,
            Self::Schema(schema) => Some(schema),
        }
    }

    pub fn allows(&self) -> bool {
        !matches!(self, Self::Allowed(false))
    }
}

/// What a dependency says, which is refused later.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dependency {
    pub schema: Option<Box<Props>>,
    pub property: Option<Vec<String>>,
}

/// Where to read more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Documentation {
    pub description: String,
    pub url: String,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValidationRule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl ValidationRule {
    /// What to call the rule in messages.
    pub(crate) fn words(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    /// What to say if it fails.
    pub(crate) fn failure(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.words())
        } else {
            self.words().to_owned()
        }
    }
}

pub(super) fn slice<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}

impl Props {
    pub fn all_of(&self) -> &[Self] {
        slice(self.all_of.as_ref())
    }

    pub fn any_of(&self) -> &[Self] {
        slice(self.any_of.as_ref())
    }

    pub fn one_of(&self) -> &[Self] {
        slice(self.one_of.as_ref())
    }

    pub fn values(&self) -> &[Value] {
        slice(self.values.as_ref())
    }

    pub fn required(&self) -> &[String] {
        slice(self.required.as_ref())
    }

    pub fn list_map_keys(&self) -> &[String] {
        slice(self.list_map_keys.as_ref())
    }

    pub fn validations(&self) -> &[ValidationRule] {
        slice(self.validations.as_ref())
    }

    pub fn properties(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.properties.iter().flatten().map(|(name, property)| (name, &**property))
    }

    pub fn property(&self, name: &str) -> Option<&Self> {
        self.properties.as_ref()?.get(name).map(|schema| &**schema)
    }

    pub fn has_properties(&self) -> bool {
        self.properties.as_ref().is_some_and(|properties| !properties.is_empty())
    }

    pub fn item(&self) -> Option<&Self> {
        self.items.as_ref()?.schema.as_deref()
    }

    pub fn items_list(&self) -> &[Self] {
        self.items.as_ref().map_or(&[], |items| slice(items.schemas.as_ref()))
    }

    pub fn additional_schema(&self) -> Option<&Self> {
        self.additional_properties.as_ref()?.schema()
    }

    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    pub fn is_list_type(&self, kind: &str) -> bool {
        self.list_type.as_deref() == Some(kind)
    }

    /// Every schema within, this one first, until the predicate holds.
    pub(crate) fn has(&self, predicate: &mut dyn FnMut(&Self) -> bool) -> bool {
        // Recursion is safe, because the readers of JSON and of protobuf bound how deep values are nested.
        predicate(self) || self.children().any(|child| child.has(predicate))
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        let items = self.item().into_iter().chain(self.items_list());
        let junctors =
            self.all_of().iter().chain(self.any_of()).chain(self.one_of()).chain(self.not.as_deref());
        let named = [&self.properties, &self.pattern_properties, &self.definitions]
            .into_iter()
            .flat_map(|map| map.iter().flat_map(BTreeMap::values))
            .map(|schema| &**schema);
        let additional = [&self.additional_properties, &self.additional_items]
            .into_iter()
            .filter_map(|additional| additional.as_ref()?.schema());
        let dependencies = self
            .dependencies
            .iter()
            .flat_map(BTreeMap::values)
            .filter_map(|dependency| dependency.schema.as_deref());
        items.chain(junctors).chain(named).chain(additional).chain(dependencies)
    }

    /// Whether nothing is said that Kubernetes does not treat as absent.
    pub(crate) fn means_the_same(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}
