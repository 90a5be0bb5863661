//! What a request asks for, read from its method, path and query.
//!
//! One reader for all kinds: whether there is such a resource is not asked here.

mod path;
mod query;

pub(crate) use path::{ResourcePath, Target};
pub(crate) use query::Query;

use http::Method;

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
