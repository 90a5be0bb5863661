//! One rule of a policy.

use serde::Deserialize;

use super::{Attributes, Decision};
use crate::request::ResourcePath;

#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) decision: Decision,
    /// An empty list does not restrict, here and below.
    pub(super) users: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) resources: Vec<GroupResources>,
    /// An empty name stands for what has no namespace.
    pub(super) namespaces: Vec<String>,
    pub(super) urls: Vec<String>,
}

/// Resources of one group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct GroupResources {
    pub(super) group: String,
    /// `pods`, `pods/log`, `pods/*`, `*/scale` or `*`. None stands for all.
    pub(super) resources: Vec<String>,
    pub(super) resource_names: Vec<String>,
}

impl Rule {
    pub(super) fn matches(&self, request: &Attributes<'_>) -> bool {
        self.matches_user(request) && has(&self.verbs, request.verb) && self.matches_subject(request)
    }

    fn matches_user(&self, request: &Attributes<'_>) -> bool {
        let Some(user) = request.user else { return self.users.is_empty() && self.groups.is_empty() };
        let is_member = || user.groups.iter().any(|group| self.groups.contains(group));
        has(&self.users, &user.name) && (self.groups.is_empty() || is_member())
    }

    /// A rule that names neither resources nor paths is about everything.
    fn matches_subject(&self, request: &Attributes<'_>) -> bool {
        if !self.resources.is_empty() || !self.namespaces.is_empty() {
            return request.resource.is_some_and(|path| self.matches_resource(path));
        }
        if !self.urls.is_empty() {
            return request.resource.is_none() && self.urls.iter().any(|url| matches_url(url, request.path));
        }
        true
    }

    fn matches_resource(&self, path: &ResourcePath) -> bool {
        let is_named = || self.resources.iter().any(|resources| resources.include(path));
        has(&self.namespaces, path.request_namespace()) && (self.resources.is_empty() || is_named())
    }
}

impl GroupResources {
    fn include(&self, path: &ResourcePath) -> bool {
        if self.group != "*" && self.group != path.group {
            return false;
        }
        self.resources.is_empty()
            || has(&self.resource_names, &path.name)
                && self.resources.iter().any(|pattern| matches_resource(pattern, path))
    }
}

fn has(list: &[String], text: &str) -> bool {
    list.is_empty() || list.iter().any(|item| item == text)
}

/// `*` stands for everything, before a slash for all resources. Behind it, it stands for the resource and all its subresources:
/// upstream's documentation mentions subresources only, but its code does otherwise.
fn matches_resource(pattern: &str, path: &ResourcePath) -> bool {
    match pattern.split_once('/') {
        None => pattern == "*" || pattern == path.resource && path.subresource.is_empty(),
        Some(("*", subresource)) => !path.subresource.is_empty() && subresource == path.subresource,
        Some((resource, "*")) => resource == path.resource,
        Some((resource, subresource)) => resource == path.resource && subresource == path.subresource,
    }
}

fn matches_url(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}
