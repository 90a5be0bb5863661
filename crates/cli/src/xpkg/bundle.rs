//! Lock files and bundles.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_api::{Dependency, LockPackage, PackageKind, meta};
use ferroplane_engine::packages::examine_dependencies;
use ferroplane_golang::yaml::Documents;
use ferroplane_image::archive::{Selection, export_layout, export_tarball, import, list_names};
use ferroplane_image::registry::{Pull, PulledIndex, Registry};
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Digest, Image, Platform, Reference};
use ferroplane_package::open;
use serde::{Deserialize, Serialize};

use super::files::{images_of, write_file};
use super::install::WantedPackage;
use super::resolve::{LockedDependency, LockedPackage, join};
use crate::package_source::open_store;
use crate::terminal::Terminal;
use crate::up::data_directory;

/// What lock files are called.
pub(crate) const LOCK_FILE: &str = "crossplane.lock.yaml";
/// The version of the format that this program writes.
const VERSION: u32 = 1;
/// No lock file is longer.
const MAX_BYTES: u64 = 16 << 20;

/// Where `ferroplane up` keeps images, below its data directory.
const IMAGES: &str = "images";

/// What is in a lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockFile {
    lock_version: u32,
    /// The package whose dependencies these are.
    package: String,
    depends_on: Vec<LockedDependency>,
    /// What it depends on comes before what depends on it.
    pub(crate) packages: Vec<LockedPackage>,
}

impl LockFile {
    pub(crate) fn new(root: &LockPackage, packages: Vec<LockedPackage>) -> Self {
        let package = root.name.clone();
        Self { lock_version: VERSION, package, depends_on: dependencies(&root.dependencies), packages }
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot read lock file `{}`", path.display());
        let mut text = String::new();
        let file = File::open(path).with_context(failed)?;
        // A lock file comes with a package of another author.
        file.take(MAX_BYTES).read_to_string(&mut text).with_context(failed)?;
        let document = Documents::new(&text).next().context("it is empty").with_context(failed)?;
        let value = document.map_err(|error| anyhow::Error::msg(error.message)).with_context(failed)?.value;
        let lock: Self = serde_json::from_value(value).with_context(failed)?;
        if lock.lock_version != VERSION {
            let version = lock.lock_version;
            bail!("{}: it has version {version}, and only version {VERSION} is supported", failed());
        }
        Ok(lock)
    }

    /// What does not hold any more, of what the package says and of what registries have.
    pub(crate) async fn differences(
        &self,
        root: &LockPackage,
        registry: &Registry,
    ) -> anyhow::Result<Vec<String>> {
        let mut differences = Vec::new();
        if dependencies(&root.dependencies) != self.depends_on {
            differences.push(format!("`{}` depends on other packages or versions than it did", root.name));
        }
        let lock: Vec<LockPackage> = self.packages.iter().map(lock_package).collect();
        for package in std::iter::once(root).chain(&lock) {
            if let Some(problem) = examine_dependencies(&lock, package).problem {
                differences.push(format!("`{}` has {problem}", package.name));
            }
        }
        for package in &self.packages {
            let reference: Reference = join(&package.source, &package.version).parse()?;
            let found = registry.resolve(&reference).await?.digest;
            // A tag that was moved is what a lock file is there to notice.
            if found != package.digest {
                differences.push(format!("`{reference}` is {found} now, and was {}", package.digest));
            }
        }
        Ok(differences)
    }
}

fn dependencies(dependencies: &[Dependency]) -> Vec<LockedDependency> {
    let locked = dependencies.iter().map(|dependency| LockedDependency {
        package: dependency.package.clone(),
        constraints: dependency.constraints.clone(),
    });
    locked.collect()
}

fn lock_package(package: &LockedPackage) -> LockPackage {
    let dependencies = package.dependencies.iter().map(|dependency| Dependency {
        package: dependency.package.clone(),
        constraints: dependency.constraints.clone(),
        ..Dependency::default()
    });
    LockPackage {
        kind: Some(package.kind.name().to_owned()),
        name: package.name.clone(),
        source: package.source.clone(),
        version: package.version.clone(),
        dependencies: dependencies.collect(),
        ..LockPackage::default()
    }
}

/// Pull packages for all platforms, each as its digest says.
pub(crate) async fn pull_packages(
    packages: &[LockedPackage],
    registry: &Registry,
    pull: &Pull,
) -> anyhow::Result<Vec<(String, PulledIndex)>> {
    let mut pulled = Vec::new();
    for package in packages {
        // For all platforms: the machine that installs the bundle may be of another one than this.
        let image = registry.pull_all(&package.reference()?, pull).await?;
        pulled.push((join(&package.source, &package.version), image));
    }
    Ok(pulled)
}

/// Write images as one layout. Returns their names.
pub(crate) fn export(
    store: &Store,
    packages: &[(String, PulledIndex)],
    path: &Path,
    is_tarball: bool,
) -> anyhow::Result<Vec<String>> {
    let images: Vec<(Descriptor, Option<&str>)> =
        packages.iter().map(|(name, image)| (image.descriptor.clone(), Some(name.as_str()))).collect();
    if is_tarball {
        write_file(path, |file| Ok(export_tarball(store, &images, file)?))?;
    } else {
        export_layout(store, &images, path)?;
    }
    Ok(packages.iter().map(|(name, _)| name.clone()).collect())
}

/// Put the images of a bundle into the store of `ferroplane up`. Returns the packages in it but the one that is meant.
pub(crate) fn load(
    bundle: &Path,
    meant: &Reference,
    data_dir: Option<PathBuf>,
    terminal: &mut Terminal,
) -> anyhow::Result<Vec<WantedPackage>> {
    let directory = data_dir.map_or_else(data_directory, Ok)?.join(IMAGES);
    let store = open_store(&directory)?;
    let spinner = terminal.spinner("reading the bundle");
    let loaded = load_all(bundle, &store);
    spinner.finish_and_clear();
    let loaded = loaded.with_context(|| format!("cannot install from bundle `{}`", bundle.display()))?;
    if !loaded.iter().any(|(reference, _)| reference == meant) {
        let names: Vec<String> = loaded.iter().map(|(reference, _)| reference.to_string()).collect();
        bail!("cannot find `{meant}` in bundle `{}`: it has {}", bundle.display(), names.join(", "));
    }
    let others = loaded.iter().filter(|(reference, _)| reference != meant);
    others.map(|(reference, kind)| WantedPackage::new(*kind, reference, None)).collect()
}

fn load_all(bundle: &Path, store: &Store) -> anyhow::Result<Vec<(Reference, PackageKind)>> {
    let mut loaded = Vec::new();
    for name in list_names(bundle, store)? {
        let reference: Reference = name.parse()?;
        let selection = Selection { name: Some(&name), platform: None };
        let imported = import(bundle, store, &selection)?;
        let kind = kind_of(store, &imported.descriptor).with_context(|| format!("cannot use `{name}`"))?;
        record(store, &reference, &imported.descriptor)?;
        // It stays: there may be no registry to fetch it from, also when a user goes back to an earlier version.
        store.keep(&format!("bundle {reference}"), &all_digests(store, &imported.descriptor)?)?;
        loaded.push((reference, kind));
    }
    Ok(loaded)
}

/// Remember what the references of a package lead to: the tag to what a registry would say, the digest to the image for this machine.
fn record(store: &Store, reference: &Reference, descriptor: &Descriptor) -> anyhow::Result<()> {
    store.record(reference, descriptor)?;
    let image = Descriptor { platform: Some(Platform::host()), ..image_for_host(store, descriptor)? };
    let source = format!("{}/{}", reference.registry(), reference.repository());
    let by_digest: Reference = format!("{source}@{}", descriptor.digest).parse()?;
    store.record(&by_digest, &image)?;
    if reference.digest().is_none() {
        store.record(&reference.with_digest(descriptor.digest.clone()), &image)?;
    }
    Ok(())
}

/// The image for this machine or, of a package that has none, another one: what it brings is the same.
fn image_for_host(store: &Store, descriptor: &Descriptor) -> anyhow::Result<Descriptor> {
    let images = images_of(store, descriptor)?;
    let host = Platform::host();
    let runs_here = |image: &&Descriptor| {
        let platform = image.platform.as_ref();
        platform.is_some_and(|its| its.os == host.os && its.architecture == host.architecture)
    };
    let image = images.iter().find(runs_here).or(images.first());
    image.cloned().context("it has no image")
}

/// What kind of package an image is.
fn kind_of(store: &Store, descriptor: &Descriptor) -> anyhow::Result<PackageKind> {
    let image = image_for_host(store, descriptor)?;
    let contents = open(store, &image.digest)?.contents;
    let kind = contents.manifests.first().and_then(|manifest| PackageKind::of(meta::kind(manifest)));
    kind.context("it has no manifest")
}

/// Everything that an image or index is made of.
fn all_digests(store: &Store, descriptor: &Descriptor) -> anyhow::Result<Vec<Digest>> {
    let mut digests = vec![descriptor.digest.clone()];
    for image in images_of(store, descriptor)? {
        let image = Image::load(store, &image.digest)?;
        digests.extend([image.digest.clone(), image.manifest.config.digest.clone()]);
        digests.extend(image.manifest.layers.iter().map(|layer| layer.digest.clone()));
    }
    Ok(digests)
}
