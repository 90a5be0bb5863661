//! Programs in packages that somebody runs: controllers list which are wanted, and whoever runs them says how each is doing.
//!
//! `ferroplane up` runs functions and providers in containers, and WebAssembly in its own process; `ferroplane start` only the latter.
//! Controllers know nothing of that: they call the functions that are listed here, and tell how providers are doing.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_runner::Runner;
use tokio::sync::watch;

use crate::pkg::ImageRequest;

/// The functions in packages that are to be served, and how each is doing, by the names of their revisions.
pub type PackagedFunctions = Packaged<PackagedImage>;
/// The providers in packages that are to run, and how each is doing, by the names of their revisions.
pub type PackagedProviders = Packaged<PackagedProvider>;

/// A program that is to be run.
pub trait PackagedProgram: Debug + Clone + PartialEq + Send + Sync + 'static {
    /// How it is doing.
    type State: Debug + Clone + Default + Send + 'static;

    /// Whether what runs need not be started again for this. Credentials alone do not matter to what was fetched.
    fn runs_as(&self, other: &Self) -> bool;
}

/// Programs that are to be run, and how each is doing, by the names of their revisions.
#[derive(Debug)]
pub struct Packaged<P: PackagedProgram> {
    wanted: watch::Sender<BTreeMap<String, P>>,
    states: Mutex<BTreeMap<String, P::State>>,
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
#[derive(Debug, Clone, Default)]
pub enum PackagedFunction {
    #[default]
    Starting,
    /// It is called by this.
    Serving(Arc<Runner>),
    /// It does not run, for this reason. No times: it stands in conditions.
    Down(String),
}

/// The image of a provider that is to be run, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedProvider {
    /// Named by its digest.
    pub image: ImageRequest,
    /// The name of its Provider.
    pub package: String,
    /// The identity of its revision.
    pub uid: String,
    /// The namespace of its service account, which has the name of its revision.
    pub namespace: String,
    /// The identity of that account: tokens of one that was there before are worth nothing.
    pub account: String,
    /// The network that its Provider grants it, as it says it.
    pub network: String,
}

/// How a provider in a package is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProviderState {
    #[default]
    Starting,
    /// It runs, in this way.
    Running(String),
    /// It does not run, for this reason. No times: it stands in conditions.
    Down(String),
}

impl PackagedProgram for PackagedImage {
    type State = PackagedFunction;

    fn runs_as(&self, other: &Self) -> bool {
        self.image.image == other.image.image
            && self.grants == other.grants
            && self.idle_timeout == other.idle_timeout
    }
}

impl PackagedProgram for PackagedProvider {
    type State = ProviderState;

    fn runs_as(&self, other: &Self) -> bool {
        let is_same_image = self.image.image == other.image.image;
        is_same_image && *self == Self { image: self.image.clone(), ..other.clone() }
    }
}

impl<P: PackagedProgram> Default for Packaged<P> {
    fn default() -> Self {
        Self { wanted: watch::Sender::default(), states: Mutex::default(), changes: watch::Sender::default() }
    }
}

impl<P: PackagedProgram> Packaged<P> {
    /// The programs that are to be run, by the names of their revisions.
    pub fn wanted(&self) -> watch::Receiver<BTreeMap<String, P>> {
        self.wanted.subscribe()
    }

    /// Say how a program is doing now, or that it is gone.
    pub fn set(&self, revision: &str, state: Option<P::State>) {
        let mut states = self.lock();
        match state {
            Some(state) => states.insert(revision.to_owned(), state),
            None => states.remove(revision),
        };
        drop(states);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Have the program of a revision run. What runs already goes on.
    pub(crate) fn want(&self, revision: &str, program: P) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = !wanted.get(revision).is_some_and(|known| known.runs_as(&program));
            if is_new {
                wanted.insert(revision.to_owned(), program);
            }
            is_new
        });
    }

    /// Have the program of a revision run no longer.
    pub(crate) fn release(&self, revision: &str) {
        self.wanted.send_if_modified(|wanted| wanted.remove(revision).is_some());
    }

    /// How the program of a revision is doing that is to be run.
    pub(crate) fn state(&self, revision: &str) -> Option<P::State> {
        let state = self.lock().get(revision).cloned();
        self.wanted.borrow().contains_key(revision).then(|| state.unwrap_or_default())
    }

    /// Grows with every change.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, P::State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pkg::PackagePullPolicy;

    fn provider(image: &str, network: &str, secret: &[u8]) -> PackagedProvider {
        let (image, pull_secrets) = (image.to_owned(), vec![secret.to_vec()]);
        let image = ImageRequest { image, pull_secrets, policy: PackagePullPolicy::IfNotPresent };
        PackagedProvider {
            image,
            package: "p".to_owned(),
            uid: "u".to_owned(),
            namespace: "n".to_owned(),
            account: "a".to_owned(),
            network: network.to_owned(),
        }
    }

    #[test]
    fn provider_is_started_again_for_another_image_or_network_and_not_for_other_credentials() {
        let runs = provider("a@sha256:1", "", b"old");
        assert!(runs.runs_as(&provider("a@sha256:1", "", b"new")));
        assert!(!runs.runs_as(&provider("a@sha256:2", "", b"old")));
        assert!(!runs.runs_as(&provider("a@sha256:1", "Runner", b"old")));
    }

    #[test]
    fn what_is_not_wanted_any_more_has_no_state() {
        let providers = PackagedProviders::default();
        providers.set("p-1", Some(ProviderState::Running("so".to_owned())));
        assert_eq!(providers.state("p-1"), None);
        providers.want("p-1", provider("a@sha256:1", "", b""));
        assert_eq!(providers.state("p-1"), Some(ProviderState::Running("so".to_owned())));
        providers.release("p-1");
        assert_eq!(providers.state("p-1"), None);
    }
}
