//! Which requests a webhook wants to be asked about.

use serde_json::Value;

use super::admission_request::RequestTarget;

/// One rule: all of its parts must fit.
#[derive(Debug)]
pub(super) struct WebhookRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
}

impl WebhookRule {
    pub(super) fn read(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                _ => Scope::All,
            },
        }
    }

    /// Whether the rule is about a request, asked of this version of the resource.
    pub(super) fn matches(&self, request: &RequestTarget<'_>, version: &str) -> bool {
        self.is_in_scope(request)
            && has(&self.operations, request.operation.name())
            && has(&self.groups, &request.resource.group)
            && has(&self.versions, version)
            && self.resources.iter().any(|pattern| is_of(pattern, request))
    }

    fn is_in_scope(&self, request: &RequestTarget<'_>) -> bool {
        // A namespace is in itself, and yet in none.
        let is_namespaced = request.resource.is_namespaced;
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => is_namespaced,
            Scope::Cluster => !is_namespaced,
        }
    }
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn has(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern == "*" || pattern == text)
}

/// Whether a resource, or a part of one, is meant: `pods`, `pods/status`, `pods/*`, `*/scale`, `*`, `*/*`.
fn is_of(pattern: &str, request: &RequestTarget<'_>) -> bool {
    let (plural, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    (plural == "*" || plural == request.resource.names.plural) && (part == "*" || part == request.subresource)
}
