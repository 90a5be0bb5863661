//! Which requests a webhook wants to be asked about.

use serde_json::Value;

use super::question::Question;

/// One rule: all of its parts must fit.
#[derive(Debug)]
pub(super) struct Rule {
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

impl Rule {
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

    /// Whether the rule is about a question, asked of this version of the resource.
    pub(super) fn matches(&self, question: &Question<'_>, version: &str) -> bool {
        self.is_in_scope(question)
            && has(&self.operations, question.operation.name())
            && has(&self.groups, &question.resource.group)
            && has(&self.versions, version)
            && self.resources.iter().any(|pattern| is_of(pattern, question))
    }

    fn is_in_scope(&self, question: &Question<'_>) -> bool {
        // A namespace is in itself, and yet in none.
        let is_namespaced = question.resource.is_namespaced;
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
fn is_of(pattern: &str, question: &Question<'_>) -> bool {
    let (plural, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    (plural == "*" || plural == question.resource.names.plural)
        && (part == "*" || part == question.subresource)
}
