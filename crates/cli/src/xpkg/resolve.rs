//! Which versions a package and all that it depends on have, as registries offer them now.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use ferroplane_api::{LockPackage, PackageKind, meta};
use ferroplane_engine::packages::{
    InstalledPackage, KnownTags, PackageChange, ResolveOptions, dns_label, resolve_dependencies,
};
use ferroplane_image::registry::{Failure, Pull, PullPolicy, Pulled, Registry};
use ferroplane_image::store::Store;
use ferroplane_image::{Digest, Platform, Reference};
use ferroplane_package::image::{is_base, platform_without_runtime, read_stream};
use ferroplane_package::{PackageManifest, open, validate};
use serde::{Deserialize, Serialize};

/// No package has so many steps to its last dependency that there would be more rounds.
const ROUNDS: usize = 200;

/// A package in a version that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockedPackage {
    pub(crate) kind: PackageKind,
    /// The name of the object that is installed.
    pub(crate) name: String,
    pub(crate) source: String,
    /// The tag, or the digest where a digest is depended on.
    pub(crate) version: String,
    /// What the version led to.
    pub(crate) digest: Digest,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dependencies: Vec<LockedDependency>,
}

/// What a package depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockedDependency {
    pub(crate) package: String,
    pub(crate) constraints: String,
}

impl LockedPackage {
    /// The package by what it is called and by what it is.
    pub(crate) fn reference(&self) -> anyhow::Result<Reference> {
        let reference: Reference = join(&self.source, &self.version).parse()?;
        Ok(reference.with_digest(self.digest.clone()))
    }
}

/// A source with a version.
pub(crate) fn join(source: &str, version: &str) -> String {
    let separator = if version.contains(':') { '@' } else { ':' };
    format!("{source}{separator}{version}")
}

/// A package that is in no registry yet. Its name stands for its source.
pub(crate) fn unpublished(manifest: PackageManifest) -> LockPackage {
    LockPackage {
        kind: Some(manifest.kind.name().to_owned()),
        name: manifest.name.clone(),
        source: manifest.name,
        dependencies: manifest.dependencies,
        ..LockPackage::default()
    }
}

/// Asks registries for packages.
pub(crate) struct Resolver<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) store: &'a Store,
    tags: KnownTags,
    digests: BTreeMap<String, Digest>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(registry: &'a Registry, store: &'a Store) -> Self {
        Self { registry, store, tags: KnownTags::new(), digests: BTreeMap::new() }
    }

    /// The package that a reference leads to.
    pub(crate) async fn fetch(&mut self, reference: &Reference) -> anyhow::Result<LockPackage> {
        let digest = self.registry.resolve(reference).await?.digest;
        let version = match (reference.digest(), reference.tag()) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.unwrap_or("latest").to_owned(),
        };
        let source = format!("{}/{}", reference.registry(), reference.repository());
        let package = self.read(&reference.with_digest(digest.clone()), &source, &version).await;
        let package = package.with_context(|| format!("cannot read package `{reference}`"))?;
        self.digests.insert(join(&source, &version), digest);
        Ok(package)
    }

    /// The `package.yaml` of a package.
    pub(crate) async fn stream(&self, package: &LockedPackage) -> anyhow::Result<String> {
        let reference = package.reference()?;
        let pulled = self.pull(&reference).await?;
        read_stream(self.store, &pulled.image.digest)
            .with_context(|| format!("cannot read package `{reference}`"))
    }

    async fn pull(&self, reference: &Reference) -> anyhow::Result<Pulled> {
        let pull = Pull::into(self.store).with_policy(PullPolicy::Always);
        match self.registry.pull_layers(reference, &pull, is_base).await {
            // What a package brings is the same for all platforms; any will do.
            Err(error) if matches!(error.failure(), Failure::Platform(_)) => {
                let pull = pull.with_platform(other_platform());
                Ok(self.registry.pull_layers(reference, &pull, is_base).await?)
            }
            pulled => Ok(pulled?),
        }
    }

    async fn read(&self, reference: &Reference, source: &str, version: &str) -> anyhow::Result<LockPackage> {
        let pulled = self.pull(reference).await?;
        let contents = open(self.store, &pulled.image.digest)?.contents;
        let kind = contents.manifests.first().and_then(|manifest| PackageKind::of(meta::kind(manifest)));
        let kind = kind.context("it has no manifest")?;
        let manifest = validate(kind, &contents)?;
        Ok(LockPackage {
            kind: Some(kind.name().to_owned()),
            name: manifest.name,
            source: source.to_owned(),
            version: version.to_owned(),
            dependencies: manifest.dependencies,
            ..LockPackage::default()
        })
    }

    /// All that packages depend on in the end, each in the version that all of them accept.
    pub(crate) async fn resolve(&mut self, roots: &[LockPackage]) -> anyhow::Result<Vec<LockedPackage>> {
        let mut lock = roots.to_vec();
        let mut installed: Vec<InstalledPackage> = Vec::new();
        let options = ResolveOptions { upgrades: true, downgrades: true };
        for _ in 0..ROUNDS {
            prune(&mut lock, roots);
            installed.retain(|package| lock.iter().any(|locked| locked.source == package.source));
            let resolution = resolve_dependencies(&lock, &installed, &self.tags, options);
            if !resolution.conflicts.is_empty() {
                let conflicts: Vec<String> = resolution.conflicts.iter().map(ToString::to_string).collect();
                bail!("{}", conflicts.join("; "));
            }
            if resolution.ask.is_empty() && resolution.changes.is_empty() {
                return self.locked(lock, roots, &installed);
            }
            self.ask(&resolution.ask).await?;
            for change in resolution.changes {
                self.change(change, &mut lock, &mut installed).await?;
            }
        }
        bail!("cannot resolve dependencies: they do not settle after {ROUNDS} rounds")
    }

    async fn ask(&mut self, sources: &BTreeSet<String>) -> anyhow::Result<()> {
        for source in sources {
            let reference: Reference = source.parse()?;
            let tags = self.registry.tags(&reference).await;
            let tags = tags.map_err(|error| format!("{:#}", anyhow::Error::from(error)));
            self.tags.insert(source.clone(), tags);
        }
        Ok(())
    }

    async fn change(
        &mut self,
        change: PackageChange,
        lock: &mut Vec<LockPackage>,
        installed: &mut Vec<InstalledPackage>,
    ) -> anyhow::Result<()> {
        let (PackageChange::Install { kind, name, image } | PackageChange::Move { kind, name, image }) =
            change;
        let package = self.fetch(&image.parse()?).await?;
        if package.package_kind() != Some(kind) {
            let found = package.kind.unwrap_or_default();
            bail!("cannot use `{image}`: a {kind} is depended on, and it is a {found}");
        }
        lock.retain(|known| known.source != package.source);
        installed.retain(|known| known.source != package.source);
        let (source, version) = (package.source.clone(), package.version.clone());
        installed.push(InstalledPackage { kind, name, source, version });
        lock.push(package);
        Ok(())
    }

    /// What was chosen, those that others depend on first.
    fn locked(
        &self,
        lock: Vec<LockPackage>,
        roots: &[LockPackage],
        installed: &[InstalledPackage],
    ) -> anyhow::Result<Vec<LockedPackage>> {
        let mut locked = Vec::new();
        for package in lock {
            let Some(digest) = self.digests.get(&join(&package.source, &package.version)) else {
                // The source of a package that is not an image yet.
                if roots.contains(&package) {
                    continue;
                }
                bail!("cannot lock `{}`: its digest is not known", package.source);
            };
            let kind = package.package_kind().context("a package has no kind")?;
            let name = match installed.iter().find(|known| known.source == package.source) {
                Some(known) => known.name.clone(),
                None => dns_label(package.source.parse::<Reference>()?.repository()),
            };
            let dependencies = package.dependencies.into_iter().map(|dependency| LockedDependency {
                package: dependency.package,
                constraints: dependency.constraints,
            });
            locked.push(LockedPackage {
                kind,
                name,
                source: package.source,
                version: package.version,
                digest: digest.clone(),
                dependencies: dependencies.collect(),
            });
        }
        Ok(in_order(locked))
    }
}

/// The platform to read a package for that this machine cannot run.
fn other_platform() -> Platform {
    let usual = platform_without_runtime();
    if Platform::host() == usual { Platform::new("linux", "arm64", None) } else { usual }
}

/// Leave out packages that no other one depends on any more.
fn prune(lock: &mut Vec<LockPackage>, roots: &[LockPackage]) {
    let mut reached: BTreeSet<String> = roots.iter().map(|root| root.source.clone()).collect();
    loop {
        let more: Vec<String> = lock
            .iter()
            .filter(|package| reached.contains(&package.source))
            .flat_map(|package| package.dependencies.iter().map(|dependency| dependency.package.clone()))
            .filter(|source| !reached.contains(source))
            .collect();
        if more.is_empty() {
            break;
        }
        reached.extend(more);
    }
    lock.retain(|package| reached.contains(&package.source));
}

/// Dependencies before those that depend on them, otherwise by source.
fn in_order(mut packages: Vec<LockedPackage>) -> Vec<LockedPackage> {
    packages.sort_by(|one, other| one.source.cmp(&other.source));
    let mut ordered: Vec<LockedPackage> = Vec::new();
    while !packages.is_empty() {
        let known = |source: &str| ordered.iter().any(|package| package.source == source);
        let is_ready = |package: &LockedPackage| {
            package.dependencies.iter().all(|dependency| {
                known(&dependency.package) || !packages.iter().any(|it| it.source == dependency.package)
            })
        };
        // In a circle any may be the first.
        let next = packages.iter().position(is_ready).unwrap_or(0);
        let next = packages.remove(next);
        ordered.push(next);
    }
    ordered
}
