//! How many requests run at a time, and whose turn it is.
//!
//! Does the work of kube-apiserver's API Priority and Fairness with less: every user is a flow of its own, all service accounts of a
//! namespace are one, and there are no priorities to configure.
//!
//! Reads, writes and watches are counted apart. While there is room, everyone comes in, up to a share that leaves room for others.
//! When there is none, requests wait, and a permit that becomes free goes to the user with the fewest: a user with a thousand
//! requests does not keep another one waiting for more than one of them. The queue is limited, and so is the time in it: a request beyond
//! the limits is refused with a retry after one second (429).
//!
//! # Guarantees
//! * Administrators have places of their own, so that a client that has to put an end to an overload gets in.
//! * A request takes a place only when nothing more is to come from its client, and gives it back before its response is sent: slow
//!   clients cost [`BodyMemory`], not places.

mod body_memory;
mod fair_queue;

use std::sync::Arc;
use std::time::Duration;

use ferroplane_schema::status::Status;

pub(crate) use body_memory::{BodyMemory, BodyReservation};
pub(crate) use fair_queue::FairQueue;
pub use fair_queue::Permit;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestClass {
    ReadOnly,
    Mutating,
    /// It stays, so it must not take a permit from those that come and go.
    Watch,
}

/// How many there may be. Administrators have as many again.
#[derive(Debug, Clone)]
pub struct Settings {
    pub read_only: usize,
    /// No user may have more reads at a time than this. Others of the user wait.
    pub read_only_of_one: usize,
    pub mutating: usize,
    /// No user may have more writes at a time than this. Others of the user wait.
    pub mutating_of_one: usize,
    pub watches: usize,
    /// No user may have more watches than this.
    pub watches_of_one: usize,
    /// How many requests of a class may wait.
    pub queue: usize,
    /// How long one may wait.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Those of reads and writes are kube-apiserver's, `--max-requests-inflight` and `--max-mutating-requests-inflight`.
            // One user gets half: on two cores, no more than a few run at the same time anyway.
            read_only: 400,
            read_only_of_one: 200,
            mutating: 200,
            mutating_of_one: 100,
            watches: 20_000,
            watches_of_one: 10_000,
            queue: 1_000,
            patience: Duration::from_secs(5),
        }
    }
}

/// Decides which requests of a server run.
#[derive(Debug)]
pub struct FlowControl {
    shared: Queues,
    /// For administrators alone.
    reserved: Queues,
    patience: Duration,
}

/// A queue for each class of requests.
#[derive(Debug)]
struct Queues {
    read_only: Arc<FairQueue>,
    mutating: Arc<FairQueue>,
    watches: Arc<FairQueue>,
}

impl FlowControl {
    pub fn new(settings: &Settings) -> Self {
        let Settings { read_only, mutating, watches, queue, patience, .. } = *settings;
        let shared = Queues {
            read_only: FairQueue::new(read_only, settings.read_only_of_one, queue),
            mutating: FairQueue::new(mutating, settings.mutating_of_one, queue),
            // No queue: a watch stays, so that a client that waits for one to end would wait for minutes.
            watches: FairQueue::new(watches, settings.watches_of_one, 0),
        };
        let reserved = Queues {
            read_only: FairQueue::new(read_only, read_only, queue),
            mutating: FairQueue::new(mutating, mutating, queue),
            watches: FairQueue::new(watches, watches, 0),
        };
        Self { shared, reserved, patience }
    }

    /// A permit for a request of a user, given back when it is dropped; or the refusal.
    pub async fn enter(&self, class: RequestClass, user: &str) -> Result<Permit, Status> {
        self.wait(self.shared.of(class), user).await
    }

    /// A permit for a request of an administrator.
    pub async fn enter_reserved(&self, class: RequestClass, user: &str) -> Result<Permit, Status> {
        self.wait(self.reserved.of(class), user).await
    }

    async fn wait(&self, queue: &Arc<FairQueue>, user: &str) -> Result<Permit, Status> {
        let entered = tokio::time::timeout(self.patience, queue.enter(user)).await;
        entered.ok().flatten().ok_or_else(too_many_requests)
    }

    /// How many run and how many wait.
    pub fn load(&self, class: RequestClass) -> (usize, usize) {
        let (shared, reserved) = (self.shared.of(class).load(), self.reserved.of(class).load());
        (shared.0 + reserved.0, shared.1 + reserved.1)
    }
}

impl Queues {
    fn of(&self, class: RequestClass) -> &Arc<FairQueue> {
        match class {
            RequestClass::ReadOnly => &self.read_only,
            RequestClass::Mutating => &self.mutating,
            RequestClass::Watch => &self.watches,
        }
    }
}

/// The response to a request beyond the limits.
fn too_many_requests() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

#[cfg(test)]
mod tests;
