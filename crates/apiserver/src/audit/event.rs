//! One event of the log: what is known of a request at a stage. It owns its data, because it is formatted later, on the thread that writes.

mod line;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ferroplane_schema::status::Status;
use jiff::Timestamp;
use serde_json::Value;

use crate::auth::identity::Identity;
use crate::request::ResourcePath;

/// How much of a request is logged. Those with more come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Metadata,
    /// With the object that was sent, unless that may hold secrets.
    Request,
    /// With the answer, too.
    RequestResponse,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    RequestReceived,
    /// A watch has begun.
    ResponseStarted,
    ResponseComplete,
    /// Policies may name it. It has no events: a handler that panics answers with 500.
    Panic,
}

impl Level {
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Metadata, Self::Request, Self::RequestResponse]
            .into_iter()
            .find(|level| level.name() == text)
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

impl Stage {
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic]
            .into_iter()
            .find(|stage| stage.name() == text)
    }

    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// What a request was about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObjectReference {
    pub(crate) path: ResourcePath,
    pub(crate) uid: String,
    /// The generation that it has now, if something was written to an object that has one.
    pub(crate) generation: i64,
}

/// How it ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Success(u16),
    Failure(Arc<Status>),
    /// The client went away, or its time was up. What it asked for may have happened.
    Unanswered,
}

/// Whether a request was allowed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authorization {
    pub(crate) is_allowed: bool,
    pub(crate) reason: String,
}

/// An object that is read only when its line is written.
#[derive(Clone)]
pub(crate) struct LazyObject {
    pub(crate) bytes: usize,
    pub(crate) read: Arc<dyn Fn() -> Option<Value> + Send + Sync>,
}

impl fmt::Debug for LazyObject {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(output, "LazyObject({} bytes)", self.bytes)
    }
}

/// A request at a stage.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) stage: Stage,
    /// What the header `Audit-Id` says.
    pub(crate) id: String,
    pub(crate) received: Timestamp,
    /// When the stage was reached.
    pub(crate) reached: Timestamp,
    pub(crate) uri: String,
    pub(crate) verb: Cow<'static, str>,
    /// None if the user is not known.
    pub(crate) user: Option<Identity>,
    /// Whom the user acted as.
    pub(crate) impersonated: Option<Identity>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) user_agent: String,
    pub(crate) object: Option<ObjectReference>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) authorization: Option<Authorization>,
    pub(crate) request: Option<LazyObject>,
    pub(crate) response: Option<LazyObject>,
    pub(crate) omits_managed_fields: bool,
    /// The object on whose account a controller in this process wrote: GROUP/KIND/NAMESPACE/NAME/UID/GENERATION. If it
    /// reports what this object was denied, CODE/REASON follow.
    pub(crate) cause: Option<String>,
    /// What others want to have recorded.
    pub(crate) annotations: Vec<(String, String)>,
}

impl Event {
    /// How much memory it takes, more or less, while it waits to be written.
    pub(super) fn weight(&self) -> usize {
        let objects = self.request.iter().chain(&self.response).map(|object| object.bytes).sum::<usize>();
        let annotations = self.annotations.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>();
        size_of::<Self>() + 512 + self.uri.len() + self.user_agent.len() + annotations + objects
    }

    /// Whether it was refused to an unauthenticated client.
    pub(super) fn is_refusal_of_stranger(&self) -> bool {
        let is_refusal =
            matches!(&self.outcome, Some(Outcome::Failure(status)) if matches!(status.code, 401 | 403));
        is_refusal && self.user.as_ref().is_none_or(Identity::is_anonymous)
    }

    /// Whether its bodies may hold secrets. Whatever is not known to be harmless is not shown.
    fn is_about_secrets(&self) -> bool {
        let Some(object) = &self.object else { return true };
        let path = &object.path;
        matches!(
            (path.group.as_str(), path.resource.as_str(), path.subresource.as_str()),
            ("", "secrets", _) | ("", "serviceaccounts", "token") | ("authentication.k8s.io", _, _)
        )
    }
}
