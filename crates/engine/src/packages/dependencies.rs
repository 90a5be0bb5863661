//! Checks whether the dependencies of a package are met.
//!
//! # Invariants
//! * Each package is checked only with the packages that it depends on: faults of others do not matter.
//! * Two packages with the same source do not conflict: a dependency is met if one of them meets it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ferroplane_api::{Dependency, LockPackage};
use ferroplane_golang::semver::{Constraints, Version};

/// How many dependencies a message names.
const NAMED: usize = 3;

/// The state of a package's dependencies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DependencyStanding {
    /// How many packages it depends on, directly and indirectly.
    pub found: usize,
    /// How many of those are installed.
    pub installed: usize,
    /// How many of its own dependencies have a version that it does not accept.
    pub invalid: usize,
    pub problem: Option<DependencyProblem>,
}

/// Why a package cannot be used yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DependencyProblem {
    /// These are not installed, sorted, each with the constraint on it.
    Missing(Vec<(String, String)>),
    /// These are installed in a version that is not accepted.
    Incompatible(Vec<Incompatible>),
}

/// A dependency that is installed in a version that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatible {
    pub source: String,
    pub version: String,
    pub constraints: String,
}

impl fmt::Display for DependencyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => {
                let name = |(source, constraints): &(String, String)| format!("\"{source}\" ({constraints})");
                let named: Vec<String> = missing.iter().take(NAMED).map(name).collect();
                write!(f, "missing dependencies: {}", named.join(", "))?;
                match missing.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
            Self::Incompatible(all) => {
                let say = |one: &Incompatible| {
                    let existing = format!("existing package {}@{}", one.source, one.version);
                    match one.constraints.trim() {
                        "" => existing,
                        constraints => format!("{existing} is incompatible with constraint {constraints}"),
                    }
                };
                let all: Vec<String> = all.iter().map(say).collect();
                write!(f, "incompatible dependencies: {}", all.join("; "))
            }
        }
    }
}

/// The state of the dependencies of a package in the lock.
pub fn examine_dependencies(packages: &[LockPackage], own: &LockPackage) -> DependencyStanding {
    let installed = by_source(packages);
    let (reached, missing) = reach(&installed, own);
    let found = reached.len();
    let mut standing =
        DependencyStanding { found, installed: found - missing.len(), ..DependencyStanding::default() };
    if !missing.is_empty() {
        standing.problem = Some(DependencyProblem::Missing(missing.into_iter().collect()));
        return standing;
    }
    let incompatible: Vec<Incompatible> =
        own.dependencies.iter().filter_map(|dependency| incompatible(&installed, dependency)).collect();
    standing.invalid = incompatible.len();
    if !incompatible.is_empty() {
        standing.problem = Some(DependencyProblem::Incompatible(incompatible));
    }
    standing
}

/// Whether a constraint accepts a version. An invalid version or constraint accepts nothing.
pub(super) fn accepts(constraints: &str, version: &str) -> bool {
    let constraints = constraints.trim();
    if is_digest(constraints) {
        return constraints == version;
    }
    let (Ok(constraints), Ok(version)) = (Constraints::parse(constraints), Version::parse(version)) else {
        return false;
    };
    constraints.check(&version)
}

/// Whether it is a digest rather than a range of versions.
pub(super) fn is_digest(constraints: &str) -> bool {
    let digits = constraints.trim().strip_prefix("sha256:");
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

pub(super) type BySource<'a> = BTreeMap<&'a str, Vec<&'a LockPackage>>;

pub(super) fn by_source(packages: &[LockPackage]) -> BySource<'_> {
    let mut sources = BySource::new();
    for package in packages {
        sources.entry(&package.source).or_default().push(package);
    }
    sources
}

/// All sources that a package depends on, directly and indirectly, and those of them that are not installed.
fn reach(installed: &BySource<'_>, own: &LockPackage) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let (mut reached, mut missing) = (BTreeSet::new(), BTreeMap::new());
    let mut waiting: Vec<&Dependency> = own.dependencies.iter().collect();
    while let Some(dependency) = waiting.pop() {
        // A package in a cycle is visited once.
        if !reached.insert(dependency.package.clone()) {
            continue;
        }
        match installed.get(&*dependency.package) {
            Some(packages) => waiting.extend(packages.iter().flat_map(|package| &package.dependencies)),
            None => {
                missing.insert(dependency.package.clone(), dependency.constraints.clone());
            }
        }
    }
    (reached, missing)
}

fn incompatible(installed: &BySource<'_>, dependency: &Dependency) -> Option<Incompatible> {
    let packages = installed.get(&*dependency.package)?;
    if packages.iter().any(|package| accepts(&dependency.constraints, &package.version)) {
        return None;
    }
    Some(Incompatible {
        source: dependency.package.clone(),
        version: packages.first()?.version.clone(),
        constraints: dependency.constraints.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(source: &str, version: &str, dependencies: &[(&str, &str)]) -> LockPackage {
        let dependency = |(package, constraints): &(&str, &str)| Dependency {
            package: (*package).to_owned(),
            constraints: (*constraints).to_owned(),
            ..Dependency::default()
        };
        LockPackage {
            name: format!("{source}-{version}"),
            source: source.to_owned(),
            version: version.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..LockPackage::default()
        }
    }

    fn say(packages: &[LockPackage]) -> (usize, usize, usize, String) {
        let standing = examine_dependencies(packages, &packages[0]);
        let problem = standing.problem.map(|problem| problem.to_string()).unwrap_or_default();
        (standing.found, standing.installed, standing.invalid, problem)
    }

    #[test]
    fn missing_dependencies_are_counted_and_named() {
        let a = package("a", "v1.0.0", &[("b", ">=v1.0.0"), ("c", "*")]);
        let b = package("b", "v1.0.0", &[("d", "v1.0.0"), ("e", "v1.0.0"), ("f", "v1.0.0")]);
        assert_eq!(
            say(&[a.clone(), b]),
            (
                5,
                1,
                0,
                "missing dependencies: \"c\" (*), \"d\" (v1.0.0), \"e\" (v1.0.0), and 1 more".to_owned()
            )
        );
        assert_eq!(say(&[package("a", "v1.0.0", &[])]), (0, 0, 0, String::new()));
    }

    #[test]
    fn versions_of_direct_dependencies_are_compared() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let a = package("a", "v1.0.0", &[("b", ">=v2.0.0"), ("c", &digest), ("d", "~1.2")]);
        let installed =
            [a, package("b", "v1.9.0", &[]), package("c", "v1.0.0", &[]), package("d", "v1.2.7", &[])];
        let (found, present, invalid, problem) = say(&installed);
        assert_eq!((found, present, invalid), (3, 3, 2));
        assert_eq!(
            problem,
            format!(
                "incompatible dependencies: existing package b@v1.9.0 is incompatible with constraint >=v2.0.0; \
                 existing package c@v1.0.0 is incompatible with constraint {digest}"
            )
        );
    }

    #[test]
    fn cycles_and_twins_are_no_obstacle() {
        let a = package("a", "v1.0.0", &[("b", "*")]);
        let b = package("b", "v1.0.0", &[("a", "*")]);
        let twin = package("b", "v2.0.0", &[]);
        assert_eq!(say(&[a.clone(), b.clone(), twin]), (2, 2, 0, String::new()));
        let strict = package("a", "v1.0.0", &[("b", "v2.0.0")]);
        assert_eq!(say(&[strict.clone(), b, package("b", "v2.0.0", &[])]).2, 0);
        assert_eq!(say(&[strict, package("b", "branch", &[])]).2, 1);
    }
}
