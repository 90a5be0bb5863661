//! Spreads calls over all addresses of a name, such as those of a headless Service.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tonic::transport::channel::Change;
use tonic::transport::{Channel, Endpoint};

use super::route::endpoint;
use super::{Options, Target};

/// How often a name is resolved when nothing goes wrong.
const EVERY: Duration = Duration::from_secs(30);
/// How soon after the last time when something does.
const AT_MOST_EVERY: Duration = Duration::from_millis(250);

pub(super) type Resolving = Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>>;

/// Turns a name and a port into addresses.
#[derive(Clone)]
pub struct Resolve(Arc<dyn Fn(String, u16) -> Resolving + Send + Sync>);

impl Resolve {
    /// A way to turn a name and a port into addresses.
    pub fn new<F>(resolve: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |host, port| Box::pin(resolve(host, port))))
    }

    pub(super) fn addresses(&self, host: String, port: u16) -> Resolving {
        (self.0)(host, port)
    }
}

impl fmt::Debug for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resolve").finish()
    }
}

/// As the operating system does it.
pub(super) fn system() -> Resolve {
    Resolve::new(|host, port| async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

/// Keeps the addresses of a channel up to date, as long as it lives.
#[derive(Debug)]
pub(super) struct Balanced {
    again: Arc<Notify>,
    dead_end: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl Balanced {
    pub(super) fn new(target: Target, options: Options, resolve: Resolve) -> (Channel, Self) {
        let (channel, changes) = Channel::balance_channel(64);
        let (again, dead_end) = (Arc::new(Notify::new()), Arc::default());
        let addresses =
            Addresses { target, options, changes, known: BTreeSet::new(), dead_end: Arc::clone(&dead_end) };
        let task = tokio::spawn(addresses.keep_up(resolve, again.clone()));
        (channel, Self { again, dead_end, task })
    }

    /// Something could not be reached: perhaps it moved.
    pub(super) fn resolve_again(&self) {
        self.again.notify_one();
    }

    /// Why no address is known, if so.
    pub(super) fn dead_end(&self) -> Option<String> {
        self.dead_end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Balanced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The addresses of a target, as a channel knows them.
struct Addresses {
    target: Target,
    options: Options,
    changes: mpsc::Sender<Change<SocketAddr, Endpoint>>,
    known: BTreeSet<SocketAddr>,
    dead_end: Arc<Mutex<Option<String>>>,
}

impl Addresses {
    async fn keep_up(mut self, resolve: Resolve, again: Arc<Notify>) {
        loop {
            let addresses = resolve.addresses(self.target.host().to_owned(), self.target.port()).await;
            if self.learn(addresses).await.is_err() {
                return;
            }
            // A permit of `notify_one` that comes during this sleep is kept, so that no request to resolve is
            // lost.
            tokio::time::sleep(AT_MOST_EVERY).await;
            let _ = tokio::time::timeout(EVERY, again.notified()).await;
        }
    }

    /// An error or an empty answer is a name server's bad day more often than the end of a function: the
    /// addresses that are known may still be good. Fails when nothing listens any more.
    async fn learn(&mut self, addresses: std::io::Result<Vec<SocketAddr>>) -> Result<(), Closed> {
        let host = self.target.host();
        let problem = match addresses {
            Ok(addresses) if !addresses.is_empty() => {
                return self.change_to(addresses.into_iter().collect()).await;
            }
            Ok(_) => format!("`{host}` has no addresses"),
            Err(error) => format!("cannot resolve `{host}`: {error}"),
        };
        tracing::debug!(target = %self.target, problem, "cannot resolve function");
        if self.known.is_empty() {
            self.set_dead_end(Some(problem));
        }
        Ok(())
    }

    /// Tell the channel what is new and what is gone.
    async fn change_to(&mut self, addresses: BTreeSet<SocketAddr>) -> Result<(), Closed> {
        self.set_dead_end(None);
        // Gone before new, so that a replaced address is not called in between.
        for gone in self.known.difference(&addresses) {
            self.changes.send(Change::Remove(*gone)).await?;
        }
        for new in addresses.difference(&self.known) {
            let ip = if new.is_ipv6() { format!("[{}]", new.ip()) } else { new.ip().to_string() };
            if let Ok(endpoint) = endpoint(&self.target, &ip, &self.options) {
                self.changes.send(Change::Insert(*new, endpoint)).await?;
            }
        }
        self.known = addresses;
        Ok(())
    }

    fn set_dead_end(&self, reason: Option<String>) {
        *self.dead_end.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

type Closed = mpsc::error::SendError<Change<SocketAddr, Endpoint>>;
