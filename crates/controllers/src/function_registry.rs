//! Everything that steps can call: what is built in, and what packages and developers serve.
//!
//! Follows Functions and `FunctionRevision`s. What is asked for after one of them changed sees the change.

mod inputs;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Cause, FailurePoint, Object, keys, meta};
use ferroplane_client::Informer;
use ferroplane_engine::versions::{
    Catalogue, Family, Lifecycle, Native, NotReplaced, Record, Replaceable, Replacement, Revision,
    UnusableFunction, Version, VersionSource, replacement,
};
use ferroplane_engine::{
    COMMAND_IS_NOT_RUN, Capabilities, FunctionStanding, ImageReference, LocalProgram, Pipeline, chain,
};
use ferroplane_runner::{CallError, Directory, Observer, Runner, grpc};
use serde_json::Value;
use tracing::warn;

use crate::apiextensions::composition_cache::Unusable;
use crate::context::Context;
use crate::local_functions::LocalFunctions;
use crate::metrics::{Called, Metrics};
use crate::runtime::events::Recorder;
use standing::asks_for_development;

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
    /// What they can do, by the name of their revision. Of those who do not say, anything is believed.
    pub capabilities: BTreeMap<String, Vec<String>>,
}

impl fmt::Debug for BuiltIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltIns").field("catalogue", &self.catalogue).finish_non_exhaustive()
    }
}

/// Everything that can be called, at one moment.
#[derive(Debug)]
pub(crate) struct CallableFunctions {
    /// Grows with every change.
    pub(crate) epoch: u64,
    pub(crate) catalogue: Catalogue,
    pub(crate) directory: Directory,
    /// What is wrong with functions that cannot be called, by the name of their revision.
    troubles: BTreeMap<String, String>,
    /// What can be called, by the name of its revision, until whoever counts has it.
    called: BTreeMap<String, Called>,
}

impl CallableFunctions {
    /// Decide for every step which version of its function is called.
    pub(crate) fn resolve(&self, pipeline: Pipeline) -> Result<Pipeline, Unusable> {
        let pipeline =
            pipeline.resolve(&self.catalogue).map_err(|error| Unusable::new(chain(&error), error.point()))?;
        for step in pipeline.steps() {
            let revision = step.callee.as_ref().map(|callee| &callee.revision);
            if let Some(trouble) = revision.and_then(|revision| self.troubles.get(revision)) {
                let failure = FailurePoint::new(Cause::FunctionNotConnectable).in_step(&step.name);
                return Err(Unusable::new(format!("step `{}`: {trouble}", step.name), failure));
            }
        }
        Ok(pipeline)
    }

    /// Note what a revision is of.
    fn name(&mut self, revision: &str, function: &str, package: &str) {
        let called = Called { function: function.to_owned(), package: package.to_owned() };
        self.called.insert(revision.to_owned(), called);
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
    /// Whether functions are called that developers serve, in plain text and wherever they say.
    allows_development: bool,
    recorder: Recorder,
    functions: Arc<Informer>,
    revisions: Arc<Informer>,
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
    /// The version of the local functions that were listed.
    local_version: u64,
    current: Arc<CallableFunctions>,
    /// Connections, by where they lead. They outlive the revisions that use them.
    connections: BTreeMap<Address, Arc<Runner>>,
    /// The Functions that were told that nobody calls them where they say.
    warned: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    target: String,
    is_secure: bool,
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
        built_ins: BuiltIns,
        options: grpc::Options,
        local: Arc<LocalFunctions>,
        allows_development: bool,
        context: &Context,
    ) -> Arc<Self> {
        let (functions, revisions) = (context.functions.clone(), context.function_revisions.clone());
        let (metrics, recorder) = (context.metrics.clone(), context.recorder.of(COMPONENT));
        let current = Arc::new(CallableFunctions {
            epoch: 0,
            catalogue: built_ins.catalogue.clone(),
            directory: built_ins.directory.clone(),
            troubles: BTreeMap::new(),
            called: BTreeMap::new(),
        });
        let state = Mutex::new(State {
            is_stale: true,
            local_version: 0,
            current,
            connections: BTreeMap::new(),
            warned: BTreeSet::new(),
        });
        let returned = Arc::default();
        let registry = Arc::new(Self {
            built_ins,
            options,
            local,
            allows_development,
            recorder,
            functions,
            revisions,
            metrics,
            returned,
            state,
        });
        for informer in [&registry.functions, &registry.revisions] {
            let follower = Arc::downgrade(&registry);
            informer.listen(move |_, _| {
                if let Some(registry) = follower.upgrade() {
                    registry.state.lock().unwrap_or_else(PoisonError::into_inner).is_stale = true;
                }
            });
        }
        registry
    }

    /// How often a function could be reached again that could not be before.
    pub(crate) fn returns(&self) -> u64 {
        self.returned.count.load(Ordering::Acquire)
    }

    /// Have this called whenever a function can be reached again that could not be before.
    pub(crate) fn on_return(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.returned.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(listener));
    }

    /// Everything that can be called now.
    pub(crate) fn current(&self) -> Arc<CallableFunctions> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let local_version = self.local.version();
        if std::mem::take(&mut state.is_stale) || state.local_version != local_version {
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
        let mut callables = CallableFunctions { epoch, catalogue, directory, troubles, called };
        for family in self.built_ins.catalogue.families() {
            for record in &family.records {
                callables.name(&record.revision.name, &family.function, "");
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
            self.add_revisions(&name, &revisions, &mut listing);
        }
        state.connections = listing.used;
        let mut callables = listing.callables;
        self.observe(&mut callables);
        callables
    }

    /// Count what happens to calls.
    fn observe(&self, callables: &mut CallableFunctions) {
        let (metrics, called) = (self.metrics.clone(), std::mem::take(&mut callables.called));
        callables.directory.observe(Observer::new(move |revision, happening| {
            if let Some(called) = called.get(revision) {
                metrics.count(called, happening);
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
        let name = meta::name(function);
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
                self.add_revisions(name, revisions, listing);
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
        callables.name(&revision, name, text(function, "package"));
        let address = Address { target: target.to_owned(), is_secure: false };
        self.connect(revision, address, listing);
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
        callables.name(&revision, name, text(function, "package"));
        match (program, trouble) {
            (Some(LocalProgram::Running { address, .. }), _) => {
                let address = Address { target: address.to_string(), is_secure: false };
                self.connect(revision, address, listing);
            }
            (_, trouble) => {
                let trouble = format!("function `{name}`: {}", trouble.unwrap_or_default());
                callables.troubles.insert(revision, trouble);
            }
        }
    }

    /// What is built in and runs in place of a Function: a version, or any.
    fn native(&self, function: &Object) -> Result<(&Family, Option<Version>), NotReplaced> {
        let (name, package) = (meta::name(function), text(function, "package"));
        let annotation = Some(meta::annotation(function, keys::NATIVE)).filter(|text| !text.is_empty());
        let catalogue = &self.built_ins.catalogue;
        let function = Replaceable { name, package, annotation };
        let Replacement { function, version } =
            replacement(function, catalogue, |package| (self.built_ins.natives)(package))?;
        Ok((catalogue.family(&function).ok_or(NotReplaced::NoBuiltIn)?, version))
    }

    /// What is built in can do this.
    pub(crate) fn built_in_capabilities(&self) -> &Capabilities {
        &self.built_ins.capabilities
    }

    fn add_revisions(&self, function: &str, revisions: &[Object], listing: &mut Listing) {
        if revisions.is_empty() {
            return;
        }
        let mut records: Vec<_> = revisions.iter().map(record).collect();
        records.sort_by_key(|record| record.revision.number);
        let callables = &mut listing.callables;
        callables.catalogue.remove(function);
        let family = Family { function: function.to_owned(), stable: None, records };
        if let Err(faults) = callables.catalogue.add(family) {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            warn!(function, faults = faults.join("; "), "cannot list a function");
        }
        for revision in revisions {
            let name = meta::name(revision);
            listing.callables.name(name, function, text(revision, "image"));
            let status = revision.get("status");
            let endpoint = status.and_then(|status| status.get("endpoint")?.as_str());
            if let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.is_empty()) {
                let address = Address { target: endpoint.to_owned(), is_secure: true };
                self.connect(name.to_owned(), address, listing);
            } else {
                let trouble = format!(
                    "revision `{name}` of function `{function}` has no endpoint (yet): is its package healthy?"
                );
                listing.callables.troubles.insert(name.to_owned(), trouble);
            }
        }
    }

    /// List a function that is served somewhere, by the connection that is there already if there is one.
    fn connect(&self, revision: String, address: Address, listing: &mut Listing) {
        let known = listing.used.get(&address).or_else(|| listing.known.get(&address)).cloned();
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

/// A field of the spec, or nothing.
fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get("spec").and_then(|spec| spec.get(field)?.as_str()).unwrap_or_default()
}

fn record(revision: &Object) -> Record {
    let spec = revision.get("spec").and_then(Value::as_object);
    let labels = revision.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
    let labels = labels.into_iter().flatten();
    let number = spec.and_then(|spec| spec.get("revision")?.as_u64()).unwrap_or_default();
    Record {
        revision: Revision { name: meta::name(revision).to_owned(), number },
        version: ImageReference::parse(text(revision, "image")).tag.and_then(|tag| tag.parse().ok()),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        lifecycle: Lifecycle::default(),
        is_active: text(revision, "desiredState") == "Active",
        source: VersionSource::Package,
        is_implemented: true,
    }
}
