//! Serves plans at the address of recordings, a loopback address that forwarded ports reach.
//!
//! # Guarantees
//! * A client that asks shows a token of the API server, and may `post` to the path there.
//! * What they propose is tried out with that token, and they are shown what it may read. Nothing of ours is lent to them.
//! * Only the replica that leads answers: others do not know all composite resources.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_controllers::Planner;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use super::callers::Callers;
use crate::plans::PATH;
use crate::plans::serve::{answer, failure};

/// As large as a request to an API server may be.
const LARGEST: usize = 3 << 20;
/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// What plans, while this replica leads.
#[derive(Debug, Clone, Default)]
pub(super) struct Plans(Arc<Mutex<Option<Planner>>>);

impl Plans {
    /// Replaces the planner. Without one, requests for plans are refused.
    pub(super) fn set(&self, planner: Option<Planner>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = planner;
    }

    /// The plan that a client asks for, or why there is none.
    pub(super) async fn answer(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        callers: &Callers,
    ) -> (StatusCode, Bytes) {
        let refuse =
            |code: StatusCode, reason: &str, words: &str| (code, failure(code, reason, words.trim_end()));
        if let Err((code, words)) = callers.authorize(headers, "post", PATH).await {
            return refuse(code, "Forbidden", &words);
        }
        let Some(planner) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            let words =
                "this replica does not lead, and cannot plan: forward a port of the one that holds the Lease";
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", words);
        };
        let arriving = tokio::time::timeout(ARRIVAL, Limited::new(body, LARGEST).collect());
        let Ok(Ok(body)) = arriving.await else {
            return refuse(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "cannot read the request: it is too large or too slow",
            );
        };
        match callers.client(headers) {
            Ok(caller) => answer(&planner, &caller, &body.to_bytes()).await,
            Err((code, words)) => refuse(code, "Unauthorized", &words),
        }
    }
}
