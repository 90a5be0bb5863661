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

/// Somebody in this process who answers an `AdmissionReview` with another.
#[derive(Clone)]
pub struct Insider(Arc<Ask>);

impl Insider {
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

impl fmt::Debug for Insider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Insider")
    }
}

/// Who is in this process, by the host (and port, if it is not the usual one) in the URL that leads to them.
#[derive(Debug, Default)]
pub(super) struct Insiders(ArcSwap<BTreeMap<String, Insider>>);

impl Insiders {
    pub(super) fn seat(&self, authority: &str, insider: &Insider) {
        self.0.rcu(|seated| {
            let mut seated = BTreeMap::clone(seated);
            seated.insert(authority.to_owned(), insider.clone());
            seated
        });
    }

    pub(super) fn find(&self, authority: &str) -> Option<Insider> {
        self.0.load().get(authority).cloned()
    }
}
