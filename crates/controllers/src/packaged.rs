//! Programs in packages: controllers list the ones to run, and the process that runs them reports their state.
//!
//! `ferroplane up` runs functions and providers in containers, and WebAssembly in its own process; `ferroplane start` only the latter.
//! Controllers do not depend on that: they call the functions that are listed here, and report the state of providers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_runner::Runner;
use tokio::sync::watch;

use crate::pkg::ImageRequest;

/// The functions in packages to run, and the state of each, by the names of their revisions.
pub type PackagedFunctions = Packaged<PackagedImage>;
/// The providers in packages to run, and the state of each, by the names of their revisions.
pub type PackagedProviders = Packaged<PackagedProvider>;

/// A program to run.
pub trait PackagedProgram: Debug + Clone + PartialEq + Send + Sync + 'static {
    /// Its state.
    type State: Debug + Clone + Default + Send + 'static;

    /// Whether a running program need not be restarted for this change. Credentials alone do not affect what was fetched.
    fn runs_as(&self, other: &Self) -> bool;
}

/// Programs to run, and the state of each, by the names of their revisions.
#[derive(Debug)]
pub struct Packaged<P: PackagedProgram> {
    wanted: watch::Sender<BTreeMap<String, P>>,
    states: Mutex<BTreeMap<String, P::State>>,
    /// How often they have changed.
    changes: watch::Sender<u64>,
}

/// The image of a function to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedImage {
    /// With its digest.
    pub image: ImageRequest,
    /// The grants of its Function, if its program is WebAssembly.
    pub grants: String,
    /// How long its server may run without calls, as its Function says. Empty: for ever.
    pub idle_timeout: String,
    /// The network that its Function grants it, if its program is not WebAssembly.
    pub network: String,
}

/// The state of a function in a package.
#[derive(Debug, Clone, Default)]
pub enum PackagedFunction {
    #[default]
    Starting,
    /// It is called through this runner.
    Serving(Arc<Runner>),
    /// It does not run, for this reason. Without times: it becomes part of conditions.
    Down(String),
}

/// The image of a provider to run, and its service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedProvider {
    /// With its digest.
    pub image: ImageRequest,
    /// The name of its Provider.
    pub package: String,
    /// The uid of its revision.
    pub uid: String,
    /// The namespace of its service account, which has the name of its revision.
    pub namespace: String,
    /// The uid of that account: tokens of an earlier account of the name are invalid.
    pub account: String,
    /// The network that its Provider grants it.
    pub network: String,
}

/// The state of a provider in a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProviderState {
    #[default]
    Starting,
    /// It runs, in this way.
    Running(String),
    /// It does not run, for this reason. Without times: it becomes part of conditions.
    Down(String),
}

impl PackagedProgram for PackagedImage {
    type State = PackagedFunction;

    fn runs_as(&self, other: &Self) -> bool {
        // Not the pull secrets and the policy: a running program needs no image any more.
        let is_same_image = self.image.image == other.image.image;
        is_same_image && *self == Self { image: self.image.clone(), ..other.clone() }
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
    /// The programs to run, by the names of their revisions.
    pub fn wanted(&self) -> watch::Receiver<BTreeMap<String, P>> {
        self.wanted.subscribe()
    }

    /// Set the state of a program, or that it has ended.
    pub fn set(&self, revision: &str, state: Option<P::State>) {
        let mut states = self.lock();
        match state {
            Some(state) => states.insert(revision.to_owned(), state),
            None => states.remove(revision),
        };
        // Before receivers are notified, which read states at once.
        drop(states);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Run the program of a revision. A running one continues.
    pub(crate) fn want(&self, revision: &str, program: P) {
        self.wanted.send_if_modified(|wanted| {
            // Receivers start and stop programs: without a change they must not be notified.
            let is_new = !wanted.get(revision).is_some_and(|known| known.runs_as(&program));
            if is_new {
                wanted.insert(revision.to_owned(), program);
            }
            is_new
        });
    }

    /// Stop the program of a revision.
    pub(crate) fn release(&self, revision: &str) {
        self.wanted.send_if_modified(|wanted| wanted.remove(revision).is_some());
    }

    /// The state of the program of a revision that is to run.
    pub(crate) fn state(&self, revision: &str) -> Option<P::State> {
        let state = self.lock().get(revision).cloned();
        // A state may outlive its entry: a container that is being stopped must not look as if it served.
        self.wanted.borrow().contains_key(revision).then(|| state.unwrap_or_default())
    }

    /// Increases with every change.
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

    fn request(image: &str, secret: &[u8]) -> ImageRequest {
        let (image, pull_secrets) = (image.to_owned(), vec![secret.to_vec()]);
        ImageRequest { image, pull_secrets, policy: PackagePullPolicy::IfNotPresent }
    }

    fn provider(image: &str, network: &str, secret: &[u8]) -> PackagedProvider {
        let image = request(image, secret);
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
    fn function_is_started_again_for_what_its_annotations_say_and_not_for_other_credentials() {
        let function = |[grants, idle_timeout, network]: [&str; 3], secret: &[u8]| {
            let [grants, idle_timeout, network] = [grants, idle_timeout, network].map(str::to_owned);
            PackagedImage { image: request("a@sha256:1", secret), grants, idle_timeout, network }
        };
        let runs = function([""; 3], b"old");
        assert!(runs.runs_as(&function([""; 3], b"new")));
        for annotations in [["clock", "", ""], ["", "10m", ""], ["", "", "Runner"]] {
            assert!(!runs.runs_as(&function(annotations, b"old")), "{annotations:?}");
        }
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
