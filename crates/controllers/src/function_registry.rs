//! Everything that steps can call: what is built in, and what packages and developers serve.
//!
//! Follows Functions and `FunctionRevision`s. What is asked for after one of them changed sees the change.

mod inputs;
mod intercepts;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, FailurePoint, Object, keys, meta};
use ferroplane_client::Informer;
use ferroplane_engine::action::{CustomFunction, PhaseFunction, PhaseFunctions};
use ferroplane_engine::intercept::Intercept;
use ferroplane_engine::packages::is_in_service;
use ferroplane_engine::rollout::{Overlay, Overlays, RevisionFact, overlays};
use ferroplane_engine::versions::{
    Catalogue, Family, Lifecycle, Native, NotReplaced, Record, Replacement, Revision, UnusableFunction,
    Version, VersionSource,
};
use ferroplane_engine::{
    COMMAND_IS_NOT_RUN, Capabilities, FunctionStanding, ImageReference, LocalProgram, Pipeline, can_act,
    chain,
};
use ferroplane_runner::{CallError, Directory, Happening, Observer, Runner, grpc};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use crate::apiextensions::composition_cache::Unusable;
use crate::context::Context;
use crate::local_functions::LocalFunctions;
use crate::metrics::{Called, Metrics};
use crate::packaged::{PackagedFunction, PackagedFunctions};
use crate::rollout::{Calls, Interceptions, Leases, Trials};
use crate::runtime::events::Recorder;
use standing::asks_for_development;

/// How long functions may take in all while a plan is made. Whoever asked waits for it, for a minute at most.
const PLAN_PATIENCE: Duration = Duration::from_secs(30);
/// Who says what happened, in events.
const COMPONENT: &str = "functions/function.pkg.crossplane.io";
/// The value of the annotation by which a Function says that a developer serves it.
const DEVELOPMENT: &str = "Development";
/// What is said of a Function that a developer serves where that is not allowed.
const DEVELOPMENT_IGNORED: &str = "its annotation `render.crossplane.io/runtime: Development` is ignored: requests would go to it in \
    plain text, with credentials; `ferroplane start --allow-development-functions` allows that";

/// Whether something that is built in does what a package does.
pub type Natives = Arc<dyn Fn(&str) -> Native + Send + Sync>;

/// What is wrong with the input of a version of a function that is built in, each in a line.
pub type InputMistakes = Arc<dyn Fn(&str, &Version, Option<&Object>) -> Vec<String> + Send + Sync>;

/// The functions that need no package.
#[derive(Clone)]
pub struct BuiltIns {
    pub catalogue: Catalogue,
    /// By the name of their revision.
    pub directory: Directory,
    pub natives: Natives,
    pub input_mistakes: InputMistakes,
    /// Those among them that phases of Blueprints call.
    pub phases: Arc<dyn PhaseFunctions>,
    /// What they can do, by the name of their revision. Of those who do not say, anything is believed.
    pub capabilities: BTreeMap<String, Vec<String>>,
}

impl fmt::Debug for BuiltIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltIns").field("catalogue", &self.catalogue).finish_non_exhaustive()
    }
}

/// Where functions come from that are not built in, and what may be said of them.
#[derive(Debug)]
pub(crate) struct FunctionSources {
    /// Programs on this machine.
    pub(crate) local: Arc<LocalFunctions>,
    /// Whether functions are called that developers serve, in plain text and wherever they say.
    pub(crate) allows_development: bool,
    /// Whether packages are installed.
    pub(crate) installs_packages: bool,
    /// What somebody runs of packages.
    pub(crate) packaged: Option<Arc<PackagedFunctions>>,
    /// Whether steps may name revisions and labels.
    pub(crate) has_revision_selectors: bool,
}

/// What can be called, for those who list it.
#[derive(Debug, Clone)]
pub struct FunctionCatalogue(pub(crate) Arc<FunctionRegistry>);

impl FunctionCatalogue {
    /// Every version that there is now: what is built in, and what packages brought.
    pub fn current(&self) -> Catalogue {
        self.0.current().catalogue.clone()
    }
}

/// Everything that can be called, at one moment.
#[derive(Debug)]
pub(crate) struct CallableFunctions {
    /// Grows with every change.
    pub(crate) epoch: u64,
    pub(crate) catalogue: Catalogue,
    pub(crate) directory: Directory,
    /// How new revisions are rolled out, by function.
    pub(crate) overlays: BTreeMap<String, Overlay>,
    /// How new revisions of compositions are rolled out, by composition.
    pub(crate) composition_overlays: BTreeMap<String, Overlay>,
    /// Developers' processes that are called in place of functions, by name.
    pub(crate) intercepts: Vec<Intercept>,
    /// What is wrong with functions that cannot be called, by the name of their revision.
    troubles: BTreeMap<String, String>,
    /// What can be called, by the name of its revision, until whoever counts has it.
    called: BTreeMap<String, Called>,
}

impl CallableFunctions {
    /// Decide for every step which version of its function is called.
    pub(crate) fn resolve(&self, pipeline: Pipeline) -> Result<Pipeline, Unusable> {
        self.resolve_preferring(pipeline, |_| None)
    }

    /// The same, where steps that do not say which revision of a function to call prefer these, by function.
    pub(crate) fn resolve_preferring<'p>(
        &self,
        pipeline: Pipeline,
        preferred: impl Fn(&str) -> Option<&'p str>,
    ) -> Result<Pipeline, Unusable> {
        let pipeline = pipeline
            .resolve_preferring(&self.catalogue, preferred)
            .map_err(|error| Unusable::new(chain(&error), error.point()))?;
        for step in pipeline.steps() {
            let revision = step.callee.as_ref().map(|callee| &callee.revision);
            if let Some(trouble) = revision.and_then(|revision| self.troubles.get(revision)) {
                let failure = FailurePoint::new(Cause::FunctionNotConnectable).in_step(&step.name);
                return Err(Unusable::new(format!("step `{}`: {trouble}", step.name), failure));
            }
        }
        Ok(pipeline)
    }

    /// The same, as it would be if steps that name only a function called this revision of it. Every function is asked anew.
    pub(crate) fn preferring(&self, revisions: &BTreeMap<String, String>) -> Result<Self, String> {
        let (mut catalogue, mut overlays) = (self.catalogue.clone(), self.overlays.clone());
        for (function, revision) in revisions {
            catalogue.check_serving(function, revision)?;
            catalogue.prefer(function, revision);
            // A rollout of the function would move some of the composite resources to another revision.
            overlays.remove(function);
        }
        let mut directory = self.directory.without_answers();
        directory.set_deadline(Instant::now() + PLAN_PATIENCE);
        Ok(Self {
            epoch: self.epoch,
            catalogue,
            directory,
            overlays,
            composition_overlays: self.composition_overlays.clone(),
            intercepts: self.intercepts.clone(),
            troubles: self.troubles.clone(),
            called: BTreeMap::new(),
        })
    }

    /// The same, as it would be if all composite resources followed the latest revision of these compositions.
    pub(crate) fn without_rollouts_of(mut self, compositions: &BTreeSet<String>) -> Self {
        self.composition_overlays.retain(|composition, _| !compositions.contains(composition));
        self
    }

    /// Why a revision cannot be called, if it cannot.
    pub(crate) fn trouble(&self, revision: &str) -> Option<String> {
        if self.directory.get(revision).is_some() {
            return None;
        }
        let trouble = self.troubles.get(revision).cloned();
        Some(trouble.unwrap_or_else(|| format!("revision `{revision}` of a function is not there any more")))
    }

    /// Whether all that a pipeline calls is still there.
    pub(crate) fn lists(&self, pipeline: &Pipeline) -> bool {
        let mut callees = pipeline.steps().iter().filter_map(|step| step.callee.as_ref());
        callees.all(|callee| self.directory.get(&callee.revision).is_some())
    }

    /// Note what a revision is of. One that has another name at each start is not told apart.
    fn name(&mut self, revision: &str, function: &str, package: &str, is_told_apart: bool) {
        let told = if is_told_apart { revision.to_owned() } else { String::new() };
        let called = Called { function: function.to_owned(), revision: told, package: package.to_owned() };
        self.called.insert(revision.to_owned(), called);
    }
}

/// The functions that phases of Blueprints call: those that are built in for them, and those of packages and developers.
pub(crate) struct CallableByPhases<'a> {
    registry: &'a FunctionRegistry,
    callables: &'a CallableFunctions,
}

impl PhaseFunctions for CallableByPhases<'_> {
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>> {
        if let Some(built_in) = self.registry.phases().phase_function(function, version) {
            return Some(built_in);
        }
        let is_version =
            |record: &&Record| record.version.as_ref().unwrap_or(&Version::UNVERSIONED) == version;
        let records = &self.callables.catalogue.family(function)?.records;
        let same = records.iter().filter(|record| record.is_active).filter(is_version);
        let record = same.max_by_key(|record| (record.is_serving, record.revision.number))?;
        let can_act = self.registry.can_act(function, record);
        can_act.then(|| Arc::new(CustomFunction::new(&record.revision.name)) as Arc<dyn PhaseFunction>)
    }
}

/// A list of everything that can be called, while it is made.
struct Listing {
    callables: CallableFunctions,
    /// Connections that there were before.
    known: BTreeMap<Address, Arc<Runner>>,
    /// Connections that are used from now on.
    used: BTreeMap<Address, Arc<Runner>>,
}

/// Keeps the list of everything that can be called.
#[derive(Debug)]
pub(crate) struct FunctionRegistry {
    built_ins: BuiltIns,
    options: grpc::Options,
    local: Arc<LocalFunctions>,
    packaged: Option<Arc<PackagedFunctions>>,
    installs_packages: bool,
    /// Whether functions are called that developers serve, in plain text and wherever they say.
    allows_development: bool,
    has_revision_selectors: bool,
    recorder: Recorder,
    functions: Arc<Informer>,
    revisions: Arc<Informer>,
    rollouts: Arc<Informer>,
    intercepts: Arc<Informer>,
    leases: Leases,
    interceptions: Interceptions,
    trials: Arc<Trials>,
    calls: Arc<Calls>,
    metrics: Arc<Metrics>,
    returned: Arc<Returned>,
    state: Mutex<State>,
}

/// Functions that can be reached again after they could not.
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
    /// When the first developer's process is not called any more, if nobody says otherwise.
    expires_at: Option<Instant>,
    /// The versions of the local functions, and of those in packages, that were listed.
    local_version: (u64, u64),
    current: Arc<CallableFunctions>,
    /// Connections, by who uses them and where they lead.
    connections: BTreeMap<Address, Arc<Runner>>,
    /// The Functions that were told that nobody calls them where they say.
    warned: BTreeSet<String>,
    /// Our certificates, as they are renewed.
    renewed_tls: Option<watch::Receiver<grpc::Tls>>,
}

impl State {
    /// Whether our certificate was renewed since this was asked last.
    fn has_new_certificate(&mut self) -> bool {
        let Some(renewed) = &mut self.renewed_tls else { return false };
        let is_new = renewed.has_changed().unwrap_or(false);
        if is_new {
            renewed.mark_unchanged();
        }
        is_new
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    /// Two revisions have a connection each, even to the same address: what answers there is not the same.
    revision: String,
    target: String,
    is_secure: bool,
    /// Of a connection to a developer's process: whom it is for, whom it trusts, and who we are in it. Other connections take up new
    /// certificates themselves.
    parties: Option<[u8; 32]>,
}

/// Why a function cannot be called where it is served.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error(transparent)]
    Target(#[from] grpc::BadTarget),
    #[error("there is no client certificate to call it with: name a directory with --tls-client-certs-dir")]
    NoCertificate,
    #[error(transparent)]
    Client(#[from] CallError),
}

impl FunctionRegistry {
    pub(crate) fn new(
        mut built_ins: BuiltIns,
        options: grpc::Options,
        sources: FunctionSources,
        context: &Context,
    ) -> Arc<Self> {
        let FunctionSources {
            local,
            allows_development,
            installs_packages,
            packaged,
            has_revision_selectors,
        } = sources;
        if !has_revision_selectors {
            built_ins.catalogue.disable_revision_selectors();
        }
        let (functions, revisions) = (context.functions.clone(), context.function_revisions.clone());
        let (metrics, recorder) = (context.metrics.clone(), context.recorder.of(COMPONENT));
        let current = Arc::new(CallableFunctions {
            epoch: 0,
            catalogue: built_ins.catalogue.clone(),
            directory: built_ins.directory.clone(),
            overlays: BTreeMap::new(),
            composition_overlays: BTreeMap::new(),
            intercepts: Vec::new(),
            troubles: BTreeMap::new(),
            called: BTreeMap::new(),
        });
        let state = Mutex::new(State {
            is_stale: true,
            expires_at: None,
            local_version: (0, 0),
            current,
            connections: BTreeMap::new(),
            warned: BTreeSet::new(),
            renewed_tls: options.renewed_tls.clone(),
        });
        let returned = Arc::default();
        let registry = Arc::new(Self {
            built_ins,
            options,
            local,
            packaged,
            installs_packages,
            allows_development,
            has_revision_selectors,
            recorder,
            functions,
            revisions,
            rollouts: context.rollouts.clone(),
            intercepts: context.intercepts.clone(),
            leases: Leases::default(),
            interceptions: Interceptions::default(),
            trials: Arc::default(),
            calls: Arc::default(),
            metrics,
            returned,
            state,
        });
        for informer in [&registry.functions, &registry.revisions, &registry.rollouts] {
            let follower = Arc::downgrade(&registry);
            informer.listen(move |_, _| {
                if let Some(registry) = follower.upgrade() {
                    registry.state.lock().unwrap_or_else(PoisonError::into_inner).is_stale = true;
                }
            });
        }
        let follower = Arc::downgrade(&registry);
        registry.intercepts.listen(move |_, change| {
            if let Some(registry) = follower.upgrade()
                && registry.note_intercept(change)
            {
                registry.state.lock().unwrap_or_else(PoisonError::into_inner).is_stale = true;
            }
        });
        registry
    }

    /// Whether steps may name revisions and labels, and several revisions of a Function may be active.
    pub(crate) fn has_revision_selectors(&self) -> bool {
        self.has_revision_selectors
    }

    /// The revisions of a function that a rollout has composite resources call.
    pub(crate) fn held_revisions(&self, function: &str) -> BTreeSet<String> {
        let current = self.current();
        let overlay = current.overlays.get(function);
        overlay
            .into_iter()
            .flat_map(|it| [Some(&it.stable), it.candidate.as_ref()])
            .flatten()
            .cloned()
            .collect()
    }

    /// What is known of the revisions of a function.
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

    /// How candidates of rollouts did where they were tried.
    pub(crate) fn trials(&self) -> &Arc<Trials> {
        &self.trials
    }

    /// Calls of the revisions that rollouts compare.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// How often a function could be reached again that could not be before.
    pub(crate) fn returns(&self) -> u64 {
        self.returned.count.load(Ordering::Acquire)
    }

    /// Have this called whenever a function can be reached again that could not be before.
    pub(crate) fn on_return(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.returned.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(listener));
    }

    /// What phases of Blueprints call that is built in.
    pub(crate) fn phases(&self) -> &dyn PhaseFunctions {
        &*self.built_ins.phases
    }

    /// What phases of Blueprints call, of all that can be called at one moment.
    pub(crate) fn phases_among<'a>(&'a self, callables: &'a CallableFunctions) -> CallableByPhases<'a> {
        CallableByPhases { registry: self, callables }
    }

    /// Whether a version of a function may be called by phases. Of those who do not say what they can do anything is believed, unless
    /// they are built in.
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

    /// Everything that can be called now.
    pub(crate) fn current(&self) -> Arc<CallableFunctions> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let packaged_version = self.packaged.as_ref().map_or(0, |packaged| packaged.version());
        let local_version = (self.local.version(), packaged_version);
        // Developers' processes are called with the certificate that we had when they were listed.
        let is_renewed = state.has_new_certificate();
        let is_over = self.has_expired(&mut state) || is_renewed;
        if std::mem::take(&mut state.is_stale) || state.local_version != local_version || is_over {
            // Before they are listed: what changes meanwhile is listed again.
            state.local_version = local_version;
            let next = self.list(&mut state);
            state.current = Arc::new(next);
        }
        state.current.clone()
    }

    fn list(&self, state: &mut State) -> CallableFunctions {
        let BuiltIns { catalogue, directory, .. } = self.built_ins.clone();
        let epoch = state.current.epoch + 1;
        let (troubles, called) = (BTreeMap::new(), BTreeMap::new());
        let Overlays { functions, compositions: composition_overlays } = overlays(&self.rollouts.objects());
        let overlays = if self.has_revision_selectors { functions } else { BTreeMap::new() };
        let intercepts = Vec::new();
        let mut callables = CallableFunctions {
            epoch,
            catalogue,
            directory,
            overlays,
            composition_overlays,
            intercepts,
            troubles,
            called,
        };
        for (function, overlay) in &callables.overlays {
            callables.catalogue.prefer(function, &overlay.stable);
        }
        for family in self.built_ins.catalogue.families() {
            for record in &family.records {
                callables.name(&record.revision.name, &family.function, "", true);
            }
        }
        let mut packages: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        for revision in self.revisions.objects() {
            let package = meta::label(&revision, keys::PACKAGE).to_owned();
            packages.entry(package).or_default().push(revision);
        }
        let mut listing =
            Listing { callables, known: std::mem::take(&mut state.connections), used: BTreeMap::new() };
        for function in self.functions.objects() {
            let revisions = packages.remove(meta::name(&function)).unwrap_or_default();
            self.add(&function, &revisions, &mut listing, &mut state.warned);
        }
        // Revisions without a Function can be called too: nothing else may have made them.
        for (name, revisions) in packages.into_iter().filter(|(name, _)| !name.is_empty()) {
            self.add_revisions(&name, None, &revisions, &mut listing);
        }
        state.expires_at = self.list_intercepts(&mut listing);
        state.connections = listing.used;
        let mut callables = listing.callables;
        self.observe(&mut callables);
        callables
    }

    /// Count what happens to calls.
    fn observe(&self, callables: &mut CallableFunctions) {
        let (metrics, called) = (self.metrics.clone(), std::mem::take(&mut callables.called));
        let compared: BTreeSet<String> = callables.overlays.values().flat_map(Overlay::compared).collect();
        self.calls.watch(&compared);
        let calls = self.calls.clone();
        callables.directory.observe(Observer::new(move |revision, happening| {
            if let Some(called) = called.get(revision) {
                metrics.count(called, happening);
            }
            if let Happening::Ended { code, severity, took, .. } = happening
                && compared.contains(revision)
            {
                calls.note(revision, took, code != "OK" || severity == "Fatal");
            }
        }));
    }

    fn add(
        &self,
        function: &Object,
        revisions: &[Object],
        listing: &mut Listing,
        warned: &mut BTreeSet<String>,
    ) {
        let (it, name) = (function, meta::name(function));
        let standing = self.standing(function, revisions);
        let is_ignored = asks_for_development(function) && !self.allows_development;
        let is_program = matches!(standing, FunctionStanding::Program { .. });
        if is_ignored && !is_program && warned.insert(meta::uid(function).to_owned()) {
            self.recorder.warning(function, "DevelopmentIgnored", DEVELOPMENT_IGNORED.to_owned());
        }
        match standing {
            FunctionStanding::Program { state, .. } => self.add_local(function, state.as_ref(), listing),
            FunctionStanding::Development { target } => self.add_served(function, target, listing),
            FunctionStanding::BuiltIn(Replacement { function, version }) => {
                if let Some(family) = self.built_ins.catalogue.family(&function) {
                    listing.callables.catalogue.alias(name, family, version.as_ref());
                    if revisions.is_empty() {
                        return;
                    }
                    let records = self.records(Some(it), revisions);
                    listing.callables.catalogue.add_revisions(name, records);
                    self.list_revisions(name, Some(it), revisions, listing);
                }
            }
            FunctionStanding::NotRun { package, reason } => {
                let why = UnusableFunction { package: package.to_owned(), reason };
                listing.callables.catalogue.add_unusable(name, why);
            }
            FunctionStanding::Revision { .. } | FunctionStanding::Inactive => {
                // Before the revisions, which the catalogue may refuse: a fork is never what it was forked from.
                let why = UnusableFunction {
                    package: text(function, "package").to_owned(),
                    reason: self.why_not_run(function),
                };
                listing.callables.catalogue.add_unusable(name, why);
                self.add_revisions(name, Some(it), revisions, listing);
            }
        }
    }

    /// A function that a developer serves, somewhere. It may be another one each time it is called.
    fn add_served(&self, function: &Object, target: &str, listing: &mut Listing) {
        let name = meta::name(function);
        let mut family = Family::unversioned(name);
        // Whoever is called elsewhere is another one: what came of calling the one before does not hold any more.
        let revision = format!("{name}-{}@{target}", Version::UNVERSIONED);
        for record in &mut family.records {
            record.revision.name.clone_from(&revision);
        }
        let callables = &mut listing.callables;
        callables.catalogue.remove(name);
        // The only version there is: nothing can be wrong with it.
        let _ = callables.catalogue.add(family);
        callables.name(&revision, name, text(function, "package"), false);
        self.connect(revision, target, false, listing);
    }

    /// List a function that a program on this machine serves, or should.
    fn add_local(&self, function: &Object, program: Option<&LocalProgram>, listing: &mut Listing) {
        let name = meta::name(function);
        let trouble = match program {
            None => Some(COMMAND_IS_NOT_RUN.to_owned()),
            Some(program) => program.trouble(),
        };
        let mut family = Family::unversioned(name);
        // Each instance of the program may be of another text. Under a name of its own, nothing that the last one
        // answered is taken for its answer.
        if let Some(LocalProgram::Running { instance, .. }) = program {
            family.records.iter_mut().for_each(|record| record.revision.name += &format!("-{instance}"));
        }
        let revision = family.records.first().map(|record| record.revision.name.clone()).unwrap_or_default();
        let callables = &mut listing.callables;
        callables.catalogue.remove(name);
        let _ = callables.catalogue.add(family);
        callables.name(&revision, name, text(function, "package"), false);
        match (program, trouble) {
            (Some(LocalProgram::Running { address, .. }), _) => {
                self.connect(revision, &address.to_string(), false, listing);
            }
            (_, trouble) => {
                let trouble = format!("function `{name}`: {}", trouble.unwrap_or_default());
                callables.troubles.insert(revision, trouble);
            }
        }
    }

    /// What is built in and runs in place of a Function: a version, or any.
    fn native(&self, function: &Object, image: &str) -> Result<(&Family, Option<Version>), NotReplaced> {
        let Replacement { function, version } = self.native_runtime(function, image)?;
        let family = self.built_ins.catalogue.family(&function);
        Ok((family.ok_or(NotReplaced::NoBuiltIn)?, version))
    }

    /// What is built in can do this.
    pub(crate) fn built_in_capabilities(&self) -> &Capabilities {
        &self.built_ins.capabilities
    }

    /// The name of the built-in revision whose code runs in place of that of a revision of a Function.
    fn native_code(&self, function: &Object, revision: &Object) -> Option<&str> {
        let (family, version) = self.native(function, text(revision, "image")).ok()?;
        let record = family.version(version.as_ref().or(family.stable.as_ref())?)?;
        Some(&record.revision.name)
    }

    /// What the catalogue has to know of the revisions of a Function.
    fn records(&self, function: Option<&Object>, revisions: &[Object]) -> Vec<Record> {
        let native = |revision: &Object| self.native_code(function?, revision);
        let records = revisions.iter().map(|revision| record(revision, native(revision)));
        records.collect()
    }

    fn add_revisions(
        &self,
        function: &str,
        object: Option<&Object>,
        revisions: &[Object],
        listing: &mut Listing,
    ) {
        if revisions.is_empty() {
            return;
        }
        let mut records = self.records(object, revisions);
        records.sort_by_key(|record| record.revision.number);
        let callables = &mut listing.callables;
        callables.catalogue.remove(function);
        let family = Family { function: function.to_owned(), stable: None, records };
        if let Err(faults) = callables.catalogue.add(family) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            warn!(function, faults = faults.join("; "), "cannot use the revisions of a function");
        }
        self.list_revisions(function, object, revisions, listing);
    }

    /// List how revisions are called: what is built in, somebody who runs packages, or whoever serves an endpoint.
    fn list_revisions(
        &self,
        function: &str,
        object: Option<&Object>,
        revisions: &[Object],
        listing: &mut Listing,
    ) {
        // What is not active is not called. To hold its runner would keep it from ending.
        for revision in revisions.iter().filter(|revision| is_active(revision)) {
            let name = meta::name(revision);
            listing.callables.name(name, function, text(revision, "image"), true);
            let native = object.and_then(|object| self.native_code(object, revision));
            if let Some(runner) = native.and_then(|code| self.built_ins.directory.get(code)) {
                listing.callables.directory.insert(name.to_owned(), runner.clone());
                continue;
            }
            if let Some(state) = self.packaged.as_ref().and_then(|packaged| packaged.state(name)) {
                list_packaged(name, function, state, &mut listing.callables);
                continue;
            }
            let status = revision.get("status");
            let endpoint = status.and_then(|status| status.get("endpoint")?.as_str());
            if let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.is_empty()) {
                self.connect(name.to_owned(), endpoint, true, listing);
            } else {
                let trouble = format!(
                    "revision `{name}` of function `{function}` has no endpoint (yet): is its package healthy?"
                );
                listing.callables.troubles.insert(name.to_owned(), trouble);
            }
        }
    }

    /// List a function that is served somewhere, by the connection that is there already if there is one.
    fn connect(&self, revision: String, target: &str, is_secure: bool, listing: &mut Listing) {
        let address =
            Address { revision: revision.clone(), target: target.to_owned(), is_secure, parties: None };
        let known = listing.known.get(&address).cloned();
        let runner = match known.map_or_else(|| self.dial(&address), Ok) {
            Ok(runner) => runner,
            Err(trouble) => {
                listing.callables.troubles.insert(revision, chain(&trouble));
                return;
            }
        };
        let directory = &mut listing.callables.directory;
        if address.is_secure {
            directory.insert(revision, runner.clone());
        } else {
            // Whoever serves it may serve another one tomorrow, under the same name and at the same address.
            directory.insert_changeable(revision, runner.clone());
        }
        listing.used.insert(address, runner);
    }

    fn dial(&self, address: &Address) -> Result<Arc<Runner>, DialError> {
        let target: grpc::Target = address.target.parse()?;
        let mut options = self.options.clone();
        if !address.is_secure {
            options.tls = None;
        } else if options.tls.is_none() {
            return Err(DialError::NoCertificate);
        }
        let client = grpc::Client::new(target, options)?;
        let returned = self.returned.clone();
        client.on_return(move || returned.tell());
        Ok(Arc::new(Runner::Grpc(client)))
    }
}

/// List a revision that somebody runs from its package.
fn list_packaged(revision: &str, function: &str, state: PackagedFunction, callables: &mut CallableFunctions) {
    let trouble = match state {
        PackagedFunction::Serving(runner) => {
            callables.directory.insert(revision.to_owned(), runner);
            return;
        }
        PackagedFunction::Starting => "is being started".to_owned(),
        PackagedFunction::Down(why) => format!("does not run: {why}"),
    };
    let trouble = format!("revision `{revision}` of function `{function}` {trouble}");
    callables.troubles.insert(revision.to_owned(), trouble);
}

/// A field of the spec, or nothing.
fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get("spec").and_then(|spec| spec.get(field)?.as_str()).unwrap_or_default()
}

fn is_active(revision: &Object) -> bool {
    text(revision, "desiredState") == "Active"
}

fn record(revision: &Object, built_in: Option<&str>) -> Record {
    let spec = revision.get("spec").and_then(Value::as_object);
    let labels = revision.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
    let labels = labels.into_iter().flatten();
    let number = spec.and_then(|spec| spec.get("revision")?.as_u64()).unwrap_or_default();
    Record {
        revision: Revision { name: meta::name(revision).to_owned(), number },
        version: ImageReference::parse(text(revision, "image")).tag.and_then(|tag| tag.parse().ok()),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        lifecycle: Lifecycle::default(),
        is_active: is_active(revision),
        // What is built in needs no start.
        is_serving: built_in.is_some() || is_in_service(revision),
        built_in: built_in.map(str::to_owned),
        source: VersionSource::Package,
        is_implemented: true,
    }
}
