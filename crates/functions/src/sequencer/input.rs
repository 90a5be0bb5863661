//! What a step may tell this function.

use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::usage::UsageVersion;
use crate::ttl;

/// What a step may tell this function.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// For how long the answer holds.
    pub(super) cache_ttl: Option<prost_types::Duration>,
    /// Whether the rules also say in which order to delete.
    pub(super) enable_deletion_sequencing: bool,
    /// Whether a deletion that was refused is tried again as soon as it is allowed.
    pub(super) replay_deletion: bool,
    pub(super) usage_version: UsageVersion,
    /// Whether the composite resource is not ready while something is held back.
    pub(super) reset_composite_readiness: bool,
    pub(super) release: Release,
    pub(super) rules: Vec<Rule>,
}

/// The releases whose rules mean different things.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Release {
    /// v0.1.0 to v0.1.2: sequences have names, not patterns.
    V0_1,
    /// v0.2.2: what matches a pattern that has to wait is taken out even if it exists, and so it is deleted.
    V0_2,
    /// v0.2.3 to v0.3.0: a pattern that nothing waits for may be nonsense.
    V0_3,
    /// v0.4.0: usages are made while it is checked what has to wait, and usages are protected, too.
    V0_4,
    /// v0.5.0: the same, but what protects is not protected.
    V0_5,
    /// From v0.6.0 on.
    #[default]
    Latest,
}

impl Release {
    /// Whether resources are protected while it is checked what has to wait.
    pub(super) fn protects_in_turn(self) -> bool {
        matches!(self, Self::V0_4 | Self::V0_5)
    }
}

/// A sequence of resources.
#[derive(Debug, Default)]
pub(super) struct Rule {
    /// CEL that says whether the rule applies. If there is none, it does.
    pub(super) condition: String,
    pub(super) create_only: bool,
    pub(super) delete_only: bool,
    /// Names or regular expressions.
    pub(super) sequence: Vec<String>,
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
    #[serde(rename = "cacheTTL")]
    cache_ttl: Option<String>,
    enable_deletion_sequencing: Option<bool>,
    replay_deletion: Option<bool>,
    usage_version: Option<String>,
    reset_composite_readiness: Option<bool>,
    rules: Option<Vec<Option<WrittenRule>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenRule {
    condition: Option<String>,
    create_only: Option<bool>,
    delete_only: Option<bool>,
    sequence: Option<Vec<Option<String>>>,
}

impl Input {
    /// Read the input, or say what is wrong with it.
    pub(super) fn read(input: Option<&Struct>) -> Result<Self, String> {
        let Some(input) = input else { return Ok(Self::default()) };
        let json = input.json().map_err(|error| format!("cannot get Function input: {error}"))?;
        let written: Written = serde_path_to_error::deserialize(json)
            .map_err(|error| format!("cannot get Function input: {error}"))?;
        let rules = written.rules.unwrap_or_default().into_iter();
        Ok(Self {
            cache_ttl: read_ttl(written.cache_ttl.as_deref().unwrap_or_default())?,
            enable_deletion_sequencing: written.enable_deletion_sequencing.unwrap_or_default(),
            replay_deletion: written.replay_deletion.unwrap_or_default(),
            usage_version: usage_version(written.usage_version.as_deref()),
            reset_composite_readiness: written.reset_composite_readiness.unwrap_or_default(),
            release: Release::Latest,
            rules: rules.map(|rule| rule.unwrap_or_default().into()).collect(),
        })
    }
}

/// The input as v0.4.0 and v0.5.0 read it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenV0_4 {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    enable_deletion_sequencing: Option<bool>,
    replay_deletion: Option<bool>,
    usage_version: Option<String>,
    reset_composite_readiness: Option<bool>,
    rules: Option<Vec<Option<WrittenRuleV0_4>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRuleV0_4 {
    sequence: Option<Vec<Option<String>>>,
}

impl Input {
    /// Read what v0.4.0 and v0.5.0 know, for one of them.
    pub(super) fn read_v0_4(input: Option<&Struct>, release: Release) -> Result<Self, String> {
        let Some(input) = input else { return Ok(Self { release, ..Self::default() }) };
        let json = input.json().map_err(|error| format!("cannot get Function input: {error}"))?;
        let written: WrittenV0_4 = serde_path_to_error::deserialize(json)
            .map_err(|error| format!("cannot get Function input: {error}"))?;
        let rules = written.rules.unwrap_or_default().into_iter().map(|rule| {
            let sequence = rule.unwrap_or_default().sequence;
            WrittenRule { sequence, ..WrittenRule::default() }.into()
        });
        Ok(Self {
            enable_deletion_sequencing: written.enable_deletion_sequencing.unwrap_or_default(),
            replay_deletion: written.replay_deletion.unwrap_or_default(),
            usage_version: usage_version(written.usage_version.as_deref()),
            reset_composite_readiness: written.reset_composite_readiness.unwrap_or_default(),
            release,
            rules: rules.collect(),
            ..Self::default()
        })
    }
}

/// Anything but v1 is the newer one, as it is to the original.
fn usage_version(written: Option<&str>) -> UsageVersion {
    match written {
        Some("v1") => UsageVersion::V1,
        _ => UsageVersion::V2,
    }
}

/// The input as the first releases read it: they knew sequences, and ignored everything else.
#[derive(Deserialize)]
struct WrittenSequences {
    rules: Option<Vec<Option<WrittenSequence>>>,
}

#[derive(Default, Deserialize)]
struct WrittenSequence {
    sequence: Option<Vec<Option<String>>>,
}

impl Input {
    /// Read the sequences of the input and nothing else, for this release.
    pub(super) fn read_sequences(input: Option<&Struct>, release: Release) -> Result<Self, String> {
        let Some(input) = input else { return Ok(Self::default()) };
        let json = input.json().map_err(|error| format!("cannot get Function input: {error}"))?;
        let written: WrittenSequences = serde_path_to_error::deserialize(json)
            .map_err(|error| format!("cannot get Function input: {error}"))?;
        let rules = written.rules.unwrap_or_default().into_iter().map(|rule| {
            let sequence = rule.unwrap_or_default().sequence;
            WrittenRule { sequence, ..WrittenRule::default() }.into()
        });
        Ok(Self { rules: rules.collect(), release, ..Self::default() })
    }
}

impl From<WrittenRule> for Rule {
    fn from(written: WrittenRule) -> Self {
        let sequence = written.sequence.unwrap_or_default().into_iter();
        Self {
            condition: written.condition.unwrap_or_default(),
            create_only: written.create_only.unwrap_or_default(),
            delete_only: written.delete_only.unwrap_or_default(),
            sequence: sequence.map(Option::unwrap_or_default).collect(),
        }
    }
}

fn read_ttl(ttl: &str) -> Result<Option<prost_types::Duration>, String> {
    if ttl.is_empty() {
        return Ok(None);
    }
    ttl::parse(ttl).map(Some).map_err(|problem| format!("cannot set cacheTTL: {problem}"))
}
