//! How many requests run at a time, and whose turn it is.
//!
//! Reads, writes and watches are counted apart. While there is room, everyone comes in. When there is none, requests wait,
//! and a place that becomes free goes to whoever has the fewest: a user with a thousand requests does not keep another one
//! waiting for more than one of them. The queue is limited, and so is the time in it: who is too many is told to come
//! again in a second (429).

mod gate;

use std::sync::Arc;
use std::time::Duration;

use ferroplane_schema::status::Status;

pub use gate::Permit;

use gate::Gate;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    ReadOnly,
    Mutating,
    /// It stays, so it must not take a place from those that come and go.
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
            read_only: 400,
            mutating: 200,
            watches: 20_000,
            watches_of_one: 10_000,
            queue: 1_000,
            patience: Duration::from_secs(5),
        }
    }
}

/// The limits of a server.
#[derive(Debug)]
pub struct Limits {
    read_only: Arc<Gate>,
    mutating: Arc<Gate>,
    watches: Arc<Gate>,
    patience: Duration,
}

impl Limits {
    pub fn new(settings: &Settings) -> Self {
        let Settings { read_only, mutating, watches, watches_of_one, queue, patience } = *settings;
        Self {
            read_only: Gate::new(read_only, read_only, queue),
            mutating: Gate::new(mutating, mutating, queue),
            watches: Gate::new(watches, watches_of_one, 0),
            patience,
        }
    }

    /// A place for a request of a user, which is free again when the permit is dropped; or the refusal.
    pub async fn enter(&self, class: Class, user: &str) -> Result<Permit, Status> {
        let gate = self.gate(class);
        let entered = tokio::time::timeout(self.patience, gate.enter(user)).await;
        let permit = entered.ok().flatten();
        permit.ok_or_else(|| Status::too_many_requests("Too many requests, please try again later.", 1))
    }

    /// How many run and how many wait.
    pub fn load(&self, class: Class) -> (usize, usize) {
        self.gate(class).load()
    }

    fn gate(&self, class: Class) -> &Arc<Gate> {
        match class {
            Class::ReadOnly => &self.read_only,
            Class::Mutating => &self.mutating,
            Class::Watch => &self.watches,
        }
    }
}

#[cfg(test)]
mod tests;
