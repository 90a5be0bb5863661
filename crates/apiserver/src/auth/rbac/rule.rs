//! One rule of a role, and what it allows.

use ferroplane_golang::strconv::quote;
use serde::{Deserialize, Serialize};

use super::Attributes;

/// Who holds the rule may use any of the verbs on any of the resources in any of the groups, or on any of the paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// Null is an empty list, as everywhere in the API.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl PolicyRule {
    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.path {
            Some(path) => self.non_resource_urls.iter().any(|pattern| covers_path(pattern, path)),
            None => {
                has(&self.api_groups, attributes.group)
                    && self.has_resource(attributes.resource, attributes.subresource)
                    && self.has_name(attributes.name)
            }
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|candidate| {
            if candidate == "*" {
                return true;
            }
            match candidate.split_once('/') {
                _ if subresource.is_empty() => candidate == resource,
                Some((parent, child)) => child == subresource && (parent == "*" || parent == resource),
                None => false,
            }
        })
    }

    fn has_name(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|candidate| candidate == name)
    }

    /// How a refusal shows the rule.
    pub(super) fn compact(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = fields.into_iter().filter(|(_, list)| !list.is_empty());
        let shown: Vec<_> = shown.map(|(name, list)| format!("{name}:{}", quote_list(list))).collect();
        format!("{{{}}}", shown.join(", "))
    }
}

/// Whether a list has the value, or everything.
pub(super) fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|candidate| candidate == "*" || candidate == value)
}

/// Whether a pattern, which may end in a star, stands for the path (or pattern).
pub(super) fn covers_path(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

/// A list as Go's `%q` writes it.
pub(crate) fn quote_list(list: &[String]) -> String {
    let quoted: Vec<_> = list.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    fn allows(resources: &[&str], names: &[&str], resource: &str, subresource: &str, name: &str) -> bool {
        let rule = PolicyRule {
            verbs: texts(&["get"]),
            api_groups: texts(&["apps"]),
            resources: texts(resources),
            resource_names: texts(names),
            ..PolicyRule::default()
        };
        let attributes =
            Attributes { verb: "get", group: "apps", resource, subresource, name, ..Attributes::default() };
        rule.allows(&attributes)
    }

    #[test]
    fn resources_and_their_subresources_are_told_apart() {
        assert!(allows(&["deployments"], &[], "deployments", "", "x"));
        assert!(!allows(&["deployments"], &[], "deployments", "scale", "x"));
        assert!(allows(&["deployments/scale"], &[], "deployments", "scale", "x"));
        assert!(allows(&["*/scale"], &[], "deployments", "scale", "x"));
        assert!(!allows(&["*/scale"], &[], "deployments", "status", "x"));
        assert!(!allows(&["*/scale"], &[], "deployments", "", "x"));
        assert!(!allows(&["deployments/*"], &[], "deployments", "scale", "x"));
        assert!(allows(&["*"], &[], "deployments", "scale", "x"));
    }

    #[test]
    fn names_limit_a_rule_and_a_request_without_a_name_has_none_of_them() {
        assert!(allows(&["*"], &["x"], "deployments", "", "x"));
        assert!(!allows(&["*"], &["x"], "deployments", "", "y"));
        assert!(!allows(&["*"], &["x"], "deployments", "", ""));
    }

    #[test]
    fn stars_end_paths_only() {
        assert!(covers_path("*", "/metrics"));
        assert!(covers_path("/healthz/*", "/healthz/ping"));
        assert!(!covers_path("/healthz/*", "/healthz"));
        assert!(!covers_path("/*/ping", "/healthz/ping"));
        assert!(covers_path("/apis**", "/apis/apps"));
    }

    #[test]
    fn group_or_verb_of_another_kind_does_not_count() {
        let rule: PolicyRule = serde_json::from_value(serde_json::json!({
            "verbs": ["get"], "nonResourceURLs": ["/metrics"], "resources": null,
        }))
        .unwrap();
        let path = Attributes { verb: "get", path: Some("/metrics"), ..Attributes::default() };
        assert!(rule.allows(&path));
        assert!(!rule.allows(&Attributes { verb: "post", ..path }));
        assert!(!rule.allows(&Attributes { path: None, resource: "pods", ..path }));
    }
}
