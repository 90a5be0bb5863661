//! `Usage` and its relatives: something must not be deleted, because something else uses it or for another reason.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Says what is used, and by what or for what reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSpec {
    /// What is used.
    pub of: UsageTarget,
    /// What uses it.
    #[serde(default)]
    pub by: Option<UsageTarget>,
    #[serde(default)]
    pub reason: Option<String>,
    /// Whether a refused deletion is replayed when the usage ends.
    #[serde(default)]
    pub replay_deletion: Option<bool>,
}

/// An object, by name or by labels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageTarget {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub resource_ref: Option<UsageReference>,
    #[serde(default)]
    pub resource_selector: Option<UsageSelector>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UsageReference {
    #[serde(default)]
    pub name: String,
    /// That of the usage, if there is none.
    #[serde(default)]
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSelector {
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Whether only objects count that have the same controller as the usage.
    #[serde(default)]
    pub match_controller_ref: Option<bool>,
    /// That of the usage, if there is none.
    #[serde(default)]
    pub namespace: Option<String>,
}

impl UsageTarget {
    /// The reference, if it leads anywhere.
    pub fn reference(&self) -> Option<&UsageReference> {
        self.resource_ref.as_ref().filter(|reference| !reference.name.is_empty())
    }
}
