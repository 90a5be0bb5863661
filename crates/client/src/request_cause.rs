//! The object on whose behalf a request is made.
//!
//! What a controller does in consequence of an object carries that object's name, so that the audit log of an API server in the same
//! process can tell who caused what. Other API servers ignore it.

use std::future::Future;

use http::{HeaderName, HeaderValue};
use tokio::task::futures::TaskLocalFuture;

/// Names the cause of a request: GROUP/KIND/NAMESPACE/NAME/UID/GENERATION, and of a request that reports a denial /CODE/REASON, too.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("ferroplane-cause");

tokio::task_local! {
    static CURRENT: RequestCause;
}

/// An object in consequence of which requests are made.
#[derive(Debug, Clone)]
pub struct RequestCause(Option<HeaderValue>);

impl RequestCause {
    pub fn new(
        (api_version, kind): (&str, &str),
        (namespace, name): (&str, &str),
        uid: &str,
        generation: i64,
    ) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let text = format!("{group}/{kind}/{namespace}/{name}/{uid}/{generation}");
        Self(HeaderValue::try_from(text).ok())
    }

    /// The same, for writes that report what the object was denied. Nothing was requested that would have been refused, so that no other
    /// line of the audit log could tell.
    #[must_use]
    pub fn denied(self, code: &str, reason: &str) -> Self {
        let text = self.0.as_ref().and_then(|cause| cause.to_str().ok());
        // In a header there is room for printable ASCII only.
        let reason = reason.replace(|character| !(' '..='~').contains(&character), "?");
        let text = text.map(|cause| format!("{cause}/{code}/{reason}"));
        Self(text.and_then(|text| HeaderValue::try_from(text).ok()))
    }

    /// Does some work, of which every write names this cause. What the work spawns does not.
    pub fn scope<F: Future>(self, work: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, work)
    }

    /// The cause of what is written now, if one was named.
    pub(crate) fn current() -> Option<HeaderValue> {
        CURRENT.try_with(|cause| cause.0.clone()).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cause_is_known_within_its_scope_only() {
        let cause = RequestCause::new(("example.org/v1", "App"), ("team-a", "shop"), "u-1", 3);
        assert_eq!(RequestCause::current(), None);
        let inside = cause.scope(async { RequestCause::current() }).await;
        assert_eq!(inside.unwrap(), "example.org/App/team-a/shop/u-1/3");
        let core = RequestCause::new(("v1", "ConfigMap"), ("", "x"), "", 0);
        assert_eq!(core.scope(async { RequestCause::current() }).await.unwrap(), "/ConfigMap//x//0");
        let denied =
            RequestCause::new(("v1", "ConfigMap"), ("", "x"), "", 0).denied("NotGranted", "größe\nof a/b");
        let denied = denied.scope(async { RequestCause::current() }).await.unwrap();
        assert_eq!(denied, "/ConfigMap//x//0/NotGranted/gr??e?of a/b");
        let odd = RequestCause::new(("v1", "Con\nfig"), ("", "x"), "", 0);
        assert_eq!(odd.scope(async { RequestCause::current() }).await, None);
    }
}
