//! How many requests run at a time, and whose turn it is.
//!
//! Does the work of kube-apiserver's API Priority and Fairness with less: every user is a flow of its own, and there are no
//! priorities to configure.
//!
//! Reads, writes and watches are counted apart. While there is room, everyone comes in. When there is none, requests wait,
//! and a permit that becomes free goes to whoever has the fewest: a user with a thousand requests does not keep another one
//! waiting for more than one of them. The queue is limited, and so is the time in it: who is too many is told to come
//! again in a second (429).

mod fair_queue;

use std::sync::Arc;
use std::time::Duration;

use ferroplane_schema::status::Status;

pub use fair_queue::Permit;

use fair_queue::FairQueue;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestClass {
    ReadOnly,
    Mutating,
    /// It stays, so it must not take a permit from those that come and go.
    Watch,
}

/// How many there may be.
#[derive(Debug, Clone)]
pub struct Settings {
    pub read_only: usize,
    pub mutating: usize,
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
            read_only: 400,
            mutating: 200,
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
    read_only: Arc<FairQueue>,
    mutating: Arc<FairQueue>,
    watches: Arc<FairQueue>,
    patience: Duration,
}

impl FlowControl {
    pub fn new(settings: &Settings) -> Self {
        let Settings { read_only, mutating, watches, watches_of_one, queue, patience } = *settings;
        Self {
            read_only: FairQueue::new(read_only, read_only, queue),
            mutating: FairQueue::new(mutating, mutating, queue),
            // No queue: a watch stays, so that whoever waits for one to end would wait for minutes.
            watches: FairQueue::new(watches, watches_of_one, 0),
            patience,
        }
    }

    /// A permit for a request of a user, given back when it is dropped; or the refusal.
    pub async fn enter(&self, class: RequestClass, user: &str) -> Result<Permit, Status> {
        let queue = self.queue(class);
        let entered = tokio::time::timeout(self.patience, queue.enter(user)).await;
        let permit = entered.ok().flatten();
        permit.ok_or_else(|| Status::too_many_requests("Too many requests, please try again later.", 1))
    }

    /// How many run and how many wait.
    pub fn load(&self, class: RequestClass) -> (usize, usize) {
        self.queue(class).load()
    }

    fn queue(&self, class: RequestClass) -> &Arc<FairQueue> {
        match class {
            RequestClass::ReadOnly => &self.read_only,
            RequestClass::Mutating => &self.mutating,
            RequestClass::Watch => &self.watches,
        }
    }
}

#[cfg(test)]
mod tests;
