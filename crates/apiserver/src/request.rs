//! What a request asks for, read from its method, path and query.
//!
//! One reader for all kinds: whether there is such a resource is not asked here.
//!
//! # Invariants
//! * The request line is read once, by [`RequestInfo::parse`], where a request comes in; everybody behind that is handed the
//!   result. The readers of its parts are private to this module.

mod path;
mod query;

pub(crate) use path::{ResourcePath, Target};
pub(crate) use query::Query;

use http::{Method, Uri};

/// A request line, read. Has the name and purpose of kube-apiserver's `RequestInfo` (apiserver/pkg/endpoints/request).
#[derive(Debug, Clone)]
pub(crate) struct RequestInfo {
    pub(crate) target: Target,
    pub(crate) query: Query,
    /// What is to be done with a resource; nothing if the method means nothing there, or if it is about no resource.
    pub(crate) verb: Option<Verb>,
}

impl RequestInfo {
    pub(crate) fn parse(method: &Method, uri: &Uri) -> Self {
        #[cfg(test)]
        count::increment();
        let target = Target::parse(uri.path());
        let query = Query::parse(uri.query());
        let verb = match &target {
            Target::Resource(path) => Verb::of(method, path, &query),
            _ => None,
        };
        Self { target, query, verb }
    }

    /// The path of a request about a resource.
    pub(crate) fn resource(&self) -> Option<&ResourcePath> {
        match &self.target {
            Target::Resource(path) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == Some(Verb::Watch)
    }

    pub(crate) fn changes_something(&self) -> bool {
        self.verb.is_some_and(Verb::changes_something)
    }
}

/// How often a request line was read on this thread, for a test that it is read once.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        static PARSED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn increment() {
        PARSED.set(PARSED.get() + 1);
    }

    pub(crate) fn parsed() -> usize {
        PARSED.get()
    }
}

/// What is to be done, in the words that permissions use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// What a method means for a path, if it means anything.
    pub(crate) fn of(method: &Method, path: &ResourcePath, query: &Query) -> Option<Self> {
        let is_named = !path.name.is_empty();
        Some(match *method {
            Method::GET if is_named => Self::Get,
            Method::GET if query.flag("watch") => Self::Watch,
            Method::GET => Self::List,
            Method::POST => Self::Create,
            Method::PUT if is_named => Self::Update,
            Method::PATCH if is_named => Self::Patch,
            Method::DELETE if is_named => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub(crate) fn changes_something(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}
