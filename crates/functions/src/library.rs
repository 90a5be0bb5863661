//! The built-in functions, in all their versions, and room for those of others.
//!
//! The versions file says what there is, the code says how it is done, and the two have to agree: a library that
//! does not come together is an error at start.

mod generated;
mod listed;
mod native;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ferroplane_engine::versions::{Catalogue, Family, Fault, Lifecycle, Version};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::BUILTINS;
pub use ferroplane_engine::versions::Native;
use generated::LISTED;
use listed::Listed;

/// How a version of a function is done.
#[derive(Clone)]
pub struct Implementation(Arc<dyn Fn(&RunFunctionRequest) -> RunFunctionResponse + Send + Sync>);

impl Implementation {
    pub fn new(run: impl Fn(&RunFunctionRequest) -> RunFunctionResponse + Send + Sync + 'static) -> Self {
        Self(Arc::new(run))
    }

    /// Call it.
    pub fn run(&self, request: &RunFunctionRequest) -> RunFunctionResponse {
        (self.0)(request)
    }
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
    /// It adds no composed resources of its own.
    pub never_composes: bool,
    /// It says which composed resources are ready, whoever added them.
    pub declares_readiness: bool,
    /// The structural schema of its input, as JSON. Nothing if it takes none.
    pub input: Option<&'static str>,
    /// A step that uses it, as YAML.
    pub example: Option<&'static str>,
}

/// What one version of a function says about itself.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    pub lifecycle: Lifecycle,
    /// What it can be used for: `composition`, `operation`.
    pub capabilities: Vec<String>,
    /// The versions of the upstream package whose behaviour it reproduces.
    pub covers: Option<semver::VersionReq>,
}

/// A function of somebody else's, with several versions.
#[derive(Debug)]
pub struct Declaration {
    pub function: String,
    pub contract: Contract,
    /// The version for those who name none.
    pub stable: String,
    /// Without an implementation: it was removed, and its number is remembered.
    pub versions: Vec<(String, Terms, Option<Implementation>)>,
}

/// Every function that runs in our own process.
#[derive(Debug)]
pub struct Library {
    catalogue: Catalogue,
    books: BTreeMap<String, Book>,
}

#[derive(Debug)]
struct Book {
    contract: Contract,
    versions: BTreeMap<Version, (Terms, Option<Implementation>)>,
}

/// Why functions do not make a library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot list the functions: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Disorder(pub Vec<Fault>);

impl Library {
    /// The functions that are built in, as this release of the plane has them.
    pub fn built_in() -> Result<Self, Disorder> {
        let release = env!("CARGO_PKG_VERSION").parse().unwrap_or(Version::UNVERSIONED);
        Self::of(LISTED, &implementations(), release)
    }

    /// What the file lists, joined with what the code has.
    fn of(listed: &[Listed], code: &BTreeMap<&str, Coded>, release: Version) -> Result<Self, Disorder> {
        let mut library = Self::empty(release);
        let mut faults = Vec::new();
        for function in listed {
            let coded = code.get(function.function);
            if let Some(coded) = coded {
                faults.extend(disputes(function, coded));
            }
            let declaration = function.declaration(|version| coded?.versions.get(version).cloned());
            if let Err(Disorder(more)) = library.register(declaration) {
                faults.extend(more);
            }
        }
        for (name, coded) in code {
            if !listed.iter().any(|listed| listed.function == *name) {
                let unlisted = coded.versions.keys().cloned();
                faults.extend(
                    unlisted.map(|version| Fault::NotListed { function: (*name).to_owned(), version }),
                );
            }
        }
        if faults.is_empty() { Ok(library) } else { Err(Disorder(faults)) }
    }

    /// A library of nothing.
    pub fn empty(release: Version) -> Self {
        Self { catalogue: Catalogue::new(release), books: BTreeMap::new() }
    }

    /// Add a function with versions. Refused, with every reason, if it breaks a rule.
    pub fn register(&mut self, declaration: Declaration) -> Result<(), Disorder> {
        let Declaration { function, contract, stable, versions } = declaration;
        let parse = |text: &str| {
            text.parse::<Version>().map_err(|error| {
                Disorder(vec![Fault::InvalidVersion { function: function.clone(), problem: error }])
            })
        };
        let stable = parse(&stable)?;
        let versions = versions.into_iter().map(|(number, terms, code)| Ok((parse(&number)?, terms, code)));
        let versions = versions.collect::<Result<Vec<_>, Disorder>>()?;
        let records = versions
            .iter()
            .map(|(version, terms, code)| (version.clone(), terms.lifecycle.clone(), code.is_some()));
        let family = Family::built_in(&function, stable, records);
        self.catalogue.add(family).map_err(Disorder)?;
        let versions = versions.into_iter().map(|(version, terms, code)| (version, (terms, code))).collect();
        self.books.insert(function, Book { contract, versions });
        Ok(())
    }

    /// Add a function that was never given a version.
    pub fn register_unversioned(
        &mut self,
        function: impl Into<String>,
        contract: Contract,
        implementation: Implementation,
    ) -> Result<(), Disorder> {
        let version = Version::UNVERSIONED.to_string();
        self.register(Declaration {
            function: function.into(),
            contract,
            stable: version.clone(),
            versions: vec![(version, Terms::default(), Some(implementation))],
        })
    }

    /// What can be called.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What a function says about itself.
    pub fn contract(&self, function: &str) -> Option<&Contract> {
        self.books.get(function).map(|book| &book.contract)
    }

    /// What a version of a function says about itself.
    pub fn terms(&self, function: &str, version: &Version) -> Option<&Terms> {
        self.books.get(function)?.versions.get(version).map(|(terms, _)| terms)
    }

    /// What all versions can do, by the name of their revision. Those that do not say are not there.
    pub fn capabilities(&self) -> BTreeMap<String, Vec<String>> {
        let records = self.catalogue.families().flat_map(|family| {
            family.records.iter().filter_map(|record| {
                let terms = self.terms(&family.function, record.version.as_ref()?)?;
                let says_so = !terms.capabilities.is_empty();
                says_so.then(|| (record.revision.name.clone(), terms.capabilities.clone()))
            })
        });
        records.collect()
    }

    /// The code of a version, unless it was removed.
    pub fn implementation(&self, function: &str, version: &Version) -> Option<&Implementation> {
        self.books.get(function)?.versions.get(version)?.1.as_ref()
    }
}

/// What the code has of a function.
#[derive(Debug)]
struct Coded {
    stable: Version,
    versions: BTreeMap<Version, Implementation>,
}

fn implementations() -> BTreeMap<&'static str, Coded> {
    let mut coded = BTreeMap::new();
    for builtin in BUILTINS {
        // A test holds every number to be one.
        let version = |text: &str| text.parse().unwrap_or(Version::UNVERSIONED);
        let versions =
            builtin.versions.iter().map(|(number, run)| (version(number), Implementation::new(*run)));
        coded.insert(
            builtin.function,
            Coded { stable: version(builtin.stable), versions: versions.collect() },
        );
    }
    coded
}

/// Where the file and the code say different things.
fn disputes(listed: &Listed, coded: &Coded) -> Vec<Fault> {
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
