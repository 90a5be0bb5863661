//! What a step says to `function-extra-resources`.

use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use serde::Deserialize;

use crate::input::{object, objects};
use crate::selection::{Choice, LabelMatcher, Policy, Reference};

/// Which objects to put into the context.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Specification<'a> {
    #[serde(borrow, deserialize_with = "objects")]
    extra_resources: Option<Vec<Source<'a>>>,
    #[serde(borrow, deserialize_with = "object")]
    policy: Option<Policy<'a>>,
}

/// One or several objects of one kind, and the name of the list they go to.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Source<'a> {
    #[serde(rename = "type")]
    means: Option<&'a str>,
    #[serde(borrow, rename = "ref", deserialize_with = "object")]
    reference: Option<Reference<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    selector: Option<Selector<'a>>,
    kind: Option<&'a str>,
    api_version: Option<&'a str>,
    namespace: Option<&'a str>,
    into: Option<&'a str>,
}

/// Objects by their labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Selector<'a> {
    pub(super) max_match: Option<u64>,
    pub(super) min_match: Option<u64>,
    pub(super) sort_by_field_path: Option<&'a str>,
    #[serde(borrow, deserialize_with = "objects")]
    match_labels: Option<Vec<LabelMatcher<'a>>>,
}

impl<'a> Specification<'a> {
    pub(super) fn sources(&self) -> &[Source<'a>] {
        self.extra_resources.as_deref().unwrap_or_default()
    }

    /// Whether an object that is named may be absent.
    pub(super) fn is_optional(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::is_optional)
    }
}

impl<'a> Source<'a> {
    pub(super) fn choice(&self) -> Result<Choice<'_, Selector<'a>>, &'static str> {
        Choice::of(self.means, self.reference.as_ref(), self.selector.as_ref())
    }

    /// The name of the list its objects go to.
    pub(super) fn list(&self) -> &'a str {
        self.into.unwrap_or_default()
    }

    /// What to ask for, to get what matches.
    pub(super) fn to_requirement(&self, r#match: Match) -> ResourceSelector {
        ResourceSelector {
            api_version: self.api_version.unwrap_or_default().to_owned(),
            kind: self.kind.unwrap_or_default().to_owned(),
            namespace: self.namespace.map(str::to_owned),
            r#match: Some(r#match),
        }
    }
}

impl<'a> Selector<'a> {
    pub(super) fn matchers(&self) -> &[LabelMatcher<'a>] {
        self.match_labels.as_deref().unwrap_or_default()
    }
}
