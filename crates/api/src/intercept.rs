//! `FunctionIntercept`: a developer's process is called in place of a function, for some composite resources and for as long as it is renewed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RolloutFunction;

/// Specification of the calls that are sent to the process of a developer, and of how its responses are used.
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
    /// Address of the process, as HOST:PORT. It cannot be changed.
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub to: String,
    /// Use of the responses: `Shadow` (the default) compares them with the function's own, `ForReal` applies them in place of those. It
    /// cannot be changed.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub mode: InterceptMode,
    /// TLS settings of the connection to the process. If unset, the control plane calls it in plain text, which only `ferroplane up`
    /// allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub tls: Option<InterceptTls>,
    /// Lease duration in seconds. The control plane calls the function itself again if no renewal comes within this time. Defaults to 15.
    #[serde(default = "default_lease_seconds")]
    pub lease_seconds: i64,
    /// Counter of renewals. The client increments it to renew the lease.
    #[serde(default)]
    pub renewals: i64,
    /// Counter of comparisons. The client increments it to reconcile and compare the composite resources again.
    #[serde(default)]
    pub round: i64,
}

/// Composite resources: one, or those with these labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InterceptedComposites {
    /// API group of the composite resources. If unset, any group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the composite resources.
    pub kind: String,
    /// Namespace of the composite resources. If unset, any namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the composite resource. Required if matchLabels is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels that the composite resources must have. Required if name is unset.
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
    /// CA certificates, as PEM, that the control plane trusts for the certificate of the process.
    pub ca_bundle: String,
}

/// What came of an intercept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionInterceptStatus {
    /// Number of composite resources whose calls were sent to the process.
    pub composites: i64,
    /// Number of comparisons by their result, for example Equal or Changed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub differences: BTreeMap<String, i64>,
    /// The last comparisons. At most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<InterceptComparison>,
    /// CA certificates, as PEM, that signed the client certificate of the control plane. The process verifies the client with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<String>,
}

/// What a developer's process would do to a composite resource, compared with what the control plane's own revision does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct InterceptComparison {
    /// Number of the comparison. Later comparisons have higher numbers.
    pub number: i64,
    /// Kind, name and namespace of the composite resource.
    pub composite: String,
    /// Result of the comparison, for example Equal or Changed.
    pub difference: String,
    /// Human-readable summary of the difference.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Differences in composed resources, field by field. At most 20 objects with 20 fields each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Value>,
    /// Number of changes that are left out of the list.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: i64,
    /// Recording of the reconcile that made the comparison, as arguments for `ferroplane replay show`.
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
