//! The packages that are compiled into the program, or that help to compile it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::guests;
use crate::shell::cargo;

/// The name of the package whose program is shipped.
pub(super) const PROGRAM: &str = "ferroplane";

/// All packages, by what Cargo knows them by.
#[derive(Debug)]
pub(super) struct Packages(pub(super) BTreeMap<String, Package>);

#[derive(Debug, Clone, Default)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// As an expression of SPDX.
    pub(super) licence: String,
    pub(super) authors: Vec<String>,
    pub(super) repository: Option<String>,
    pub(super) directory: PathBuf,
    /// The SHA-256 of what was downloaded. None for our own.
    pub(super) checksum: Option<String>,
    /// Whether it is in the program, and not only in what builds it.
    pub(super) is_shipped: bool,
    /// What it needs, by what Cargo knows it by.
    pub(super) dependencies: BTreeSet<String>,
}

impl Package {
    /// Its name among the packages of all languages.
    pub(super) fn url(&self) -> String {
        // The one character of versions that has a meaning there.
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    pub(super) fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Described {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Packages {
    /// What is in the program, and in the guests that the program has in it.
    pub(super) fn read(root: &Path, target: &str) -> Result<Self> {
        let mut all =
            Self::read_one(root, PROGRAM, target, &["--features=ferroplane/jemalloc,ferroplane/wasm"])?;
        for (name, directory) in guests::packages(root) {
            all.embed(name, Self::read_one(&directory, name, guests::TARGET, &[])?);
        }
        Ok(all)
    }

    /// What Cargo says, and what `Cargo.lock` says about downloads.
    fn read_one(root: &Path, program: &str, target: &str, features: &[&str]) -> Result<Self> {
        let mut metadata = cargo(root, &["metadata", "--format-version=1", "--locked"]);
        let metadata =
            metadata.args(features).arg(format!("--filter-platform={target}")).standard_output()?;
        let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
        Self::of(program, &metadata, &lock)
    }

    /// Add the packages of a guest, which the program needs.
    fn embed(&mut self, name: &str, guest: Self) {
        let root = guest.0.iter().find(|(_, package)| package.name == name).map(|(id, _)| id.clone());
        for (id, package) in guest.0 {
            let known = self.0.entry(id).or_insert_with(|| package.clone());
            known.is_shipped |= package.is_shipped;
            known.dependencies.extend(package.dependencies);
        }
        if let Some(program) = self.0.values_mut().find(|package| package.name == PROGRAM) {
            program.dependencies.extend(root);
        }
    }

    fn of(program: &str, metadata: &str, lock: &str) -> Result<Self> {
        let Metadata { packages, resolve } =
            serde_json::from_str(metadata).context("cannot read what Cargo says")?;
        let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let found = packages.iter().find(|package| package.name == program);
        let program = found.with_context(|| format!("there is no package `{program}`"))?.id.clone();
        let shipped = reach(&nodes, &program, |kind| kind.is_none());
        let used = reach(&nodes, &program, |kind| kind != Some("dev"));
        let checksums = checksums(lock);
        let mut found = BTreeMap::new();
        for described in packages.into_iter().filter(|package| used.contains(&package.id)) {
            let dependencies =
                nodes.get(described.id.as_str()).map(|node| needs(node, |kind| kind != Some("dev")));
            let checksum = checksums.get(&(described.name.clone(), described.version.clone())).cloned();
            let package = Package {
                // The older form of "either".
                licence: described.license.unwrap_or_default().replace('/', " OR "),
                authors: described.authors,
                repository: described.repository,
                directory: described.manifest_path.parent().map(Path::to_owned).unwrap_or_default(),
                checksum,
                is_shipped: shipped.contains(&described.id),
                dependencies: dependencies.into_iter().flatten().map(str::to_owned).collect(),
                name: described.name,
                version: described.version,
            };
            found.insert(described.id, package);
        }
        Ok(Self(found))
    }

    /// Those that others have written, in the order of their names.
    pub(super) fn foreign(&self) -> Vec<&Package> {
        let mut foreign: Vec<_> = self.0.values().filter(|package| !package.is_ours()).collect();
        foreign.sort_by_key(|package| (&package.name, &package.version));
        foreign
    }
}

/// Everything that a package needs, itself included.
fn reach(nodes: &BTreeMap<&str, &Node>, from: &str, is_meant: fn(Option<&str>) -> bool) -> BTreeSet<String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(id) = open.pop() {
        if reached.insert(id.to_owned())
            && let Some(node) = nodes.get(id)
        {
            open.extend(needs(node, is_meant));
        }
    }
    reached
}

fn needs(node: &Node, is_meant: fn(Option<&str>) -> bool) -> Vec<&str> {
    let is_needed =
        |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| is_meant(kind.kind.as_deref()));
    node.deps.iter().filter(is_needed).map(|dependency| dependency.pkg.as_str()).collect()
}

/// What `Cargo.lock` says about downloads, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const METADATA: &str = r#"{"packages": [
        {"id": "us", "name": "ferroplane", "version": "1.0.0", "license": "Apache-2.0", "manifest_path": "/us/Cargo.toml"},
        {"id": "used", "name": "used", "version": "2.0.0", "license": "MIT/Apache-2.0", "repository": "https://example.org/used",
         "manifest_path": "/used/Cargo.toml"},
        {"id": "built", "name": "built", "version": "3.0.0", "license": "MIT", "manifest_path": "/built/Cargo.toml"},
        {"id": "tested", "name": "tested", "version": "4.0.0", "license": "MIT", "manifest_path": "/tested/Cargo.toml"}
    ], "resolve": {"nodes": [
        {"id": "us", "deps": [
            {"pkg": "used", "dep_kinds": [{"kind": null}]}, {"pkg": "built", "dep_kinds": [{"kind": "build"}]},
            {"pkg": "tested", "dep_kinds": [{"kind": "dev"}]}
        ]},
        {"id": "used", "deps": []}, {"id": "built", "deps": []}, {"id": "tested", "deps": []}
    ]}}"#;
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"ferroplane\"\nversion = \"1.0.0\"\n\n\
        [[package]]\nname = \"used\"\nversion = \"2.0.0\"\nchecksum = \"aa\"\n\n\
        [[package]]\nname = \"built\"\nversion = \"3.0.0\"\nchecksum = \"bb\"\n";

    pub(in super::super) fn packages() -> Packages {
        Packages::of(PROGRAM, METADATA, LOCK).unwrap()
    }

    #[test]
    fn what_is_only_tested_with_is_not_shipped() {
        let Packages(packages) = packages();
        let told: Vec<_> =
            packages.values().map(|it| (it.name.as_str(), it.is_shipped, it.is_ours())).collect();
        assert_eq!(told, [("built", false, false), ("ferroplane", true, true), ("used", true, false)]);
        assert_eq!(packages["used"].licence, "MIT OR Apache-2.0");
        assert_eq!(packages["us"].dependencies, ["built", "used"].map(str::to_owned).into());
    }

    #[test]
    fn what_is_in_a_guest_is_in_the_program() {
        const GUEST: &str = r#"{"packages": [
            {"id": "guest", "name": "guest", "version": "1.0.0", "license": "Apache-2.0", "manifest_path": "/guest/Cargo.toml"},
            {"id": "built", "name": "built", "version": "3.0.0", "license": "MIT", "manifest_path": "/built/Cargo.toml"}
        ], "resolve": {"nodes": [
            {"id": "guest", "deps": [{"pkg": "built", "dep_kinds": [{"kind": null}]}]}, {"id": "built", "deps": []}
        ]}}"#;
        let mut all = packages();
        all.embed("guest", Packages::of("guest", GUEST, LOCK).unwrap());
        assert!(all.0["us"].dependencies.contains("guest"));
        assert!(all.0["built"].is_shipped, "it only helps to build the program, but it is in the guest");
    }
}
