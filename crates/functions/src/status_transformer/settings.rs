//! What a step says to `function-status-transformer`. A field that is not there is a mistake.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::input::{object, objects};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StatusTransformation<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) status_condition_hooks: Option<Vec<Hook<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hook<'a> {
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) matchers: Option<Vec<Matcher<'a>>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) set_conditions: Option<Vec<SetCondition<'a>>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) create_events: Option<Vec<CreateEvent<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Matcher<'a> {
    #[serde(rename = "name")]
    _name: Option<&'a str>,
    #[serde(rename = "type")]
    pub(super) kind: Option<&'a str>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) resources: Option<Vec<ResourceMatcher<'a>>>,
    #[serde(borrow, deserialize_with = "objects")]
    pub(super) conditions: Option<Vec<ConditionMatcher<'a>>>,
    pub(super) include_composite_as_resource: Option<bool>,
    pub(super) include_extra_resources: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResourceMatcher<'a> {
    pub(super) name: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ConditionMatcher<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<&'a str>,
    pub(super) status: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) message: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SetCondition<'a> {
    pub(super) target: Option<&'a str>,
    pub(super) force: Option<bool>,
    #[serde(borrow, deserialize_with = "object")]
    pub(super) condition: Option<WantedCondition<'a>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WantedCondition<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<&'a str>,
    pub(super) status: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) message: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateEvent<'a> {
    pub(super) target: Option<&'a str>,
    #[serde(borrow, deserialize_with = "object")]
    pub(super) event: Option<WantedEvent<'a>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WantedEvent<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) message: Option<&'a str>,
}

impl Hook<'_> {
    pub(super) fn has_matchers(&self) -> bool {
        self.matchers.as_ref().is_some_and(|matchers| !matchers.is_empty())
    }
}

impl<'a> SetCondition<'a> {
    /// The type of the condition to set.
    pub(super) fn kind(&self) -> &'a str {
        self.condition.and_then(|condition| condition.kind).unwrap_or_default()
    }
}
