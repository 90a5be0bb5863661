//! The paths and queries of an API server.

use std::collections::BTreeMap;

use form_urlencoded::Serializer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::api_client::{JSON, JsonObject};
use crate::{ApplyOptions, Error};

/// What is encoded in a path: functions and users choose names.
// The colon stays, because names of roles have it and API servers log paths as they come.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b':').remove(b'_');

/// A kind of object, as the API server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub is_namespaced: bool,
}

/// One object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectPath<'a> {
    pub resource: &'a Resource,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Which part of an object a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself.
    None,
    Status,
    Scale,
}

impl Subresource {
    /// Empty for the object itself.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }
}

/// Labels that objects must have. An empty selector selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelSelector {
    pub equal: BTreeMap<String, String>,
    /// A label that must be there, whatever its value.
    pub exists: Option<&'static str>,
}

impl LabelSelector {
    /// As queries have it.
    fn text(&self) -> String {
        let equal = self.equal.iter().map(|(key, value)| format!("{key}={value}"));
        equal.chain(self.exists.map(str::to_owned)).collect::<Vec<_>>().join(",")
    }

    pub fn is_everything(&self) -> bool {
        self.equal.is_empty() && self.exists.is_none()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for LabelSelector {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(labels: T) -> Self {
        let equal = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { equal, exists: None }
    }
}

/// Which objects are listed or watched.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    pub labels: Option<&'a LabelSelector>,
    /// A field selector, such as `metadata.name=a`.
    pub fields: Option<&'a str>,
    /// How many objects a page of a list has at most.
    pub limit: Option<u32>,
    /// Where the next page of a list begins.
    pub continuation: Option<&'a str>,
    pub resource_version: Option<&'a str>,
    /// Only metadata is wanted.
    pub metadata_only: bool,
}

/// What comes after the path of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parameters<'a> {
    None,
    List(&'a Query<'a>),
    Watch(&'a Query<'a>),
    Write { options: ApplyOptions<'a>, is_dry_run: bool },
}

impl Query<'_> {
    /// The media type to ask for.
    pub(crate) fn accept(&self) -> &'static str {
        if self.metadata_only {
            return "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        }
        JSON
    }

    fn write(&self, query: &mut Serializer<'_, String>) {
        if let Some(labels) = self.labels.filter(|labels| !labels.is_everything()) {
            query.append_pair("labelSelector", &labels.text());
        }
        let limit = self.limit.map(|limit| limit.to_string());
        let pairs = [
            ("fieldSelector", self.fields),
            ("limit", limit.as_deref()),
            ("continue", self.continuation),
            ("resourceVersion", self.resource_version),
        ];
        query.extend_pairs(pairs.into_iter().filter_map(|(key, value)| Some((key, value?))));
    }
}

impl Parameters<'_> {
    fn text(&self) -> String {
        let mut query = Serializer::new(String::new());
        match self {
            Self::None => {}
            Self::List(list) => list.write(&mut query),
            Self::Watch(watch) => {
                watch.write(&mut query);
                query.append_pair("watch", "true").append_pair("allowWatchBookmarks", "true");
            }
            Self::Write { options, is_dry_run } => {
                query.append_pair("fieldManager", options.field_manager);
                if options.is_forced {
                    query.append_pair("force", "true");
                }
                if options.is_strict {
                    query.append_pair("fieldValidation", "Strict");
                }
                if *is_dry_run {
                    query.append_pair("dryRun", "All");
                }
            }
        }
        query.finish()
    }
}

impl Resource {
    /// The API group; the core group has no name.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version in the group.
    pub fn version(&self) -> &str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// Items of lists do not say what they are: add it.
    pub fn add_kind(&self, object: &mut JsonObject) {
        for (key, value) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
            // Items of `List` kinds that do say what they are keep it.
            object.entry(key).or_insert_with(|| value.as_str().into());
        }
    }

    pub(crate) fn uri(&self, namespace: &str, parameters: Parameters<'_>) -> Result<String, Error> {
        Ok(with_parameters(self.path(namespace)?, parameters))
    }

    /// The path of all objects of the kind, in one namespace or, if that is empty, in all.
    fn path(&self, namespace: &str) -> Result<String, Error> {
        let root = group_version_path(&self.api_version);
        let plural = &self.plural;
        if self.is_namespaced && !namespace.is_empty() {
            check_segment(namespace).map_err(|problem| {
                let kind = &self.kind;
                Error::InvalidPath(format!("cannot address {kind} in namespace `{namespace}`: {problem}"))
            })?;
            let namespace = utf8_percent_encode(namespace, UNSAFE);
            return Ok(format!("{root}/namespaces/{namespace}/{plural}"));
        }
        Ok(format!("{root}/{plural}"))
    }
}

impl ObjectPath<'_> {
    pub(crate) fn uri(&self, subresource: Subresource, parameters: Parameters<'_>) -> Result<String, Error> {
        let (kind, name) = (&self.resource.kind, self.name);
        // Without a name the path is that of the collection: a `GET` would answer a list instead of an object, and a
        // `DELETE` would delete everything. Names come from functions and users.
        if name.is_empty() {
            return Err(Error::InvalidPath(format!("cannot address a {kind} without a name")));
        }
        check_segment(name)
            .map_err(|problem| Error::InvalidPath(format!("cannot address {kind} `{name}`: {problem}")))?;
        let name = utf8_percent_encode(name, UNSAFE);
        let mut path = format!("{}/{name}", self.resource.path(self.namespace)?);
        if subresource != Subresource::None {
            path = format!("{path}/{}", subresource.as_str());
        }
        Ok(with_parameters(path, parameters))
    }
}

/// What client-go refuses before it sends a request (`IsPathSegmentName`): servers and proxies resolve dots and slashes,
/// some of them after they have decoded escapes.
fn check_segment(name: &str) -> Result<(), SegmentError> {
    if matches!(name, "." | "..") {
        return Err(SegmentError::Relative(name.to_owned()));
    }
    let found = name.chars().find(|letter| matches!(letter, '/' | '%'));
    found.map_or(Ok(()), |letter| Err(SegmentError::Contains(letter)))
}

/// Why a name cannot stand in a path.
#[derive(Debug, thiserror::Error)]
enum SegmentError {
    #[error("a name may not be `{0}`")]
    Relative(String),
    #[error("a name may not contain `{0}`")]
    Contains(char),
}

/// The path of a version of an API group.
pub(crate) fn group_version_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    format!("{root}/{api_version}")
}

fn with_parameters(path: String, parameters: Parameters<'_>) -> String {
    let query = parameters.text();
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
        assert_eq!(pods.path("").unwrap(), "/api/v1/pods");
        assert_eq!(pods.path("a").unwrap(), "/api/v1/namespaces/a/pods");
        assert_eq!(roles.path("a").unwrap(), "/apis/rbac/v1/roles");
        let hostile = ObjectPath { resource: &pods, namespace: "a?", name: "..b#c" };
        assert_eq!(
            hostile.uri(Subresource::None, Parameters::None).unwrap(),
            "/api/v1/namespaces/a%3F/pods/..b%23c"
        );
        let object = ObjectPath { resource: &pods, namespace: "a", name: "b" };
        let options = ApplyOptions { field_manager: "a/b", is_forced: true, is_strict: false };
        for (is_dry_run, end) in [(false, ""), (true, "&dryRun=All")] {
            assert_eq!(
                object.uri(Subresource::Status, Parameters::Write { options, is_dry_run }).unwrap(),
                format!("/api/v1/namespaces/a/pods/b/status?fieldManager=a%2Fb&force=true{end}")
            );
        }
        let query =
            Query { fields: Some("metadata.name=b"), resource_version: Some("7"), ..Query::default() };
        assert_eq!(
            pods.uri("a", Parameters::Watch(&query)).unwrap(),
            "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db&resourceVersion=7&watch=true&allowWatchBookmarks=true"
        );
    }

    #[test]
    fn name_that_would_be_another_path_is_refused() {
        let pods = Resource {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
            is_namespaced: true,
        };
        for (namespace, name, refusal) in [
            ("a", "", "cannot address a Pod without a name"),
            ("a", ".", "cannot address Pod `.`: a name may not be `.`"),
            ("a", "..", "cannot address Pod `..`: a name may not be `..`"),
            ("a", "b/c", "cannot address Pod `b/c`: a name may not contain `/`"),
            ("a", "b%2fc", "cannot address Pod `b%2fc`: a name may not contain `%`"),
            ("..", "b", "cannot address Pod in namespace `..`: a name may not be `..`"),
            ("a/b", "b", "cannot address Pod in namespace `a/b`: a name may not contain `/`"),
        ] {
            let path = ObjectPath { resource: &pods, namespace, name };
            let error = path.uri(Subresource::None, Parameters::None).unwrap_err();
            assert_eq!(error.to_string(), refusal);
            assert!(!error.is_inconclusive() && !error.is_not_found());
        }
        assert!(pods.uri("..", Parameters::None).is_err());
    }
}
