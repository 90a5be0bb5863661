//! Makes the list of all functions that can be called, from built-in functions, Functions, their revisions, and intercepts.
//!
//! Connections outlive a list: a function that is called as before keeps its connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::packages::is_in_service;
use ferroplane_engine::rollout::{Overlay, Overlays, overlays};
use ferroplane_engine::versions::{
    Family, Lifecycle, NotReplaced, Record, Replacement, Revision, UnusableFunction, Version, VersionSource,
};
use ferroplane_engine::wording::capitalised;
use ferroplane_engine::{
    COMMAND_IS_NOT_RUN, Capabilities, FunctionStanding, ImageReference, LocalProgram, chain,
};
use ferroplane_runner::{CallError, Happening, Observer, Runner, grpc};
use serde_json::Value;
use tracing::warn;

use super::callables::CallableFunctions;
use super::standing::asks_for_development;
use super::{DEVELOPMENT_IGNORED, FunctionRegistry, State};
use crate::apiextensions::revision::capabilities_of;
use crate::packaged::PackagedFunction;

/// A list that is being made.
pub(super) struct Listing {
    pub(super) callables: CallableFunctions,
    /// The connections of the list before.
    pub(super) known: BTreeMap<Address, Arc<Runner>>,
    /// The connections of this list.
    pub(super) used: BTreeMap<Address, Arc<Runner>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    /// Two revisions have a connection each, even to the same address: different programs may answer there.
    pub(super) revision: String,
    pub(super) target: String,
    pub(super) is_secure: bool,
    /// For a connection to a developer's process: its intercept, the trusted CA, and our certificate. Other connections load new
    /// certificates themselves.
    pub(super) parties: Option<[u8; 32]>,
}

/// Why a function cannot be called at its address.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error(transparent)]
    Target(#[from] grpc::BadTarget),
    #[error("there is no client certificate to call it with: name a directory with --tls-client-certs-dir")]
    NoCertificate,
    #[error(transparent)]
    Client(#[from] CallError),
}

impl FunctionRegistry {
    /// Make the list of all functions that can be called now.
    pub(super) fn list(&self, state: &mut State) -> CallableFunctions {
        let mut callables = self.list_built_ins(state.current.epoch + 1);
        let mut packages: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        // Grouped once: to search all revisions for each Function would be quadratic.
        for revision in self.revisions.objects() {
            callables.capabilities.extend(capabilities_of(&revision));
            let package = meta::label(&revision, keys::PACKAGE).to_owned();
            packages.entry(package).or_default().push(revision);
        }
        // Last, so that a package cannot replace those of a built-in function.
        callables.capabilities.extend(self.built_ins.capabilities.clone());
        let mut listing =
            Listing { callables, known: std::mem::take(&mut state.connections), used: BTreeMap::new() };
        for function in self.functions.objects() {
            let revisions = packages.remove(meta::name(&function)).unwrap_or_default();
            self.add(&function, &revisions, &mut listing, &mut state.warned);
        }
        // Revisions without a Function can be called too: a user may have created only the revision.
        for (name, revisions) in packages.into_iter().filter(|(name, _)| !name.is_empty()) {
            self.add_revisions(&name, None, &revisions, &mut listing);
        }
        state.expires_at = self.list_intercepts(&mut listing);
        // Connections that nothing uses any more end here: they are in `known` only.
        state.connections = listing.used;
        let mut callables = listing.callables;
        self.observe(&mut callables);
        callables
    }

    /// The built-in functions, with the preferences of rollouts.
    fn list_built_ins(&self, epoch: u64) -> CallableFunctions {
        let Overlays { functions, compositions } = overlays(&self.rollouts.objects());
        let mut callables = CallableFunctions {
            epoch,
            overlays: if self.has_revision_selectors { functions } else { BTreeMap::new() },
            composition_overlays: compositions,
            ..CallableFunctions::built_in(&self.built_ins)
        };
        // Before packages are added: the catalogue keeps the preference for revisions that it does not know yet.
        for (function, overlay) in &callables.overlays {
            callables.catalogue.prefer(function, &overlay.stable);
        }
        for family in self.built_ins.catalogue.families() {
            for record in &family.records {
                callables.name(&record.revision.name, &family.function, "", true);
            }
        }
        callables
    }

    /// Observe calls, for metrics and for the gates of rollouts.
    fn observe(&self, callables: &mut CallableFunctions) {
        let (metrics, called) = (self.metrics.clone(), std::mem::take(&mut callables.called));
        let count = Arc::new(move |revision: &str, happening: Happening<'_>| {
            if let Some(called) = called.get(revision) {
                metrics.count(called, happening);
            }
        });
        let counted = count.clone();
        callables.metrics_only = Some(Observer::new(move |revision, happening| counted(revision, happening)));
        let compared: BTreeSet<String> = callables.overlays.values().flat_map(Overlay::compared).collect();
        self.calls.watch(&compared);
        let calls = self.calls.clone();
        callables.directory.observe(Observer::new(move |revision, happening| {
            count(revision, happening);
            if !compared.contains(revision) {
                return;
            }
            if matches!(happening, Happening::Ended { code: "OK", .. } | Happening::Recalled) {
                calls.note_answer(revision);
            }
            if let Happening::Ended { code, severity, took, .. } = happening {
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
            self.recorder.warning(function, "DevelopmentIgnored", capitalised(DEVELOPMENT_IGNORED));
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
                // Before the revisions, which the catalogue may refuse: a fork is never replaced by the original.
                let why = UnusableFunction {
                    package: text(function, "package").to_owned(),
                    reason: self.why_not_run(function),
                };
                listing.callables.catalogue.add_unusable(name, why);
                self.add_revisions(name, Some(it), revisions, listing);
            }
        }
    }

    /// Add a function that a developer serves at an address. Each call may reach another program.
    fn add_served(&self, function: &Object, target: &str, listing: &mut Listing) {
        let name = meta::name(function);
        let mut family = Family::unversioned(name);
        // At another address there is another program: earlier results of calls no longer count.
        let revision = format!("{name}-{}@{target}", Version::UNVERSIONED);
        for record in &mut family.records {
            record.revision.name.clone_from(&revision);
        }
        let callables = &mut listing.callables;
        callables.catalogue.remove(name);
        // It is the only version, so that no rule can be broken.
        let _ = callables.catalogue.add(family);
        callables.name(&revision, name, text(function, "package"), false);
        self.connect(revision, target, false, listing);
    }

    /// Add a function that a program on this machine serves, or should.
    fn add_local(&self, function: &Object, program: Option<&LocalProgram>, listing: &mut Listing) {
        let name = meta::name(function);
        let trouble = match program {
            None => Some(COMMAND_IS_NOT_RUN.to_owned()),
            Some(program) => program.trouble(),
        };
        let mut family = Family::unversioned(name);
        // Each instance of the program may run other code. With a name of its own, cached responses of the last one
        // are not used for it.
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

    /// The built-in function that runs instead of a Function: a version, or any.
    pub(super) fn native(
        &self,
        function: &Object,
        image: &str,
    ) -> Result<(&Family, Option<Version>), NotReplaced> {
        let Replacement { function, version } = self.native_runtime(function, image)?;
        let family = self.built_ins.catalogue.family(&function);
        Ok((family.ok_or(NotReplaced::NoBuiltIn)?, version))
    }

    /// The capabilities of built-in functions.
    pub(crate) fn built_in_capabilities(&self) -> &Capabilities {
        &self.built_ins.capabilities
    }

    /// The name of the built-in revision whose code runs instead of that of a revision of a Function.
    fn native_code(&self, function: &Object, revision: &Object) -> Option<&str> {
        // The newest active revision decides about the Function. Steps can name others.
        if self.refusal_of_revision(revision).is_some() {
            return None;
        }
        let (family, version) = self.native(function, text(revision, "image")).ok()?;
        let record = family.version(version.as_ref().or(family.stable.as_ref())?)?;
        Some(&record.revision.name)
    }

    /// The catalogue records of the revisions of a Function.
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

    /// Add how revisions are called: built in, run from their package, or at an endpoint.
    fn list_revisions(
        &self,
        function: &str,
        object: Option<&Object>,
        revisions: &[Object],
        listing: &mut Listing,
    ) {
        // An inactive revision is not called. Holding its runner would keep its program running.
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

    /// Add a function with an address, with its existing connection if there is one.
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
            // A revision of a package is always the same program, so that its responses may be cached.
            directory.insert(revision, runner.clone());
        } else {
            // Otherwise another program may answer tomorrow, under the same name and at the same address.
            directory.insert_changeable(revision, runner.clone());
        }
        listing.used.insert(address, runner);
    }

    fn dial(&self, address: &Address) -> Result<Arc<Runner>, DialError> {
        let target: grpc::Target = address.target.parse()?;
        let mut options = self.options.clone();
        // Developers' processes have no certificate of ours; `allows_development` has decided that plain text is
        // allowed.
        if !address.is_secure {
            options.tls = None;
        } else if options.tls.is_none() {
            return Err(DialError::NoCertificate);
        }
        let client = grpc::Client::new(target, options)?;
        let returned = self.returned.clone();
        // Composite resources that failed because of it are reconciled at once, instead of after their pause.
        client.on_return(move || returned.tell());
        Ok(Arc::new(Runner::Grpc(client)))
    }
}

/// Add a revision that this process runs from its package.
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

/// A field of the spec. Empty if it is missing.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get("spec").and_then(|spec| spec.get(field)?.as_str()).unwrap_or_default()
}

pub(super) fn is_active(revision: &Object) -> bool {
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
        // Built-in functions need no start.
        is_serving: built_in.is_some() || is_in_service(revision),
        built_in: built_in.map(str::to_owned),
        source: VersionSource::Package,
        is_implemented: true,
    }
}
