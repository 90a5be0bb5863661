//! Spreads calls over all addresses of a name, such as those of a headless Service.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tonic::transport::channel::Change;
use tonic::transport::{Channel, Endpoint};

use super::{Options, Target, endpoint};

/// How often a name is resolved when nothing goes wrong.
const EVERY: Duration = Duration::from_secs(30);
/// How soon after the last time when something does.
const AT_MOST_EVERY: Duration = Duration::from_millis(250);

type Resolving = Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>>;

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
    task: JoinHandle<()>,
}

impl Balanced {
    pub(super) fn new(target: Target, options: Options, resolve: Resolve) -> (Channel, Self) {
        let (channel, changes) = Channel::balance_channel(64);
        let again = Arc::new(Notify::new());
        let task = tokio::spawn(keep_up(target, options, resolve, changes, again.clone()));
        (channel, Self { again, task })
    }

    /// Something could not be reached: perhaps it moved.
    pub(super) fn resolve_again(&self) {
        self.again.notify_one();
    }
}

impl Drop for Balanced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_up(
    target: Target,
    options: Options,
    resolve: Resolve,
    changes: mpsc::Sender<Change<SocketAddr, Endpoint>>,
    again: Arc<Notify>,
) {
    let mut known = BTreeSet::new();
    loop {
        match (resolve.0)(target.host().to_owned(), target.port()).await {
            Ok(addresses) => {
                if update(&target, &options, &changes, &mut known, addresses).await.is_none() {
                    return;
                }
            }
            // The addresses it had may still be good.
            Err(error) => tracing::debug!(%target, %error, "cannot resolve function"),
        }
        tokio::time::sleep(AT_MOST_EVERY).await;
        let _ = tokio::time::timeout(EVERY, again.notified()).await;
    }
}

/// Tell the channel what is new and what is gone. Nothing if nobody listens any more.
async fn update(
    target: &Target,
    options: &Options,
    changes: &mpsc::Sender<Change<SocketAddr, Endpoint>>,
    known: &mut BTreeSet<SocketAddr>,
    addresses: Vec<SocketAddr>,
) -> Option<()> {
    let addresses: BTreeSet<_> = addresses.into_iter().collect();
    // An empty answer is a name server's bad day more often than the end of a function.
    if addresses.is_empty() {
        return Some(());
    }
    for gone in known.difference(&addresses) {
        changes.send(Change::Remove(*gone)).await.ok()?;
    }
    for new in addresses.difference(known) {
        let ip = if new.is_ipv6() { format!("[{}]", new.ip()) } else { new.ip().to_string() };
        if let Ok(endpoint) = endpoint(target, &ip, options) {
            changes.send(Change::Insert(*new, endpoint)).await.ok()?;
        }
    }
    *known = addresses;
    Some(())
}
