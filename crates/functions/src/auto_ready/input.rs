//! What a step may tell this function.

use std::collections::BTreeMap;

use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ttl;

/// What a step may tell this function.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// For how long the answer holds.
    pub(super) ttl: Option<prost_types::Duration>,
    /// CEL expressions by `group_version_Kind`.
    pub(super) customization: BTreeMap<String, String>,
    /// Where in the context there are more of them.
    pub(super) customization_from: Option<String>,
}

/// The input as it is written. Null is as good as nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    ttl: Option<String>,
    cel_health_check_customization: Option<BTreeMap<String, Option<String>>>,
    cel_health_check_customization_from: Option<String>,
}

impl Input {
    /// Read the input, or say what is wrong with it.
    pub(super) fn read(input: Option<&Struct>) -> Result<Self, String> {
        let Some(input) = input else { return Ok(Self::default()) };
        let json = input.json().map_err(|error| format!("cannot get Function input: {error}"))?;
        let written: Written = serde_path_to_error::deserialize(json)
            .map_err(|error| format!("cannot get Function input: {error}"))?;
        let expressions = written.cel_health_check_customization.unwrap_or_default();
        Ok(Self {
            ttl: read_ttl(written.ttl.as_deref().unwrap_or_default())?,
            customization: expressions
                .into_iter()
                .map(|(kind, cel)| (kind, cel.unwrap_or_default()))
                .collect(),
            customization_from: written.cel_health_check_customization_from,
        })
    }
}

fn read_ttl(ttl: &str) -> Result<Option<prost_types::Duration>, String> {
    if ttl.is_empty() {
        return Ok(None);
    }
    ttl::parse(ttl).map(Some).map_err(|problem| format!("cannot set ttl: {problem}"))
}
