//! Decides which packages are installed or moved to another version because other packages depend on them.
//!
//! The dependencies of a dependency are known once it is installed and in the `Lock`. So each reconcile decides about the packages that
//! are missing now; the next one about theirs.
//!
//! # Invariants
//! * A package that cannot be obtained, or whose dependents require versions that exclude each other, does not stop other packages.
//! * The chosen version meets the constraints of all dependents.
//! * Packages are never removed, and move to another version only where that is allowed.

mod choice;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ferroplane_api::{LockPackage, PackageKind};

use super::dependencies::{accepts, is_digest};
use super::names::dns_label;
use choice::{Wish, choose};

/// The tags in registries, by source, or why a registry could not be read.
pub type KnownTags = BTreeMap<String, Result<Vec<String>, String>>;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledPackage {
    pub kind: PackageKind,
    pub name: String,
    /// The image without tag and digest, before it was rewritten.
    pub source: String,
    /// The tag or digest that it was resolved to.
    pub version: String,
}

/// What is allowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResolveOptions {
    pub upgrades: bool,
    /// Includes upgrades.
    pub downgrades: bool,
}

impl ResolveOptions {
    /// What an administrator allows. Downgrades include upgrades.
    pub fn allowing(upgrades: bool, downgrades: bool) -> Self {
        Self { upgrades: upgrades || downgrades, downgrades }
    }
}

/// What the `Lock` requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Sources whose tags have to be read first.
    pub ask: BTreeSet<String>,
    pub changes: Vec<PackageChange>,
    pub conflicts: Vec<Conflict>,
}

/// A change of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageChange {
    /// Install a package.
    Install { kind: PackageKind, name: String, image: String },
    /// Move a package to another version.
    Move { kind: PackageKind, name: String, image: String },
}

/// Why a dependency cannot be obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub source: String,
    pub why: String,
    /// Its dependents, each with the path from a package without dependents, and its constraint.
    pub wanted_by: Vec<(Vec<String>, String)>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot resolve `{}`: {}", self.source, self.why)?;
        for (number, (path, constraints)) in self.wanted_by.iter().enumerate() {
            let link = if number == 0 { "; wanted by" } else { "," };
            write!(f, "{link} {} ({})", path.join(" → "), constraints.trim())?;
        }
        Ok(())
    }
}

/// The changes that the `Lock` requires, given the installed packages and the known tags.
pub fn resolve_dependencies(
    lock: &[LockPackage],
    installed: &[InstalledPackage],
    tags: &KnownTags,
    options: ResolveOptions,
) -> Resolution {
    let mut resolution = Resolution::default();
    let cyclic = in_cycles(lock);
    for (source, wishes) in wishes(lock) {
        // A dependency that only packages in a cycle have is not installed: that would extend the cycle.
        if wishes.iter().all(|wish| cyclic.contains(&*wish.by.source)) && !is_locked(lock, source) {
            let why = "the packages that depend on it depend on each other".to_owned();
            resolution.conflicts.push(conflict(lock, source, &wishes, why));
            continue;
        }
        match decide(lock, installed, tags, options, source, &wishes) {
            Verdict::Fine => {}
            Verdict::Ask => {
                resolution.ask.insert(source.to_owned());
            }
            Verdict::Change(change) => resolution.changes.push(change),
            Verdict::Conflict(why) => resolution.conflicts.push(conflict(lock, source, &wishes, why)),
        }
    }
    resolution
}

enum Verdict {
    Fine,
    Ask,
    Change(PackageChange),
    Conflict(String),
}

fn decide(
    lock: &[LockPackage],
    installed: &[InstalledPackage],
    tags: &KnownTags,
    options: ResolveOptions,
    source: &str,
    wishes: &[Wish<'_>],
) -> Verdict {
    let existing = installed.iter().find(|package| package.source == source);
    let version = lock.iter().find(|package| package.source == source).map(|package| &*package.version);
    let fits = |version: &str| wishes.iter().all(|wish| accepts(wish.constraints, version));
    match (existing, version) {
        (_, Some(version)) if fits(version) => return Verdict::Fine,
        // It is installed, but not yet in the lock.
        (Some(package), None) if fits(&package.version) || !(options.upgrades || options.downgrades) => {
            return Verdict::Fine;
        }
        // The dependent reports that it requires another version.
        (_, Some(_)) if !(options.upgrades || options.downgrades) => return Verdict::Fine,
        _ => {}
    }
    let known = match tags.get(source) {
        _ if wishes.iter().any(|wish| is_digest(wish.constraints)) => &[][..],
        None => return Verdict::Ask,
        Some(Err(why)) => return Verdict::Conflict(format!("its versions cannot be listed: {why}")),
        Some(Ok(tags)) => tags,
    };
    let current = existing.map(|package| &*package.version);
    let chosen = match choose(wishes, known, current, options) {
        Ok(chosen) => chosen,
        Err(why) => return Verdict::Conflict(why),
    };
    let separator = if is_digest(&chosen) { '@' } else { ':' };
    let image = format!("{source}{separator}{chosen}");
    match existing {
        Some(package) if package.version == chosen => Verdict::Fine,
        Some(package) => {
            Verdict::Change(PackageChange::Move { kind: package.kind, name: package.name.clone(), image })
        }
        None => match wishes.iter().find_map(|wish| wish.kind) {
            Some(kind) => install(kind, source, image, installed),
            None => Verdict::Conflict("no dependency names the kind of the package".to_owned()),
        },
    }
}

/// Install a package, unless another one has its name: names have no registry.
fn install(kind: PackageKind, source: &str, image: String, installed: &[InstalledPackage]) -> Verdict {
    let name = package_name(source);
    match installed.iter().find(|package| package.kind == kind && package.name == name) {
        None => Verdict::Change(PackageChange::Install { kind, name, image }),
        Some(other) => Verdict::Conflict(format!(
            "its name would be `{name}`, which {} `{}` has; install it under another name",
            kind.name(),
            other.source
        )),
    }
}

/// The name of a package that is installed as a dependency.
fn package_name(source: &str) -> String {
    // Without the registry: the same package from a mirror has the same name.
    let path = match source.split_once('/') {
        Some((registry, path)) if registry.contains(['.', ':']) => path,
        _ => source,
    };
    dns_label(path)
}

/// The constraints on each source, in the order of the lock.
fn wishes(lock: &[LockPackage]) -> BTreeMap<&str, Vec<Wish<'_>>> {
    let mut wishes: BTreeMap<&str, Vec<Wish<'_>>> = BTreeMap::new();
    for package in lock {
        for dependency in &package.dependencies {
            wishes.entry(&dependency.package).or_default().push(Wish {
                by: package,
                kind: dependency.package_kind(),
                constraints: &dependency.constraints,
            });
        }
    }
    wishes
}

fn is_locked(lock: &[LockPackage], source: &str) -> bool {
    lock.iter().any(|package| package.source == source)
}

/// The sources of packages that depend on themselves, directly or indirectly.
fn in_cycles(lock: &[LockPackage]) -> BTreeSet<&str> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in lock {
        let needs = package.dependencies.iter().map(|dependency| &*dependency.package);
        edges.entry(&package.source).or_default().extend(needs);
    }
    // A package without dependencies is in no cycle, and neither is one that leads only to such. The rest leads to
    // a cycle; the same in the other direction leaves the cycles.
    let mut left = edges.clone();
    for _ in 0..2 {
        loop {
            let ends: Vec<&str> = left
                .iter()
                .filter(|(_, needs)| !needs.iter().any(|need| left.contains_key(need)))
                .map(|(source, _)| *source)
                .collect();
            if ends.is_empty() {
                break;
            }
            for end in ends {
                left.remove(end);
            }
        }
        left = reversed(&left);
    }
    left.into_keys().collect()
}

fn reversed<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut reversed: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|source| (*source, BTreeSet::new())).collect();
    for (source, needs) in edges {
        for need in needs.iter().filter(|need| edges.contains_key(*need)) {
            reversed.entry(need).or_default().insert(source);
        }
    }
    reversed
}

fn conflict(lock: &[LockPackage], source: &str, wishes: &[Wish<'_>], why: String) -> Conflict {
    let wanted_by = wishes.iter().map(|wish| (path_to(lock, wish.by), wish.constraints.to_owned()));
    Conflict { source: source.to_owned(), why, wanted_by: wanted_by.collect() }
}

/// The path to a package from one without dependents.
fn path_to(lock: &[LockPackage], package: &LockPackage) -> Vec<String> {
    let (mut path, mut seen) = (vec![label(package)], BTreeSet::from([&*package.source]));
    let mut at = package;
    let parent = |of: &LockPackage| {
        lock.iter().find(|other| other.dependencies.iter().any(|dependency| dependency.package == of.source))
    };
    while let Some(next) = parent(at)
        && seen.insert(&next.source)
    {
        path.push(label(next));
        at = next;
    }
    path.reverse();
    path
}

fn label(package: &LockPackage) -> String {
    let separator = if is_digest(&package.version) { '@' } else { ':' };
    format!("{}{separator}{}", package.source, package.version)
}

#[cfg(test)]
mod tests;
