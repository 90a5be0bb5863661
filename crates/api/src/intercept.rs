//! `FunctionIntercept`: a developer's process is called in place of a function, for some composite resources and for as long as somebody
//! renews it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RolloutFunction;

/// Which calls a developer's process gets, and what becomes of its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionInterceptSpec {
    /// The Function whose calls are sent to the process.
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub function_ref: RolloutFunction,
    /// The composite resources whose calls are sent to the process.
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub composites: InterceptedComposites,
    /// Where the process listens, as HOST:PORT.
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub to: String,
    /// What becomes of the answers of the process.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub mode: InterceptMode,
    /// Whom the control plane trusts at that address. Without it, the process is called in plain text, where that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub tls: Option<InterceptTls>,
    /// For how long it holds after it was renewed.
    #[serde(default = "default_lease_seconds")]
    pub lease_seconds: i64,
    /// How often it has been renewed. It holds as long as this number changes.
    #[serde(default)]
    pub renewals: i64,
    /// Composite resources are asked about again when this number changes.
    #[serde(default)]
    pub round: i64,
}

/// Composite resources: one, or those with these labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InterceptedComposites {
    /// Their API group. Without it, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Their kind.
    pub kind: String,
    /// Their namespace. Without it, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the composite resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The labels that they have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

/// What becomes of the answers of a developer's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum InterceptMode {
    /// They are compared with what the control plane decides with its own revision, which counts.
    #[default]
    Shadow,
    /// They count.
    ForReal,
}

impl InterceptMode {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shadow => "Shadow",
            Self::ForReal => "ForReal",
        }
    }
}

/// Whom the control plane trusts where a developer's process listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InterceptTls {
    /// The certificates, in PEM, that sign the certificate of the process.
    pub ca_bundle: String,
}

/// What came of an intercept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionInterceptStatus {
    /// How many composite resources had calls sent to the process.
    pub composites: i64,
    /// How the process differed, by how often composite resources were compared.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub differences: BTreeMap<String, i64>,
    /// The last comparisons. At most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<InterceptComparison>,
    /// The certificates, in PEM, that sign the certificate with which the control plane comes to the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<String>,
}

/// What a developer's process would do to a composite resource, compared with what the control plane's own revision does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct InterceptComparison {
    /// Later comparisons have higher numbers.
    pub number: i64,
    /// The composite resource, for people.
    pub composite: String,
    /// How it differs.
    pub difference: String,
    /// What is different, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What the process would do otherwise, field by field. At most 20 objects, with 20 fields each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Value>,
    /// How many changes are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: i64,
    /// The reconcile in which it was found: what to tell `ferroplane replay show`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub recording: String,
}

fn default_lease_seconds() -> i64 {
    15
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
