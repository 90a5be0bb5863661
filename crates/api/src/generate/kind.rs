//! A kind, as its definition describes it.

use serde_json::{Value, json};

use super::schema::Schema;

/// Where objects of a kind are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    Namespaced,
    Cluster,
}

/// A kind.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    pub(super) short_names: &'static [&'static str],
    pub(super) categories: &'static [&'static str],
    pub(super) versions: Vec<Version>,
}

/// A version of a kind.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) name: &'static str,
    /// What to tell those who use it, if it will go.
    pub(super) deprecation: Option<&'static str>,
    pub(super) columns: Vec<Value>,
    pub(super) has_status: bool,
    pub(super) schema: Schema,
}

impl Kind {
    pub(super) fn new(group: &'static str, name: &'static str, scope: Scope) -> Self {
        Self { group, name, scope, short_names: &[], categories: &["crossplane"], versions: Vec::new() }
    }

    /// The same with one more version. The first is the one that is stored.
    pub(super) fn version(mut self, version: Version) -> Self {
        self.versions.push(version);
        self
    }

    pub(super) fn plural(&self) -> String {
        format!("{}s", self.name.to_lowercase())
    }

    /// The whole definition.
    pub(super) fn definition(self) -> Value {
        let (plural, singular) = (self.plural(), self.name.to_lowercase());
        let mut names = json!({
            "kind": self.name, "listKind": format!("{}List", self.name), "plural": plural, "singular": singular,
            "categories": self.categories,
        });
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        let scope = match self.scope {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        };
        let versions = self.versions.into_iter().enumerate();
        let versions: Vec<_> = versions.map(|(index, version)| version.definition(index == 0)).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{}", self.group)},
            "spec": {"group": self.group, "names": names, "scope": scope, "versions": versions},
        })
    }
}

impl Version {
    pub(super) fn new(name: &'static str, schema: Schema) -> Self {
        Self { name, deprecation: None, columns: Vec::new(), has_status: false, schema }
    }

    fn definition(self, is_stored: bool) -> Value {
        let mut definition = json!({
            "name": self.name, "served": true, "storage": is_stored, "additionalPrinterColumns": self.columns,
            "subresources": if self.has_status { json!({"status": {}}) } else { json!({}) },
            "schema": {"openAPIV3Schema": self.schema.into_value()},
        });
        if let Some(warning) = self.deprecation {
            definition["deprecated"] = true.into();
            definition["deprecationWarning"] = warning.into();
        }
        definition
    }
}

pub(super) fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

/// A column for those who want to see more.
pub(super) fn wide_column(name: &str, path: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path, "priority": 1})
}

pub(super) fn condition(name: &str, kind: &str) -> Value {
    column(name, "string", &format!(".status.conditions[?(@.type=='{kind}')].status"))
}

pub(super) fn age() -> Value {
    column("AGE", "date", ".metadata.creationTimestamp")
}
