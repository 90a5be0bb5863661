//! Webhooks in this process: they are asked without a network, and need no certificates.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

type Answering = Pin<Box<dyn Future<Output = Value> + Send>>;
type Ask = dyn Fn(Value) -> Answering + Send + Sync;

/// A function in this process that answers an `AdmissionReview` with another.
#[derive(Clone)]
pub struct InProcessWebhook(Arc<Ask>);

impl InProcessWebhook {
    pub fn new<F>(answer: impl Fn(Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Value> + Send + 'static,
    {
        Self(Arc::new(move |review| Box::pin(answer(review))))
    }

    pub(super) async fn ask(&self, review: Value) -> Value {
        (self.0)(review).await
    }
}

impl fmt::Debug for InProcessWebhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InProcessWebhook")
    }
}

/// The webhooks of this process, by the host (and port, if it is not the usual one) in the URL that leads to them.
#[derive(Debug, Default)]
pub(super) struct InProcessWebhooks(ArcSwap<BTreeMap<String, InProcessWebhook>>);

impl InProcessWebhooks {
    pub(super) fn register(&self, authority: &str, webhook: &InProcessWebhook) {
        self.0.rcu(|registered| {
            let mut registered = BTreeMap::clone(registered);
            registered.insert(authority.to_owned(), webhook.clone());
            registered
        });
    }

    pub(super) fn find(&self, authority: &str) -> Option<InProcessWebhook> {
        self.0.load().get(authority).cloned()
    }
}
