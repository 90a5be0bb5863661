//! The labels of a request, for metrics and traces.

use http::Method;
use tracing::{Span, debug_span, field};

use crate::{ObjectPath, Resource, Subresource};

/// What a request does, in Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub fn method(self) -> Method {
        match self {
            Self::Get | Self::List | Self::Watch => Method::GET,
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Patch | Self::Apply => Method::PATCH,
            Self::Delete | Self::DeleteCollection => Method::DELETE,
        }
    }

    pub(crate) fn is_write(self) -> bool {
        self.method() != Method::GET
    }
}

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub struct RequestLabels<'a> {
    pub verb: Verb,
    /// None if it is about no kind of object.
    pub resource: Option<&'a Resource>,
    pub namespace: &'a str,
    pub name: &'a str,
    pub subresource: Subresource,
}

impl<'a> RequestLabels<'a> {
    /// A request that is about no object.
    pub(crate) fn other(verb: Verb) -> Self {
        Self { verb, resource: None, namespace: "", name: "", subresource: Subresource::None }
    }

    /// A request about all objects of a kind, or about one that has no name yet.
    pub(crate) fn collection(verb: Verb, resource: &'a Resource, namespace: &'a str) -> Self {
        Self { verb, resource: Some(resource), namespace, name: "", subresource: Subresource::None }
    }

    /// A request about one object.
    pub(crate) fn object(verb: Verb, path: ObjectPath<'a>, subresource: Subresource) -> Self {
        let ObjectPath { resource, namespace, name } = path;
        Self { verb, resource: Some(resource), namespace, name, subresource }
    }

    /// The span of a write. Reads, and writes outside of any trace, have none.
    pub(crate) fn span(&self) -> Span {
        if !self.verb.is_write() || Span::current().is_none() {
            return Span::none();
        }
        let kind = self.resource.map_or("", |resource| resource.kind.as_str());
        debug_span!(
            "write",
            otel.name = format!("{} {kind}", self.verb.as_str()).trim_end(),
            otel.kind = "client",
            otel.status_code = field::Empty,
            verb = self.verb.as_str(),
            api_version = self.resource.map_or("", |resource| resource.api_version.as_str()),
            kind,
            namespace = self.namespace,
            name = self.name,
            subresource = self.subresource.as_str(),
            http.response.status_code = field::Empty,
        )
    }

    /// Record in the span how the request ended.
    pub(crate) fn close(span: &Span, code: Option<u16>) {
        if let Some(code) = code {
            span.record("http.response.status_code", code);
        }
        // An object that is gone, or was changed meanwhile, is no fault.
        if code.is_none_or(|code| code >= 400 && code != 404 && code != 409) {
            span.record("otel.status_code", "ERROR");
        }
    }
}
