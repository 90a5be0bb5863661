//! Roles and bindings as the policy reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use ferroplane_golang::strconv::quote;
use ferroplane_schema::selector::LabelSelector;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::rule_index::RuleIndex;
use super::{Attributes, GROUP, PolicyRule};
use crate::auth::identity::{Identity, split_service_account};

/// So many rules are checked one by one.
const FEW: usize = 8;

/// The four kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RbacKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl RbacKind {
    /// The kind of a resource of our group, by its plural name.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        let kind = match resource {
            "roles" => Self::Role,
            "clusterroles" => Self::ClusterRole,
            "rolebindings" => Self::RoleBinding,
            "clusterrolebindings" => Self::ClusterRoleBinding,
            _ => return None,
        };
        // A CRD may define `roles` in a group of its own.
        (group == GROUP).then_some(kind)
    }

    /// The plural name.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) labels: Option<BTreeMap<String, String>>,
}

impl Metadata {
    pub(super) fn of(object: &Map<String, Value>) -> serde_json::Result<Self> {
        object.get("metadata").map_or(Ok(Self::default()), Self::deserialize)
    }
}

/// A role, of a namespace or of the cluster.
#[derive(Debug, Default)]
pub(super) struct Role {
    pub(super) rules: Arc<[PolicyRule]>,
    /// Only of roles with many rules, once it is needed.
    index: OnceLock<RuleIndex>,
    labels: BTreeMap<String, String>,
    /// If there are any, the rules are those of the roles they select.
    pub(super) selectors: Vec<LabelSelector>,
}

impl Role {
    pub(super) fn read(object: &Map<String, Value>, metadata: Metadata) -> serde_json::Result<Self> {
        // Null, too: Go writes a list that was never set so.
        let rules = object.get("rules").map_or(Ok(None), Option::<Vec<PolicyRule>>::deserialize)?;
        Ok(Self {
            rules: rules.unwrap_or_default().into(),
            index: OnceLock::new(),
            labels: metadata.labels.unwrap_or_default(),
            selectors: read_selectors(object),
        })
    }

    /// Whether one of its own rules allows what is asked for.
    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        // Most roles have a handful of rules, for which an index costs more than it spares.
        if self.rules.len() <= FEW {
            return self.rules.iter().any(|rule| rule.allows(attributes));
        }
        // Not when the role is read: many are written, aggregated and never asked by themselves.
        let index = self.index.get_or_init(|| {
            let mut index = RuleIndex::default();
            index.insert("", &self.rules);
            index
        });
        index.allows(attributes)
    }

    pub(super) fn is_aggregated(&self) -> bool {
        !self.selectors.is_empty()
    }

    /// By what an aggregated role is selected, and what it selects. None if it aggregates nothing.
    pub(super) fn selection(&self) -> Option<(&BTreeMap<String, String>, &[LabelSelector])> {
        self.is_aggregated().then_some((&self.labels, &self.selectors))
    }

    pub(super) fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        selector.matches(|key| self.labels.get(key).map(String::as_str))
    }
}

/// A selector that cannot be read selects nothing: to give less is the safe mistake.
fn read_selectors(object: &Map<String, Value>) -> Vec<LabelSelector> {
    let selectors = object.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    let selectors = selectors.and_then(Value::as_array).into_iter().flatten();
    selectors
        .map(|selector| LabelSelector::from_object(selector).unwrap_or_else(|_| LabelSelector::nothing()))
        .collect()
}

/// Who gets a role.
#[derive(Debug)]
pub(super) struct Binding {
    name: String,
    /// Empty for the whole cluster.
    pub(super) namespace: String,
    pub(super) role: RoleReference,
    pub(super) subjects: Vec<Subject>,
}

#[derive(Debug, Clone, Deserialize, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RoleReference {
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl RoleReference {
    pub(super) fn of(binding: &Map<String, Value>) -> serde_json::Result<Self> {
        binding.get("roleRef").map_or(Ok(Self::default()), Self::deserialize)
    }
}

#[derive(Debug, Clone, Deserialize, Default, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Subject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

impl Binding {
    pub(super) fn read(object: &Map<String, Value>, metadata: Metadata) -> serde_json::Result<Self> {
        let subjects = object.get("subjects").map_or(Ok(None), Option::<Vec<Subject>>::deserialize)?;
        let mut subjects = subjects.unwrap_or_default();
        for subject in &mut subjects {
            // A service account is of the namespace of its binding unless it says otherwise.
            if subject.kind == "ServiceAccount" && subject.namespace.is_empty() {
                subject.namespace.clone_from(&metadata.namespace);
            }
        }
        let role = RoleReference::of(object)?;
        Ok(Self { name: metadata.name, namespace: metadata.namespace, role, subjects })
    }

    /// Which of the subjects is meant first.
    pub(super) fn position_of(&self, identity: &Identity) -> usize {
        self.subjects.iter().position(|subject| subject.is(identity)).unwrap_or_default()
    }
}

impl Subject {
    fn is(&self, identity: &Identity) -> bool {
        match self.kind.as_str() {
            "User" => self.name == identity.name,
            "Group" => identity.is_in(&self.name),
            "ServiceAccount" => {
                split_service_account(&identity.name) == Some((self.namespace.as_str(), self.name.as_str()))
            }
            _ => false,
        }
    }
}

/// For example `RoleBinding "readers/default" of Role "reader" to User "bob"`.
pub(super) fn describe(binding: &Binding, position: usize, output: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Binding { name, namespace, role, subjects } = binding;
    let (kind, name) = match namespace.as_str() {
        "" => ("ClusterRoleBinding", quote(name)),
        // The name before the namespace, as in the reasons of kube-apiserver.
        namespace => ("RoleBinding", quote(&format!("{name}/{namespace}"))),
    };
    write!(output, "{kind} {name} of {} {}", role.kind, quote(&role.name))?;
    let Some(subject) = subjects.get(position) else { return Ok(()) };
    let name = match subject.kind.as_str() {
        "ServiceAccount" => quote(&format!("{}/{}", subject.name, subject.namespace)),
        _ => quote(&subject.name),
    };
    write!(output, " to {} {name}", subject.kind)
}
