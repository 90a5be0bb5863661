//! The registry of all functions that steps can call: built-in ones, and those that packages and developers serve.
//!
//! Follows Functions and `FunctionRevision`s. A lookup after a change of one of them sees the change.

mod callables;
mod inputs;
mod intercepts;
mod listing;
mod restart;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ferroplane_api::Object;
use ferroplane_client::Informer;
use ferroplane_engine::action::PhaseFunctions;
use ferroplane_engine::can_act;
use ferroplane_engine::rollout::{Overlays, RevisionFact, overlays};
use ferroplane_engine::versions::{Catalogue, Native, Record, Version, VersionSource};
use ferroplane_runner::{Directory, Runner, grpc};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::Context;
use crate::local_functions::LocalFunctions;
use crate::metrics::Metrics;
use crate::packaged::PackagedFunctions;
use crate::rollout::{Calls, Interceptions, Leases, Trials};
use crate::runtime::events::Recorder;
use listing::Address;
use restart::Start;

pub(crate) use callables::{CallableByPhases, CallableFunctions};
pub(crate) use standing::WithoutCommand;

/// The source of events.
const COMPONENT: &str = "functions/function.pkg.crossplane.io";
/// The value of the annotation of a Function that a developer serves.
const DEVELOPMENT: &str = "Development";
/// The message for a Function that a developer serves where that is not allowed.
const DEVELOPMENT_IGNORED: &str = "its annotation `render.crossplane.io/runtime: Development` is ignored: requests would go to it in \
    plain text, with credentials; `ferroplane start --allow-development-functions` allows that";

/// Finds the built-in function that replaces a package.
pub type Natives = Arc<dyn Fn(&str) -> Native + Send + Sync>;

/// Finds mistakes in the input of a version of a built-in function, one per line.
pub type InputMistakes = Arc<dyn Fn(&str, &Version, Option<&Object>) -> Vec<String> + Send + Sync>;

/// The built-in functions.
#[derive(Clone)]
pub struct BuiltIns {
    pub catalogue: Catalogue,
    /// By the name of their revision.
    pub directory: Directory,
    pub natives: Natives,
    pub input_mistakes: InputMistakes,
    /// Those among them that phases of Blueprints call.
    pub phases: Arc<dyn PhaseFunctions>,
    /// Their capabilities, by the name of their revision. A function without any may be called for everything.
    pub capabilities: BTreeMap<String, Vec<String>>,
}

impl fmt::Debug for BuiltIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltIns").field("catalogue", &self.catalogue).finish_non_exhaustive()
    }
}

/// The sources of functions that are not built in.
#[derive(Debug)]
pub(crate) struct FunctionSources {
    /// Programs on this machine.
    pub(crate) local: Arc<LocalFunctions>,
    /// Whether functions that developers serve are called, in plain text and at any address.
    pub(crate) allows_development: bool,
    /// Whether packages are installed.
    pub(crate) installs_packages: bool,
    /// The functions of packages that this process runs.
    pub(crate) packaged: Option<Arc<PackagedFunctions>>,
    /// Whether steps may name revisions and labels.
    pub(crate) has_revision_selectors: bool,
}

/// The current catalogue, for callers that list it.
#[derive(Debug, Clone)]
pub struct FunctionCatalogue(pub(crate) Arc<FunctionRegistry>);

impl FunctionCatalogue {
    /// All versions that can be called now: built-in ones, and those of packages.
    pub fn current(&self) -> Catalogue {
        self.0.current().catalogue.clone()
    }
}

/// Keeps the list of everything that can be called.
#[derive(Debug)]
pub(crate) struct FunctionRegistry {
    built_ins: BuiltIns,
    options: grpc::Options,
    local: Arc<LocalFunctions>,
    packaged: Option<Arc<PackagedFunctions>>,
    installs_packages: bool,
    /// Whether functions that developers serve are called, in plain text and at any address.
    allows_development: bool,
    has_revision_selectors: bool,
    recorder: Recorder,
    functions: Arc<Informer>,
    revisions: Arc<Informer>,
    rollouts: Arc<Informer>,
    intercepts: Arc<Informer>,
    /// The `ImageConfig`s, once they have been read, where packages are installed.
    image_configs: Mutex<Option<Arc<Informer>>>,
    leases: Leases,
    interceptions: Interceptions,
    trials: Arc<Trials>,
    calls: Arc<Calls>,
    metrics: Arc<Metrics>,
    returned: Arc<Returned>,
    start: OnceLock<Start>,
    state: Mutex<State>,
}

/// Notifies of functions that can be reached again.
#[derive(Default)]
struct Returned {
    count: AtomicU64,
    listeners: Mutex<Vec<Listener>>,
}

type Listener = Arc<dyn Fn() + Send + Sync>;

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Returned").field(&self.count).finish()
    }
}

impl Returned {
    fn tell(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener();
        }
    }
}

#[derive(Debug)]
struct State {
    is_stale: bool,
    /// When the first intercept expires if it is not renewed.
    expires_at: Option<Instant>,
    /// The versions of the local and packaged functions in the list.
    local_version: (u64, u64),
    current: Arc<CallableFunctions>,
    /// Connections, by revision and address.
    connections: BTreeMap<Address, Arc<Runner>>,
    /// The Functions that were warned that their address is not called.
    warned: BTreeSet<String>,
    /// Receives our renewed certificates.
    renewed_tls: Option<watch::Receiver<grpc::Tls>>,
}

impl State {
    /// A list of built-in functions only.
    fn new(built_ins: &BuiltIns, options: &grpc::Options) -> Self {
        Self {
            is_stale: true,
            expires_at: None,
            local_version: (0, 0),
            current: Arc::new(CallableFunctions::built_in(built_ins)),
            connections: BTreeMap::new(),
            warned: BTreeSet::new(),
            renewed_tls: options.renewed_tls.clone(),
        }
    }

    /// Whether our certificate was renewed since the last call.
    fn has_new_certificate(&mut self) -> bool {
        let Some(renewed) = &mut self.renewed_tls else { return false };
        let is_new = renewed.has_changed().unwrap_or(false);
        if is_new {
            renewed.mark_unchanged();
        }
        is_new
    }
}

impl FunctionRegistry {
    pub(crate) fn new(
        mut built_ins: BuiltIns,
        options: grpc::Options,
        sources: FunctionSources,
        context: &Context,
    ) -> Arc<Self> {
        if !sources.has_revision_selectors {
            built_ins.catalogue.disable_revision_selectors();
        }
        let state = Mutex::new(State::new(&built_ins, &options));
        let registry = Arc::new(Self {
            built_ins,
            options,
            local: sources.local,
            packaged: sources.packaged,
            installs_packages: sources.installs_packages,
            allows_development: sources.allows_development,
            has_revision_selectors: sources.has_revision_selectors,
            recorder: context.recorder.of(COMPONENT),
            functions: context.functions.clone(),
            revisions: context.function_revisions.clone(),
            rollouts: context.rollouts.clone(),
            intercepts: context.intercepts.clone(),
            image_configs: Mutex::default(),
            leases: Leases::default(),
            interceptions: Interceptions::default(),
            trials: Arc::default(),
            calls: Arc::default(),
            metrics: context.metrics.clone(),
            returned: Arc::default(),
            start: OnceLock::new(),
            state,
        });
        registry.listen();
        registry
    }

    /// Mark the list as outdated when a source changes. It is made when it is needed: most changes come in bursts.
    fn listen(self: &Arc<Self>) {
        for informer in [&self.functions, &self.revisions, &self.rollouts] {
            // Informers outlive the registry: a strong reference would keep it for ever.
            let follower = Arc::downgrade(self);
            informer.listen(move |_, _| {
                if let Some(registry) = follower.upgrade() {
                    registry.mark_stale();
                }
            });
        }
        let follower = Arc::downgrade(self);
        self.intercepts.listen(move |_, change| {
            if let Some(registry) = follower.upgrade()
                && registry.note_intercept(change)
            {
                registry.mark_stale();
            }
        });
    }

    /// Follow the `ImageConfig`s: one that demands signatures decides whether a built-in function may stand in for a package.
    /// They must have been read.
    pub(crate) fn follow_image_configs(self: &Arc<Self>, image_configs: &Arc<Informer>) {
        let mut followed = self.image_configs.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.replace(image_configs.clone()).is_some_and(|former| Arc::ptr_eq(&former, image_configs)) {
            return;
        }
        drop(followed);
        self.mark_stale();
        let registry = Arc::downgrade(self);
        image_configs.listen(move |_, _| {
            if let Some(registry) = registry.upgrade() {
                registry.mark_stale();
            }
        });
    }

    fn mark_stale(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_stale = true;
    }

    /// Whether steps may name revisions and labels, and several revisions of a Function may be active.
    pub(crate) fn has_revision_selectors(&self) -> bool {
        self.has_revision_selectors
    }

    /// The revisions of a function that rollouts use.
    pub(crate) fn held_revisions(&self, function: &str) -> BTreeSet<String> {
        if !self.has_revision_selectors {
            return BTreeSet::new();
        }
        // From the rollouts themselves, and not from the list of all functions: that one changes with every
        // package, and each package asks.
        let Overlays { mut functions, .. } = overlays(&self.rollouts.objects());
        let overlay = functions.remove(function);
        overlay.into_iter().flat_map(|it| [Some(it.stable), it.candidate]).flatten().collect()
    }

    /// The revisions of a function, for rollouts.
    pub(crate) fn revision_facts(&self, function: &str) -> Vec<RevisionFact> {
        let current = self.current();
        let records = current.catalogue.family(function).map(|family| family.records.as_slice());
        let of_package = |record: &&Record| record.source == VersionSource::Package;
        let fact = |record: &Record| RevisionFact {
            name: record.revision.name.clone(),
            number: record.revision.number,
            is_active: record.is_active,
            is_serving: record.is_serving,
        };
        records.unwrap_or_default().iter().filter(of_package).map(fact).collect()
    }

    /// The results of trials of candidates.
    pub(crate) fn trials(&self) -> &Arc<Trials> {
        &self.trials
    }

    /// Calls of the revisions that rollouts compare.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// How many times a function became reachable again.
    pub(crate) fn returns(&self) -> u64 {
        self.returned.count.load(Ordering::Acquire)
    }

    /// Call a listener whenever a function becomes reachable again.
    pub(crate) fn on_return(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.returned.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(listener));
    }

    /// The built-in functions of phases.
    pub(crate) fn phases(&self) -> &dyn PhaseFunctions {
        &*self.built_ins.phases
    }

    /// The functions that phases can call, in one state of the registry.
    pub(crate) fn phases_among<'a>(&'a self, callables: &'a CallableFunctions) -> CallableByPhases<'a> {
        CallableByPhases { registry: self, callables }
    }

    /// Whether phases may call a version of a function. A function without capabilities may be called, unless it is built in.
    fn can_act(&self, function: &str, record: &Record) -> bool {
        let revision = &record.revision.name;
        if record.source == VersionSource::Package {
            let revision = self.revisions.object("", revision);
            let said = revision.as_ref().and_then(|it| it.get("status")?.get("capabilities")?.as_array());
            let said = said.map(|said| said.iter().filter_map(Value::as_str).map(str::to_owned).collect());
            return said.is_none_or(|said: Vec<String>| can_act(&said));
        }
        match self.built_ins.capabilities.get(revision) {
            Some(capabilities) => can_act(capabilities),
            None => self.built_ins.catalogue.family(function).is_none(),
        }
    }

    /// All functions that can be called now.
    pub(crate) fn current(&self) -> Arc<CallableFunctions> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let packaged_version = self.packaged.as_ref().map_or(0, |packaged| packaged.version());
        let local_version = (self.local.version(), packaged_version);
        // Connections to developers' processes use the certificate that we had when they were listed.
        let is_renewed = state.has_new_certificate();
        let is_over = self.has_expired(&mut state) || is_renewed;
        if std::mem::take(&mut state.is_stale) || state.local_version != local_version || is_over {
            // Before the list is made: a change meanwhile makes a new one.
            state.local_version = local_version;
            let next = self.list(&mut state);
            state.current = Arc::new(next);
        }
        state.current.clone()
    }
}
