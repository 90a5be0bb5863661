//! Tables: objects as `kubectl get` shows them, and objects without anything but metadata.
//!
//! The time is an argument: ages are relative to it.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/tableconvertor/tableconvertor.go`.

mod age;
mod builtin;
mod cell;

use ferroplane_cancellation::milestone;
use ferroplane_golang::strconv;
use serde_json::{Value, json};

use crate::jsonpath::JsonPath;

pub use age::{Instant, age, human_duration};

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    pub format: String,
    pub description: String,
    /// Columns with a priority above zero are shown on demand.
    pub priority: i64,
    source: CellSource,
}

/// Where a cell comes from.
#[derive(Debug, Clone)]
enum CellSource {
    Path(JsonPath),
    Computed(builtin::Computed),
}

/// Makes tables of the objects of one kind.
#[derive(Debug, Clone)]
pub struct Printer {
    columns: Vec<Column>,
}

/// What of the object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// Reads the parameter of a request.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

impl Column {
    /// Reads one of the `additionalPrinterColumns` of a custom resource definition.
    pub fn read(definition: &Value) -> Result<Self, String> {
        let text = |name: &str| definition.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("jsonPath");
        let parsed = JsonPath::parse(path)
            .map_err(|_| format!("unrecognized column definition {}", strconv::quote(path)))?;
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        Ok(Self {
            name: text("name").to_owned(),
            kind: text("type").to_owned(),
            format: text("format").to_owned(),
            description,
            priority: definition.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            source: CellSource::Path(parsed),
        })
    }

    fn cell(&self, object: &Value, now: Instant) -> Value {
        match &self.source {
            CellSource::Path(path) => cell::cell(path, &self.kind, object, now),
            CellSource::Computed(computed) => computed.cell(object, now),
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

impl Printer {
    /// Prints the name and these columns.
    pub fn new(columns: Vec<Column>) -> Self {
        // The name is not among the columns of a definition: every table of Kubernetes begins with it.
        Self { columns: std::iter::once(Column::name()).chain(columns).collect() }
    }

    /// Prints one of Kubernetes' own kinds.
    pub fn of_builtin(group: &str, plural: &str) -> Self {
        Self { columns: builtin::columns(group, plural) }
    }

    /// Reads the `additionalPrinterColumns` of a custom resource definition. Without any, the age is shown.
    pub fn read(definitions: &[Value]) -> Result<Self, String> {
        let age = json!({
            "name": "Age",
            "type": "date",
            "description": "How long ago the object was created",
            "jsonPath": ".metadata.creationTimestamp",
        });
        let definitions = if definitions.is_empty() { &[age] } else { definitions };
        definitions.iter().map(Column::read).collect::<Result<_, _>>().map(Self::new)
    }

    /// What the columns are.
    pub fn definitions(&self) -> Value {
        self.columns.iter().map(Column::definition).collect()
    }

    /// A row for an object.
    pub fn row(&self, object: &Value, include: Include, now: Instant) -> Value {
        milestone();
        let cells: Vec<_> = self.columns.iter().map(|column| column.cell(object, now)).collect();
        let shown = match include {
            Include::None => Value::Null,
            Include::Metadata => partial(object),
            Include::Object => object.clone(),
        };
        json!({ "cells": cells, "object": shown })
    }

    /// A table of objects. `metadata` is that of the list.
    pub fn table<'o>(
        &self,
        objects: impl IntoIterator<Item = &'o Value>,
        metadata: &Value,
        options: Options,
        now: Instant,
    ) -> Value {
        let rows: Vec<_> = objects.into_iter().map(|object| self.row(object, options.include, now)).collect();
        // Null, not absent: Go writes the field always.
        let columns = if options.has_headers { self.definitions() } else { Value::Null };
        json!({
            "apiVersion": "meta.k8s.io/v1",
            "kind": "Table",
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }
}

/// How a table is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub include: Include,
    /// Later tables of a watch repeat no definitions of columns.
    pub has_headers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { include: Include::Metadata, has_headers: true }
    }
}

/// An object without anything but metadata.
pub fn partial(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata })
}

/// Objects without anything but metadata. `metadata` is that of the list.
pub fn partial_list<'o>(objects: impl IntoIterator<Item = &'o Value>, metadata: &Value) -> Value {
    let items: Vec<_> = objects.into_iter().map(partial).collect();
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadataList",
        "metadata": metadata,
        "items": items,
    })
}
