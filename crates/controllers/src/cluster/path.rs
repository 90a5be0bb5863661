//! What objects are called in the paths of an API server.

use std::collections::BTreeMap;

use ferroplane_api::{Object, meta};
use form_urlencoded::Serializer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Part, Place};

/// What a name must not bring into a path: functions and users choose names.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b':').remove(b'_');

/// A kind of object, as the API server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub is_namespaced: bool,
}

/// Labels that objects must have. Nothing selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Selector {
    pub(crate) equal: BTreeMap<String, String>,
    /// A label that must be there, whatever it says.
    pub(crate) exists: Option<&'static str>,
}

impl Selector {
    /// As queries have it.
    fn text(&self) -> String {
        let equal = self.equal.iter().map(|(key, value)| format!("{key}={value}"));
        equal.chain(self.exists.map(str::to_owned)).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.equal.is_empty() && self.exists.is_none()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Selector {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(labels: T) -> Self {
        let equal = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { equal, exists: None }
    }
}

/// What a request says besides its path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Query<'a> {
    pub(crate) labels: Option<&'a Selector>,
    pub(crate) fields: Option<&'a str>,
    pub(crate) limit: Option<u32>,
    pub(crate) continuation: Option<&'a str>,
    pub(crate) resource_version: Option<&'a str>,
    pub(crate) is_watch: bool,
    /// Only metadata is wanted.
    pub(crate) heads_only: bool,
    pub(crate) manager: Option<&'a str>,
    pub(crate) force: bool,
}

impl Query<'_> {
    /// The media type to ask for.
    pub(super) fn accept(&self) -> &'static str {
        if self.heads_only {
            return "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        }
        super::JSON
    }

    fn text(&self) -> String {
        let mut query = Serializer::new(String::new());
        if let Some(labels) = self.labels.filter(|labels| !labels.is_everything()) {
            query.append_pair("labelSelector", &labels.text());
        }
        let limit = self.limit.map(|limit| limit.to_string());
        let watch = self.is_watch.then_some("true");
        let pairs = [
            ("fieldSelector", self.fields),
            ("limit", limit.as_deref()),
            ("continue", self.continuation),
            ("resourceVersion", self.resource_version),
            ("watch", watch),
            ("allowWatchBookmarks", watch),
            ("fieldManager", self.manager),
            ("force", self.force.then_some("true")),
        ];
        for (key, value) in pairs {
            if let Some(value) = value {
                query.append_pair(key, value);
            }
        }
        query.finish()
    }
}

impl Resource {
    /// The group of the kind; the core group has no name.
    pub fn group(&self) -> &str {
        meta::group(&self.api_version)
    }

    /// Items of lists do not say what they are.
    pub(crate) fn name_kind(&self, object: &mut Object) {
        for (key, value) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
            object.entry(key).or_insert_with(|| value.as_str().into());
        }
    }

    pub(super) fn uri(&self, namespace: &str, query: &Query<'_>) -> String {
        with_query(self.path(namespace), query)
    }

    /// The path of all objects of the kind, in one namespace or, if that is empty, in all.
    fn path(&self, namespace: &str) -> String {
        let root = if self.group().is_empty() { "/api" } else { "/apis" };
        let (api_version, plural) = (&self.api_version, &self.plural);
        if self.is_namespaced && !namespace.is_empty() {
            let namespace = utf8_percent_encode(namespace, UNSAFE);
            return format!("{root}/{api_version}/namespaces/{namespace}/{plural}");
        }
        format!("{root}/{api_version}/{plural}")
    }
}

impl Place<'_> {
    pub(super) fn uri(&self, part: Part, query: &Query<'_>) -> String {
        let part = match part {
            Part::Whole => "",
            Part::Status => "/status",
        };
        let name = utf8_percent_encode(self.name, UNSAFE);
        with_query(format!("{}/{name}{part}", self.resource.path(self.namespace)), query)
    }
}

fn with_query(path: String, query: &Query<'_>) -> String {
    let query = query.text();
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let resource = |api_version: &str, plural: &str, is_namespaced| Resource {
            api_version: api_version.to_owned(),
            kind: "K".to_owned(),
            plural: plural.to_owned(),
            is_namespaced,
        };
        let (pods, roles) = (resource("v1", "pods", true), resource("rbac/v1", "roles", false));
        assert_eq!(pods.path(""), "/api/v1/pods");
        assert_eq!(pods.path("a"), "/api/v1/namespaces/a/pods");
        assert_eq!(roles.path("a"), "/apis/rbac/v1/roles");
        let hostile = Place { resource: &pods, namespace: "a?", name: "../b" };
        assert_eq!(hostile.uri(Part::Whole, &Query::default()), "/api/v1/namespaces/a%3F/pods/..%2Fb");
        let place = Place { resource: &pods, namespace: "a", name: "b" };
        let query = Query { manager: Some("a/b"), force: true, ..Query::default() };
        assert_eq!(
            place.uri(Part::Status, &query),
            "/api/v1/namespaces/a/pods/b/status?fieldManager=a%2Fb&force=true"
        );
    }
}
