//! Which kinds are simulated.

use ferroplane_api::meta;
use ferroplane_client::Resource;

/// Which kinds are simulated, as patterns: `*`, `deployments.apps`, `services`, `*.example.org`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// The plural or the kind, in lower case. None for all of the group.
    name: Option<String>,
    /// None for all groups.
    group: Option<String>,
}

impl Selection {
    /// What `--simulate` was given.
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self { patterns: patterns.iter().map(|text| Pattern::parse(text)).collect() }
    }

    /// The same, and all kinds of a group.
    #[must_use]
    pub(crate) fn with_group(mut self, group: &str) -> Self {
        self.patterns.push(Pattern { name: None, group: Some(group.to_owned()) });
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether it includes all kinds of a group.
    pub(crate) fn includes_group(&self, group: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.name.is_none() && pattern.is_of(group))
    }

    pub(super) fn includes(&self, resource: &Resource) -> bool {
        self.patterns.iter().any(|pattern| pattern.includes(resource))
    }
}

impl Pattern {
    fn parse(text: &str) -> Self {
        let text = text.trim().to_lowercase();
        if text == "*" {
            return Self { name: None, group: None };
        }
        // As kubectl has it: no group is the core group.
        let (name, group) = text.split_once('.').unwrap_or((&text, ""));
        Self { name: Some(name.to_owned()).filter(|name| name != "*"), group: Some(group.to_owned()) }
    }

    fn is_of(&self, group: &str) -> bool {
        self.group.as_deref().is_none_or(|wanted| wanted == group)
    }

    fn includes(&self, resource: &Resource) -> bool {
        let is_named = |name: &String| *name == resource.plural || *name == resource.kind.to_lowercase();
        self.is_of(meta::group(&resource.api_version)) && self.name.as_ref().is_none_or(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(patterns: &[&str], api_version: &str, kind: &str, plural: &str) -> bool {
        let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
        Selection::new(&patterns).includes(&Resource {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            is_namespaced: true,
        })
    }

    #[test]
    fn kinds_are_selected_as_kubectl_names_them() {
        for patterns in
            [&["*"][..], &["deployments.apps"], &["Deployment.apps"], &["*.apps"], &["pods", "*.apps"]]
        {
            assert!(includes(patterns, "apps/v1", "Deployment", "deployments"), "{patterns:?}");
        }
        for patterns in [&[][..], &["deployments"], &["*.example.org"], &["statefulsets.apps"]] {
            assert!(!includes(patterns, "apps/v1", "Deployment", "deployments"), "{patterns:?}");
        }
        assert!(includes(&["services"], "v1", "Service", "services"));
    }
}
