//! Watches the objects of a kind until the watcher is dropped.

use std::sync::Arc;

use ferroplane_client::{ApiClient, Informer, InformerScope};
use tokio::sync::Notify;

/// A cache of objects that is kept up to date until it is dropped.
#[derive(Debug)]
pub(super) struct Followed {
    informer: Arc<Informer>,
    changed: Arc<Notify>,
}

impl Followed {
    pub(super) fn start(client: &ApiClient, scope: InformerScope) -> Self {
        Self::start_with(client, scope, Arc::default())
    }

    /// The same, sharing with others what reports changes.
    pub(super) fn start_with(client: &ApiClient, scope: InformerScope, changed: Arc<Notify>) -> Self {
        let informer = Informer::start(client.clone(), scope);
        let notify = changed.clone();
        // One permit is kept if nothing waits at the moment, so that a change between two waits is not missed.
        informer.listen(move |_, _| notify.notify_one());
        Self { informer, changed }
    }

    pub(super) fn informer(&self) -> &Arc<Informer> {
        &self.informer
    }

    /// Wait until something changes after the last change that was waited for. Several changes may count as one.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.informer.stop();
    }
}
