//! The built-in functions, in all their versions, and room for those of others.
//!
//! The versions file lists the versions, the code implements them, and the two have to agree: a library that
//! does not come together is an error at start.

mod generated;
mod listed;
mod mistakes;
mod native;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_engine::action::{ArgumentMistake, Move, Phase, PhaseContract, PhaseFunction, Request};
use ferroplane_engine::versions::{Catalogue, Family, Fault, Lifecycle, Version};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Map, Value};

use crate::effort::{Effort, TakesLong};
use crate::{Code, coded_functions, response};
pub use ferroplane_engine::versions::Native;
use generated::LISTED;
use listed::Listed;
pub use mistakes::InputMistake;

/// How a version of a function is done.
#[derive(Clone)]
pub struct Implementation {
    kind: Kind,
    keeps_ttl: bool,
}

#[derive(Clone)]
enum Kind {
    Short(Arc<dyn Fn(&RunFunctionRequest) -> RunFunctionResponse + Send + Sync>),
    Long(Arc<LongCode>),
    Phase(Arc<dyn PhaseFunction>),
}

/// Code that may take long, as [`LongBuiltin`](crate::LongBuiltin) has it, with what it keeps.
type LongCode =
    dyn Fn(&RunFunctionRequest, Effort<'_>) -> Result<RunFunctionResponse, TakesLong> + Send + Sync;

impl Implementation {
    /// One whose calls take microseconds.
    pub fn new(run: impl Fn(&RunFunctionRequest) -> RunFunctionResponse + Send + Sync + 'static) -> Self {
        Self::of_kind(Kind::Short(Arc::new(run)))
    }

    /// One whose calls may take long. It gives up brief calls only.
    pub fn new_long(
        run: impl Fn(&RunFunctionRequest, Effort<'_>) -> Result<RunFunctionResponse, TakesLong>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::of_kind(Kind::Long(Arc::new(run)))
    }

    pub(crate) fn of(code: Code) -> Self {
        match code {
            Code::Short(run) => Self::new(run),
            Code::Long(run) => Self::new_long(run),
            Code::Timed(run) => Self { keeps_ttl: true, ..Self::new_long(run) },
            Code::Phase(function) => Self::of_phases(StaticFunction(function)),
        }
    }

    /// One that phases of Blueprints call.
    pub fn of_phases(function: impl PhaseFunction + 'static) -> Self {
        Self::of_kind(Kind::Phase(Arc::new(function)))
    }

    fn of_kind(kind: Kind) -> Self {
        Self { kind, keeps_ttl: false }
    }

    /// Whether the time to live of its responses is one that a user has set. Otherwise, the function is pure and the time is only that of
    /// its original: the response holds until something else is asked.
    pub fn keeps_ttl(&self) -> bool {
        self.keeps_ttl
    }

    /// The function that phases of Blueprints call, if it is one.
    pub fn phase_function(&self) -> Option<&Arc<dyn PhaseFunction>> {
        match &self.kind {
            Kind::Phase(function) => Some(function),
            Kind::Short(_) | Kind::Long(_) => None,
        }
    }

    /// Call it, however long it takes.
    pub fn run(&self, request: &RunFunctionRequest) -> RunFunctionResponse {
        self.run_timed(request, &|| Duration::ZERO)
    }

    /// Call it if that takes a few milliseconds at most.
    pub fn run_briefly(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, TakesLong> {
        match &self.kind {
            Kind::Short(run) => Ok(run(request)),
            Kind::Long(run) => run(request, Effort::Brief),
            Kind::Phase(_) => Ok(only_phases(request)),
        }
    }

    /// Call it. The clock says for how long that has been going on; at [`Duration::MAX`] it ends soon.
    pub fn run_timed(
        &self,
        request: &RunFunctionRequest,
        elapsed: &dyn Fn() -> Duration,
    ) -> RunFunctionResponse {
        match &self.kind {
            Kind::Short(run) => run(request),
            Kind::Long(run) => run(request, Effort::Full(elapsed)).expect("only brief calls are given up"),
            Kind::Phase(_) => only_phases(request),
        }
    }
}

/// A function of the code, shared like those of others.
struct StaticFunction(&'static dyn PhaseFunction);

impl PhaseFunction for StaticFunction {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        self.0.advance(phase)
    }

    fn contract(&self) -> PhaseContract {
        self.0.contract()
    }

    fn renders_arguments_itself(&self) -> bool {
        self.0.renders_arguments_itself()
    }

    fn argument_mistakes(&self, arguments: &Map<String, Value>) -> Vec<ArgumentMistake> {
        self.0.argument_mistakes(arguments)
    }

    fn clean_up(&self, phase: &Phase<'_>) -> Vec<Request> {
        self.0.clean_up(phase)
    }
}

/// What a step of a Composition or operation gets that calls such a function in spite of what it can be used for.
fn only_phases(request: &RunFunctionRequest) -> RunFunctionResponse {
    let words = "this function is for phases of Blueprints: create an ActionSet that runs one";
    response::fatal(response::to(request), words.to_owned())
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Implementation")
    }
}

/// What a function says about itself.
#[derive(Debug, Clone, Default)]
pub struct Contract {
    /// What it does, in a line.
    pub about: String,
    /// The upstream package that it reproduces, without registry.
    pub package: Option<String>,
    /// Packages of other organisations that are the same package, built again.
    pub mirrors: Vec<String>,
    /// It adds no composed resources of its own.
    pub never_composes: bool,
    /// It says which composed resources are ready, no matter who added them.
    pub declares_readiness: bool,
    /// The structural schema of its input, as JSON. Nothing if it takes none.
    pub input: Option<&'static str>,
    /// A step that uses it, as YAML.
    pub example: Option<&'static str>,
}

impl Contract {
    /// The packages that hold the function, without registry.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.package.iter().chain(&self.mirrors).map(String::as_str)
    }

    /// What Crossplane's package manager calls a Function that it installs because a package depends on it: the
    /// path of the package, as a DNS label.
    fn package_manager_names(&self) -> impl Iterator<Item = String> {
        self.packages().map(|package| package.replace('/', "-"))
    }
}

/// What one version of a function says about itself.
#[derive(Debug, Clone, Default)]
pub struct VersionMetadata {
    pub lifecycle: Lifecycle,
    /// What it can be used for: `composition`, `operation`, `action`.
    pub capabilities: Vec<String>,
    /// The versions of the upstream package whose behaviour it reproduces.
    pub covers: Option<semver::VersionReq>,
    /// Of these, the ones whose answers were compared with its own.
    pub compared: Vec<Version>,
    /// Of these, the ones that could not be run: their published source was read.
    pub read: Vec<Version>,
}

/// A foreign function, with several versions.
#[derive(Debug)]
pub struct Declaration {
    pub function: String,
    pub contract: Contract,
    /// The version for those who name none.
    pub stable: String,
    /// Without an implementation: it was removed, and its number is remembered.
    pub versions: Vec<(String, VersionMetadata, Option<Implementation>)>,
}

/// Every function that runs in our own process.
#[derive(Debug)]
pub struct Library {
    catalogue: Catalogue,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    contract: Contract,
    versions: BTreeMap<Version, (VersionMetadata, Option<Implementation>)>,
}

/// Why functions do not make a library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot list the functions: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidLibrary(pub Vec<Fault>);

impl Library {
    /// The functions that are built in, as this release of the plane has them.
    pub fn built_in() -> Result<Self, InvalidLibrary> {
        let release = env!("CARGO_PKG_VERSION").parse().unwrap_or(Version::UNVERSIONED);
        Self::of(LISTED, &implementations(), release)
    }

    /// What the file lists, joined with what the code has.
    fn of(
        listed: &[Listed],
        code: &BTreeMap<&str, CodedVersions>,
        release: Version,
    ) -> Result<Self, InvalidLibrary> {
        let mut library = Self::empty(release);
        let mut faults = Vec::new();
        for function in listed {
            let coded = code.get(function.function);
            if let Some(coded) = coded {
                faults.extend(disputes(function, coded));
            }
            let declaration = function.declaration(|version| coded?.versions.get(version).cloned());
            // Collected, not returned: all faults should be seen at once.
            if let Err(InvalidLibrary(more)) = library.register(declaration) {
                faults.extend(more);
            }
        }
        // Code that no version lists could never be called, and would be forgotten.
        for (name, coded) in code {
            if !listed.iter().any(|listed| listed.function == *name) {
                let unlisted = coded.versions.keys().cloned();
                faults.extend(
                    unlisted.map(|version| Fault::NotListed { function: (*name).to_owned(), version }),
                );
            }
        }
        if faults.is_empty() { Ok(library) } else { Err(InvalidLibrary(faults)) }
    }

    /// A library of nothing.
    pub fn empty(release: Version) -> Self {
        Self { catalogue: Catalogue::new(release), entries: BTreeMap::new() }
    }

    /// Add a function with versions. Refused, with every reason, if it breaks a rule.
    pub fn register(&mut self, declaration: Declaration) -> Result<(), InvalidLibrary> {
        let Declaration { function, contract, stable, versions } = declaration;
        let parse = |text: &str| {
            text.parse::<Version>().map_err(|error| {
                InvalidLibrary(vec![Fault::InvalidVersion { function: function.clone(), problem: error }])
            })
        };
        let stable = parse(&stable)?;
        let versions =
            versions.into_iter().map(|(number, metadata, code)| Ok((parse(&number)?, metadata, code)));
        let versions = versions.collect::<Result<Vec<_>, InvalidLibrary>>()?;
        let records = versions
            .iter()
            .map(|(version, metadata, code)| (version.clone(), metadata.lifecycle.clone(), code.is_some()));
        let family = Family::built_in(&function, stable, records);
        self.catalogue.add(family.clone()).map_err(InvalidLibrary)?;
        // A Composition of a package names its functions as the package manager does, and has to find them
        // built in as well.
        for name in contract.package_manager_names() {
            self.catalogue.name_further(&name, &family);
        }
        let versions =
            versions.into_iter().map(|(version, metadata, code)| (version, (metadata, code))).collect();
        self.entries.insert(function, Entry { contract, versions });
        Ok(())
    }

    /// Add a function that was never given a version.
    pub fn register_unversioned(
        &mut self,
        function: impl Into<String>,
        contract: Contract,
        implementation: Implementation,
    ) -> Result<(), InvalidLibrary> {
        let version = Version::UNVERSIONED.to_string();
        self.register(Declaration {
            function: function.into(),
            contract,
            stable: version.clone(),
            versions: vec![(version, VersionMetadata::default(), Some(implementation))],
        })
    }

    /// What can be called.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The name under which a function is listed, given any of its names.
    pub fn listed_name(&self, name: &str) -> Option<&str> {
        if let Some((listed, _)) = self.entries.get_key_value(name) {
            return Some(listed);
        }
        let is_named = |entry: &Entry| entry.contract.package_manager_names().any(|other| other == name);
        self.entries.iter().find(|(_, entry)| is_named(entry)).map(|(listed, _)| listed.as_str())
    }

    /// What a function says about itself.
    pub fn contract(&self, function: &str) -> Option<&Contract> {
        self.entries.get(function).map(|entry| &entry.contract)
    }

    /// What a version of a function says about itself.
    pub fn version_metadata(&self, function: &str, version: &Version) -> Option<&VersionMetadata> {
        self.entries.get(function)?.versions.get(version).map(|(metadata, _)| metadata)
    }

    /// What all versions can do, by the name of their revision. Those that do not say are not there.
    pub fn capabilities(&self) -> BTreeMap<String, Vec<String>> {
        let records = self.catalogue.families().flat_map(|family| {
            family.records.iter().filter_map(|record| {
                let metadata = self.version_metadata(&family.function, record.version.as_ref()?)?;
                let says_so = !metadata.capabilities.is_empty();
                says_so.then(|| (record.revision.name.clone(), metadata.capabilities.clone()))
            })
        });
        records.collect()
    }

    /// The code of a version, unless it was removed.
    pub fn implementation(&self, function: &str, version: &Version) -> Option<&Implementation> {
        self.entries.get(function)?.versions.get(version)?.1.as_ref()
    }
}

impl Library {
    /// What phases of Blueprints call, in this version.
    pub fn phase_function(&self, function: &str, version: &Version) -> Option<&Arc<dyn PhaseFunction>> {
        self.implementation(function, version)?.phase_function()
    }
}

/// What the code has of a function.
#[derive(Debug)]
struct CodedVersions {
    stable: Version,
    versions: BTreeMap<Version, Implementation>,
}

fn implementations() -> BTreeMap<&'static str, CodedVersions> {
    let mut coded = BTreeMap::new();
    for builtin in coded_functions() {
        // A test holds every number to be one.
        let version = |text: &str| text.parse().unwrap_or(Version::UNVERSIONED);
        let versions =
            builtin.versions.iter().map(|(number, code)| (version(number), Implementation::of(*code)));
        coded.insert(
            builtin.function,
            CodedVersions { stable: version(builtin.stable), versions: versions.collect() },
        );
    }
    coded
}

/// Where the file and the code say different things.
fn disputes(listed: &Listed, coded: &CodedVersions) -> Vec<Fault> {
    let function = || listed.function.to_owned();
    let mut faults = Vec::new();
    if let Ok(stable) = listed.stable.parse::<Version>()
        && stable != coded.stable
    {
        let declared = coded.stable.clone();
        faults.push(Fault::StableDisputed { function: function(), listed: stable, declared });
    }
    let is_listed = |version: &Version| {
        listed.versions.iter().any(|listed| listed.version.parse::<Version>().as_ref() == Ok(version))
    };
    let unlisted = coded.versions.keys().filter(|version| !is_listed(version));
    faults
        .extend(unlisted.map(|version| Fault::NotListed { function: function(), version: version.clone() }));
    faults
}

#[cfg(test)]
mod tests;
