//! The health of a replica, for its probes.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use ferroplane_controllers::{LEASE, Metrics};
use ferroplane_metrics::{Exposition, labels};
use http::Request;
use tower_service::Service;

/// How a replica is.
#[derive(Default)]
pub(super) struct Health {
    /// The API server answered when it was last asked.
    is_connected: AtomicBool,
    is_initialised: AtomicBool,
    is_leading: AtomicBool,
    is_stopping: AtomicBool,
    metrics: Mutex<Option<Arc<Metrics>>>,
    /// Writes those of the process itself.
    process_metrics: OnceLock<WriteMetrics>,
}

type WriteMetrics = Box<dyn Fn(&mut Exposition) + Send + Sync>;

impl Health {
    pub(super) fn set_initialised(&self) {
        self.is_initialised.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_leading(&self, is_leading: bool) {
        self.is_leading.store(is_leading, Ordering::Relaxed);
    }

    pub(super) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// From now on, what this writes is shown, too.
    pub(super) fn add_metrics(&self, write: impl Fn(&mut Exposition) + Send + Sync + 'static) {
        let _ = self.process_metrics.set(Box::new(write));
    }

    /// From now on, these numbers are shown.
    pub(super) fn count(&self, metrics: &Arc<Metrics>) {
        *self.metrics.lock().unwrap_or_else(PoisonError::into_inner) = Some(metrics.clone());
    }

    /// Whether it can do its part, leading or not, and why.
    pub(super) fn readiness(&self) -> (bool, String) {
        let checks = [
            ("connected", self.is_connected.load(Ordering::Relaxed)),
            ("initialised", self.is_initialised.load(Ordering::Relaxed)),
            ("goes-on", !self.is_stopping.load(Ordering::Relaxed)),
        ];
        let line = |(name, is_well): &(&str, bool)| {
            if *is_well { format!("[+]{name} ok\n") } else { format!("[-]{name} failed\n") }
        };
        let role = if self.is_leading.load(Ordering::Relaxed) { "leads" } else { "stands by" };
        let text: String = checks.iter().map(line).collect();
        (checks.iter().all(|(_, is_well)| *is_well), format!("{text}{role}\n"))
    }

    /// All numbers as text.
    pub(super) fn metrics(&self) -> String {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut page = Exposition::default();
        if let Some(metrics) = metrics {
            metrics.write(&mut page);
        }
        if let Some(write) = self.process_metrics.get() {
            write(&mut page);
        }
        let leads = u8::from(self.is_leading.load(Ordering::Relaxed));
        let mut samples =
            page.gauge("leader_election_master_status", "Whether this replica is the leader: 1 or 0");
        samples.series(&labels(&[("name", LEASE)]), leads);
        page.into_text()
    }
}

/// Notices whether an API server answers.
#[derive(Clone)]
pub(super) struct Listening<S> {
    service: S,
    health: Arc<Health>,
}

impl<S> Listening<S> {
    pub(super) fn new(service: S, health: Arc<Health>) -> Self {
        Self { service, health }
    }
}

impl<S, B> Service<Request<B>> for Listening<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (answer, health) = (self.service.call(request), self.health.clone());
        Box::pin(async move {
            let answer = answer.await;
            // Any answer will do, a refusal too: whether the server is well is not for this replica to say.
            health.is_connected.store(answer.is_ok(), Ordering::Relaxed);
            answer
        })
    }
}
