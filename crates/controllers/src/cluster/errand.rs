//! What a request is about, for whoever counts requests and whoever follows them.

use http::Method;
use tracing::{Span, debug_span, field};

use super::{Part, Place, Resource};

/// What is to be done to objects, in Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
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
    pub(crate) fn as_str(self) -> &'static str {
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

    pub(crate) fn method(self) -> Method {
        match self {
            Self::Get | Self::List | Self::Watch => Method::GET,
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Patch | Self::Apply => Method::PATCH,
            Self::Delete | Self::DeleteCollection => Method::DELETE,
        }
    }

    pub(super) fn is_write(self) -> bool {
        self.method() != Method::GET
    }
}

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Errand<'a> {
    pub(super) verb: Verb,
    /// None if it is about no kind.
    pub(super) resource: Option<&'a Resource>,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'static str,
}

impl<'a> Errand<'a> {
    /// About something that is no object.
    pub(super) fn elsewhere(verb: Verb) -> Self {
        Self { verb, resource: None, namespace: "", name: "", subresource: "" }
    }

    /// About all objects of a kind, or one that has no name yet.
    pub(super) fn among(verb: Verb, resource: &'a Resource, namespace: &'a str) -> Self {
        Self { verb, resource: Some(resource), namespace, name: "", subresource: "" }
    }

    /// About one object.
    pub(super) fn to(verb: Verb, place: Place<'a>, part: Part) -> Self {
        let Place { resource, namespace, name } = place;
        let subresource = match part {
            Part::Whole => "",
            Part::Status => "status",
        };
        Self { verb, resource: Some(resource), namespace, name, subresource }
    }

    /// How a write is seen in a trace. What is written without anybody following it is nobody's business.
    pub(super) fn span(&self) -> Span {
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
            subresource = self.subresource,
            http.response.status_code = field::Empty,
        )
    }

    /// Note in a trace how it ended.
    pub(super) fn close(span: &Span, code: Option<u16>) {
        if let Some(code) = code {
            span.record("http.response.status_code", code);
        }
        // What is not there any more, or was changed meanwhile, is no fault.
        if code.is_none_or(|code| code >= 400 && code != 404 && code != 409) {
            span.record("otel.status_code", "ERROR");
        }
    }
}
