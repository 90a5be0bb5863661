//! Asks one webhook.

use ferroplane_schema::status::Status;
use serde_json::Value;

use super::admission_request::{AdmissionRequest, VersionedAttributes};
use super::admission_review::{self, AdmissionResponse};
use super::connections;
use super::destination::{self, Route};
use super::in_process::InProcessWebhooks;
use super::webhook::Webhook;
use crate::store::Store;

/// Why there is no verdict, or a bad one.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The webhook could not be asked. Whether that matters is for its configuration to say.
    Call(String),
    /// The request ends here.
    Refused(Status),
}

impl Webhook {
    /// Asks the webhook about a request.
    pub(super) async fn ask(
        &self,
        request: &AdmissionRequest<'_>,
        shown: &VersionedAttributes,
        may_change: bool,
        in_process: &InProcessWebhooks,
        store: &Store,
    ) -> Result<AdmissionResponse, CallFailure> {
        if request.is_dry_run && !self.allows_dry_run {
            let words = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(CallFailure::Refused(Status::bad_request(&words)));
        }
        if !self.versions.iter().any(|version| version == "v1") {
            let words =
                "could not create admission objects: webhook does not accept known AdmissionReview versions";
            return Err(CallFailure::Call(words.to_owned()));
        }
        let uid = crate::random::uuid().to_string();
        let review = admission_review::ask(&request.to_request(&uid, shown));
        let client =
            |error: destination::Error| CallFailure::Call(format!("could not get REST client: {error}"));
        let route = self.destination.route(store).map_err(client)?;
        let asked = async {
            match in_process.find(&route.authority) {
                Some(webhook) => Ok(webhook.ask(review).await),
                None => self.send(&route, &review).await,
            }
        };
        let late = || Err(self.unreached(&route, &connections::Error::Deadline));
        let document = tokio::time::timeout(self.timeout, asked).await.unwrap_or_else(|_| late())?;
        admission_review::verdict(&document, &uid, may_change)
            .map_err(|error| CallFailure::Call(format!("received invalid webhook response: {error}")))
    }

    async fn send(&self, route: &Route, review: &Value) -> Result<Value, CallFailure> {
        let client =
            |error: destination::Error| CallFailure::Call(format!("could not get REST client: {error}"));
        let tls = self.destination.tls().map_err(client)?;
        let sent = self.connections.post(route, tls, &self.query(), review.to_string().into()).await;
        let reply = sent.map_err(|error| self.unreached(route, &error))?;
        admission_review::document(&reply)
            .map_err(|error| CallFailure::Call(format!("failed to call webhook: {error}")))
    }

    fn unreached(&self, route: &Route, error: &connections::Error) -> CallFailure {
        let url = format!("https://{}{}?{}", route.authority, route.path, self.query());
        CallFailure::Call(format!("failed to call webhook: Post {url:?}: {error}"))
    }

    fn query(&self) -> String {
        format!("timeout={}s", self.timeout.as_secs())
    }

    /// Whether a request may continue without the webhook's word.
    pub(super) fn apply_failure_policy(&self, failure: CallFailure) -> Result<(), Status> {
        match failure {
            CallFailure::Call(error) if self.fails_open => {
                tracing::warn!(webhook = self.name, error, "cannot call a webhook; continuing without it");
                Ok(())
            }
            CallFailure::Call(error) => {
                Err(Status::internal(&format!("failed calling webhook {:?}: {error}", self.name)))
            }
            CallFailure::Refused(status) => Err(status),
        }
    }
}
