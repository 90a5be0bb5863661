//! Whether a function can be reached. Calls fail at once while it cannot, and a probe notices when it can again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Target;
use super::route::ConnectMethod;

/// How often to look whether a function is back. One that starts is called at most so much later.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// How long one look may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

type Listener = Arc<dyn Fn() + Send + Sync>;

/// Whether a function can be reached, as far as is known.
#[derive(Clone, Default)]
pub(super) struct Reachability(Arc<State>);

#[derive(Default)]
struct State {
    is_missing: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

impl fmt::Debug for Reachability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reachability").field(&self.0.is_missing).finish()
    }
}

impl Reachability {
    /// Whether the last call could not reach it, and it was not seen since.
    pub(super) fn is_missing(&self) -> bool {
        self.0.is_missing.load(Ordering::Acquire)
    }

    /// Have this called whenever a function that could not be reached is back.
    pub(super) fn on_return(&self, listener: Listener) {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// It was reached.
    pub(super) fn found(&self) {
        self.0.found();
    }

    /// It could not be reached: try to connect from now on, until that works. No call is needed for it.
    pub(super) fn missed(&self, target: &Target, way: &ConnectMethod) {
        if !self.0.is_missing.swap(true, Ordering::AcqRel) {
            tokio::spawn(look_for(Arc::downgrade(&self.0), target.clone(), way.clone()));
        }
    }
}

impl State {
    fn found(&self) {
        // The usual case costs a look, and no write.
        if !self.is_missing.load(Ordering::Acquire) || !self.is_missing.swap(false, Ordering::AcqRel) {
            return;
        }
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener();
        }
    }
}

/// Try to connect to a function until that works, here or in a call, or until its client is dropped.
async fn look_for(state: Weak<State>, target: Target, way: ConnectMethod) {
    loop {
        sleep(PROBE_INTERVAL).await;
        if state.upgrade().is_none_or(|state| !state.is_missing.load(Ordering::Acquire)) {
            return;
        }
        if timeout(PROBE_TIMEOUT, is_there(&target, &way)).await.unwrap_or(false) {
            if let Some(state) = state.upgrade() {
                state.found();
            }
            return;
        }
    }
}

/// Whether something listens there.
async fn is_there(target: &Target, way: &ConnectMethod) -> bool {
    let resolve = match way {
        ConnectMethod::Address(resolve) => resolve,
        ConnectMethod::Connector(connector) => return connector.connect().await.is_ok(),
    };
    let host = target.host().trim_matches(['[', ']']).to_owned();
    for address in resolve.addresses(host, target.port()).await.unwrap_or_default() {
        if TcpStream::connect(address).await.is_ok() {
            return true;
        }
    }
    false
}
