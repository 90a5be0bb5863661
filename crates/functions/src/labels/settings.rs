//! What a step says to `function-labels`. A field that is not there is a mistake.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::pattern;
use crate::input::{object, objects};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Labels<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) rules: Option<Vec<Rule<'a>>>,
}

/// What to do with some of the resources.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule<'a> {
    #[serde(borrow, deserialize_with = "object")]
    select: Option<Selection<'a>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) labels: Option<Vec<Entry<'a>>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) annotations: Option<Vec<Entry<'a>>>,
    #[serde(borrow)]
    pub(super) remove_labels: Option<Vec<&'a str>>,
    #[serde(borrow)]
    pub(super) remove_annotations: Option<Vec<&'a str>>,
}

/// Which resources. A list that is empty means all of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Selection<'a> {
    #[serde(borrow)]
    names: Option<Vec<&'a str>>,
    #[serde(borrow)]
    kinds: Option<Vec<&'a str>>,
}

/// A label or an annotation to add, or an object full of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Entry<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) value: Option<&'a str>,
    pub(super) from_field_path: Option<&'a str>,
    required: Option<bool>,
    policy: Option<&'a str>,
}

impl Rule<'_> {
    /// Whether the rule is for the resource of this name.
    pub(super) fn is_for(&self, name: &str, resource: &Map<String, Value>) -> bool {
        let Some(select) = &self.select else { return true };
        let one_of = |patterns: Option<&[&str]>, is_match: &dyn Fn(&str) -> bool| {
            patterns.is_none_or(|patterns| {
                patterns.is_empty() || patterns.iter().any(|pattern| is_match(pattern))
            })
        };
        one_of(select.names.as_deref(), &|pattern| pattern::matches(pattern, name))
            && one_of(select.kinds.as_deref(), &|pattern| is_kind(pattern, resource))
    }
}

/// Whether the resource is of a kind, written `Kind` or `Kind.group`.
fn is_kind(pattern: &str, resource: &Map<String, Value>) -> bool {
    let text = |field| resource.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, kind) = (text("apiVersion").split_once('/').map_or("", |(group, _)| group), text("kind"));
    if pattern.contains('.') {
        pattern::matches(pattern, &format!("{kind}.{group}"))
    } else {
        pattern::matches(pattern, kind)
    }
}

impl Entry<'_> {
    /// Whether what is there stays.
    pub(super) fn retains(&self) -> Result<bool, String> {
        match self.policy {
            None | Some("Replace") => Ok(false),
            Some("Retain") => Ok(true),
            Some(other) => Err(format!("policy {other:?} is none of Replace, Retain")),
        }
    }

    /// Whether it is a mistake if there is nothing in the field.
    pub(super) fn is_required(&self) -> bool {
        self.required.unwrap_or_default()
    }
}
