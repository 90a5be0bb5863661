//! A question of an audit, and whether a rule of a role allows it.

use std::collections::BTreeSet;

use ferroplane_api::keys;
use serde::Serialize;
use serde_json::Value;

use super::reach::Reach;

/// A verb of our own: who can keep objects from being deleted?
pub const BLOCK_DELETE: &str = "block-delete";

/// Who can do this?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// One object. Without it, objects of any name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One namespace. Without it, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub is_namespaced: bool,
    /// A path that is not a resource, such as `/metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Question {
    /// About objects of any name, anywhere.
    pub fn about(verb: &str, group: &str, resource: &str, is_namespaced: bool) -> Self {
        let [verb, group, resource] = [verb, group, resource].map(str::to_owned);
        Self { verb, group, resource, is_namespaced, ..Self::default() }
    }

    pub(super) fn of_subresource(mut self, subresource: &str) -> Self {
        subresource.clone_into(&mut self.subresource);
        self
    }

    /// The widest right to it that there can be.
    pub(super) fn widest(&self) -> Reach {
        if self.is_namespaced { Reach::Namespaces } else { Reach::Cluster }
    }

    /// What is asked for of a right that holds there.
    pub(super) fn asked_at(&self, reach: &Reach) -> Option<Reach> {
        match self.namespace.as_deref().filter(|_| self.is_namespaced) {
            Some(namespace) => Reach::namespace(namespace).confine(reach),
            None => Some(reach.clone()),
        }
    }

    pub(super) fn resource_words(&self) -> String {
        if let Some(path) = &self.path {
            return path.clone();
        }
        let subresource =
            if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        format!("{}{group}{subresource}", self.resource)
    }
}

/// Which objects a right is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Names {
    All,
    Some(BTreeSet<String>),
}

impl Names {
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.contains(name),
        }
    }

    /// Those that are in both. None if there are none.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::All, names) | (names, Self::All) => Some(names.clone()),
            (Self::Some(one), Self::Some(other)) => {
                let both: BTreeSet<_> = one.intersection(other).cloned().collect();
                (!both.is_empty()).then_some(Self::Some(both))
            }
        }
    }
}

/// One rule of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
}

impl Rule {
    pub(super) fn read(value: &Value) -> Self {
        let list = |field: &str| -> Vec<String> {
            let texts = value.get(field).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            paths: list("nonResourceURLs"),
        }
    }

    /// Which objects it allows it for. None if it does not. `is_custom` says whether the group is one of custom resources, where
    /// rules can speak of these.
    pub(super) fn allows(&self, question: &Question, is_custom: bool) -> Option<Names> {
        if !has(&self.verbs, &question.verb) {
            return None;
        }
        if let Some(path) = &question.path {
            return self.paths.iter().any(|pattern| covers_path(pattern, path)).then_some(Names::All);
        }
        let is_group = has(&self.groups, &question.group)
            || is_custom && self.groups.iter().any(|group| group == keys::CUSTOM_RESOURCES);
        if !is_group || !self.has_resource(&question.resource, &question.subresource) {
            return None;
        }
        match &question.name {
            _ if self.names.is_empty() => Some(Names::All),
            Some(name) => self.names.contains(name).then_some(Names::All),
            None => Some(Names::Some(self.names.iter().cloned().collect())),
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
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|candidate| candidate == "*" || candidate == value)
}

fn covers_path(pattern: &str, path: &str) -> bool {
    // As Kubernetes' RBAC does it: all stars at the end are dropped, and a star elsewhere is a letter.
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}
