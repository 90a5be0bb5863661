//! The input as it is written.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::input::{object, objects};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Validation {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(deserialize_with = "objects")]
    pub(super) rules: Option<Vec<Rule>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) name: Option<String>,
    #[serde(rename = "rule")]
    pub(super) expression: Option<String>,
    pub(super) message: Option<String>,
    pub(super) message_expression: Option<String>,
    pub(super) severity: Option<Severity>,
    pub(super) target: Option<Target>,
    pub(super) reason: Option<String>,
    #[serde(deserialize_with = "object")]
    pub(super) resources: Option<Selector>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum Severity {
    Fatal,
    Warning,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum Target {
    Composite,
    CompositeAndClaim,
}

/// Which composed resources a rule is about. All that is said must apply.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Selector {
    pub(super) names: Option<Vec<String>>,
    pub(super) pattern: Option<String>,
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
}
