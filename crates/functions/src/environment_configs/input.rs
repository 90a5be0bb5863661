//! What a step says to `function-environment-configs`.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::input::{object, objects};
use crate::selection::{Choice, LabelMatcher, Policy, Reference};

/// Which `EnvironmentConfig`s make up the environment.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Specification<'a> {
    pub(super) default_data: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) environment_configs: Option<Vec<Source<'a>>>,
    #[serde(borrow, deserialize_with = "object")]
    policy: Option<Policy<'a>>,
}

/// One or several `EnvironmentConfig`s, and where in the environment their data goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Source<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    #[serde(borrow, rename = "ref", deserialize_with = "object")]
    reference: Option<Reference<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    selector: Option<Selector<'a>>,
    to_field_path: Option<&'a str>,
}

/// `EnvironmentConfig`s by their labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Selector<'a> {
    mode: Option<&'a str>,
    pub(super) max_match: Option<u64>,
    pub(super) min_match: Option<u64>,
    pub(super) sort_by_field_path: Option<&'a str>,
    #[serde(borrow, deserialize_with = "objects")]
    match_labels: Option<Vec<LabelMatcher<'a>>>,
}

impl Specification<'_> {
    /// Whether an `EnvironmentConfig` that is named may be absent.
    pub(super) fn is_optional(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::is_optional)
    }
}

impl Specification<'_> {
    /// Before v0.7.0, nothing could say where in the environment data goes.
    pub(super) fn refuse_targets(&self) -> Result<(), String> {
        let sources = self.environment_configs.as_deref().unwrap_or_default();
        match sources.iter().position(|source| source.to_field_path.is_some()) {
            Some(index) => Err(format!(
                "cannot get Function input: spec.environmentConfigs[{index}]: unknown field `toFieldPath`, which came with \
                 v0.7.0"
            )),
            None => Ok(()),
        }
    }
}

impl<'a> Source<'a> {
    pub(super) fn choice(&self) -> Result<Choice<'_, Selector<'a>>, &'static str> {
        Choice::of(self.kind, self.reference.as_ref(), self.selector.as_ref())
    }

    /// Where in the environment the data goes. Nothing means all over it.
    pub(super) fn target(&self) -> Option<&'a str> {
        self.to_field_path.filter(|path| !path.is_empty())
    }
}

impl<'a> Selector<'a> {
    pub(super) fn mode(&self) -> &'a str {
        self.mode.filter(|mode| !mode.is_empty()).unwrap_or("Single")
    }

    pub(super) fn matchers(&self) -> &[LabelMatcher<'a>] {
        self.match_labels.as_deref().unwrap_or_default()
    }
}
