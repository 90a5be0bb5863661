//! What packages bring, in files, for commands that need nothing else of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use ferroplane_api::{LockPackage, Object, PackageKind, meta};
use ferroplane_image::Reference;
use ferroplane_image::registry::Registry;
use ferroplane_image::store::Store;
use ferroplane_package::PackageManifest;
use tempfile::TempDir;

use super::resolve::{Resolver, unpublished};

/// The packages that manifests name.
#[derive(Debug)]
pub(crate) struct NamedPackages {
    /// Images of packages that are installed.
    images: BTreeSet<String>,
    /// Packages whose source is there. They are in no registry.
    sources: Vec<LockPackage>,
}

impl NamedPackages {
    /// The packages with these images, and those that the manifests of packages depend on.
    pub(crate) fn new(images: &[String], manifests: &[Object]) -> anyhow::Result<Self> {
        let mut sources: BTreeMap<String, LockPackage> = BTreeMap::new();
        for manifest in manifests {
            let Some(kind) = PackageKind::of(meta::kind(manifest)) else { continue };
            let name = meta::name(manifest);
            let read = PackageManifest::read(kind, manifest)
                .with_context(|| format!("cannot read what {kind} `{name}` depends on"))?;
            let package = unpublished(read);
            // A package may be given twice, such as by a directory and one inside of it.
            match sources.get_mut(name) {
                Some(known) => known.dependencies.extend(package.dependencies),
                None => {
                    sources.insert(name.to_owned(), package);
                }
            }
        }
        let depends = |package: &LockPackage| !package.dependencies.is_empty();
        let sources = sources.into_values().filter(depends).collect();
        Ok(Self { images: images.iter().cloned().collect(), sources })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.sources.is_empty()
    }
}

/// A directory with a file for each package, which lasts as long as this.
#[derive(Debug)]
pub(crate) struct PackageFiles {
    directory: TempDir,
}

impl PackageFiles {
    /// Pull packages and all that they depend on.
    pub(crate) async fn pull(
        named: NamedPackages,
        registry: &Registry,
        store: &Store,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("cannot create a directory for packages")?;
        let mut resolver = Resolver::new(registry, store);
        let mut roots = named.sources;
        for image in &named.images {
            let reference: Reference = image.parse()?;
            roots.push(resolver.fetch(&reference).await?);
        }
        let packages = resolver.resolve(&roots).await?;
        for (number, package) in packages.iter().enumerate() {
            let text = resolver.stream(package).await?;
            let path = directory.path().join(format!("{number}-{}.yaml", package.name));
            std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(Self { directory })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}
