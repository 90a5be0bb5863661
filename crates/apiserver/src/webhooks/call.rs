//! Asks one webhook.

use bytes::Bytes;
use ferroplane_schema::status::Status;
use uuid::Uuid;

use super::hook::Hook;
use super::question::{Question, Shown};
use super::review::{self, Verdict};
use crate::store::Store;

/// Why there is no verdict, or a bad one.
#[derive(Debug)]
pub(super) enum Failure {
    /// The webhook could not be asked. Whether that matters is for its configuration to say.
    Call(String),
    /// The request ends here.
    Refused(Status),
}

impl Hook {
    /// Asks the webhook about a request.
    pub(super) async fn ask(
        &self,
        question: &Question<'_>,
        shown: &Shown,
        may_change: bool,
        store: &Store,
    ) -> Result<Verdict, Failure> {
        if question.is_dry_run && !self.allows_dry_run {
            let words = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(Failure::Refused(Status::bad_request(&words)));
        }
        if !self.versions.iter().any(|version| version == "v1") {
            let words =
                "could not create admission objects: webhook does not accept known AdmissionReview versions";
            return Err(Failure::Call(words.to_owned()));
        }
        let uid = Uuid::new_v4().to_string();
        let body = review::ask(&question.to_request(&uid, shown)).to_string();
        let reply = self.send(body.into(), store).await?;
        let document = review::document(&reply)
            .map_err(|error| Failure::Call(format!("failed to call webhook: {error}")))?;
        review::verdict(&document, &uid, may_change)
            .map_err(|error| Failure::Call(format!("received invalid webhook response: {error}")))
    }

    async fn send(&self, body: Bytes, store: &Store) -> Result<super::connections::Reply, Failure> {
        let client = |error: String| Failure::Call(format!("could not get REST client: {error}"));
        let route = self.destination.route(store).map_err(client)?;
        let tls = self.destination.tls().map_err(client)?;
        let query = format!("timeout={}s", self.timeout.as_secs());
        let sent = tokio::time::timeout(self.timeout, self.connections.post(&route, tls, &query, body)).await;
        let reply = sent.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        reply.map_err(|error| {
            let url = format!("https://{}{}?{query}", route.authority, route.path);
            Failure::Call(format!("failed to call webhook: Post {url:?}: {error}"))
        })
    }

    /// Whether a request may go on without the webhook's word.
    pub(super) fn forgive(&self, failure: Failure) -> Result<(), Status> {
        match failure {
            Failure::Call(error) if self.fails_open => {
                tracing::warn!(webhook = self.name, error, "cannot ask the webhook; going on without it");
                Ok(())
            }
            Failure::Call(error) => {
                Err(Status::internal(&format!("failed calling webhook {:?}: {error}", self.name)))
            }
            Failure::Refused(status) => Err(status),
        }
    }
}
