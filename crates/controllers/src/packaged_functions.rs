//! Functions in packages that somebody runs: controllers list which are wanted, and whoever runs them says how each is doing.
//!
//! `ferroplane up` runs them in containers, and WebAssembly in its own process; `ferroplane start` only the latter. Controllers know nothing
//! of that: they call what is listed here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_runner::Runner;
use tokio::sync::watch;

use crate::pkg::ImageRequest;

/// The functions in packages that are to be served, and how each is doing, by the names of their revisions.
#[derive(Debug, Default)]
pub struct PackagedFunctions {
    wanted: watch::Sender<BTreeMap<String, PackagedImage>>,
    states: Mutex<BTreeMap<String, PackagedFunction>>,
    /// How often they have changed.
    changes: watch::Sender<u64>,
}

/// The image of a function that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedImage {
    /// Named by its digest.
    pub image: ImageRequest,
    /// What its Function grants it, if its program is WebAssembly.
    pub grants: String,
    /// How long its server may go on without being called, as its Function says it. Empty is for ever.
    pub idle_timeout: String,
}

/// How a function in a package is doing.
#[derive(Debug, Clone)]
pub enum PackagedFunction {
    Starting,
    /// It is called by this.
    Serving(Arc<Runner>),
    /// It does not run, for this reason. No times: it stands in conditions.
    Down(String),
}

impl PackagedFunctions {
    /// The images that are to be served, by the names of their revisions.
    pub fn wanted(&self) -> watch::Receiver<BTreeMap<String, PackagedImage>> {
        self.wanted.subscribe()
    }

    /// Say how a function is doing now, or that it is gone.
    pub fn set(&self, revision: &str, state: Option<PackagedFunction>) {
        let mut states = self.lock();
        match state {
            Some(state) => states.insert(revision.to_owned(), state),
            None => states.remove(revision),
        };
        drop(states);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Have the image of a revision served. What is served already goes on.
    pub(crate) fn want(&self, revision: &str, wanted_image: PackagedImage) {
        self.wanted.send_if_modified(|wanted| {
            let is_same = |known: &PackagedImage| {
                known.image.image == wanted_image.image.image
                    && known.grants == wanted_image.grants
                    && known.idle_timeout == wanted_image.idle_timeout
            };
            let is_new = !wanted.get(revision).is_some_and(is_same);
            if is_new {
                wanted.insert(revision.to_owned(), wanted_image);
            }
            is_new
        });
    }

    /// Have a revision served no longer.
    pub(crate) fn release(&self, revision: &str) {
        self.wanted.send_if_modified(|wanted| wanted.remove(revision).is_some());
    }

    /// How a revision is doing that is to be served.
    pub(crate) fn state(&self, revision: &str) -> Option<PackagedFunction> {
        let state = self.lock().get(revision).cloned();
        self.wanted.borrow().contains_key(revision).then(|| state.unwrap_or(PackagedFunction::Starting))
    }

    /// Grows with every change.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PackagedFunction>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
