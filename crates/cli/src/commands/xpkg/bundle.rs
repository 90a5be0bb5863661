//! `ferroplane xpkg bundle`: packages and all that they depend on, in one file.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ferroplane_image::Reference;
use ferroplane_image::registry::Pull;
use ferroplane_image::store::Store;

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::bundle::{LockFile, export, pull_packages};
use crate::xpkg::registry::RegistryFlags;
use crate::xpkg::resolve::{LockedPackage, Resolver};
use crate::xpkg::transfer::Transfer;

/// Write packages and their dependencies to one OCI layout
///
/// The bundle has the images for all platforms. `ferroplane xpkg install --from-bundle` installs from it where there is no network; `skopeo` and
/// others copy it to a registry. A name that ends in .tar is a tarball, any other a directory.
///
/// Prints the references of what is in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg bundle r.example.org/platform:v2.1.0 -o platform.tar
  ferroplane xpkg bundle --lock crossplane.lock.yaml -o dependencies.tar")]
pub(crate) struct Bundle {
    /// Packages to put into the bundle, with what they depend on
    #[arg(value_name = "REGISTRY/REPOSITORY:TAG", required_unless_present = "lock")]
    packages: Vec<Reference>,

    /// Lock file with the versions to take, instead of the newest in the registries
    #[arg(long, value_name = "FILE", conflicts_with = "packages")]
    lock: Option<PathBuf>,

    /// File or directory to write
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,

    #[command(flatten)]
    registry: RegistryFlags,
}

impl Bundle {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let is_tarball = self.output.extension().is_some_and(|extension| extension == "tar");
        if !is_tarball && self.output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("cannot write a bundle to `{}`: the directory is not empty", self.output.display());
        }
        let store = self.registry.cache.open()?;
        let client = self.registry.client()?;
        let spinner = terminal.spinner("asking registries");
        let packages = block_on(self.packages(&client, &store));
        spinner.finish_and_clear();
        let packages = packages.context("cannot resolve the packages of the bundle")?;

        let transfer = Transfer::start(terminal, "pulling");
        let pull = Pull::into(&store).with_progress(transfer.reporter());
        let pulled = block_on(pull_packages(&packages, &client, &pull));
        transfer.finish();
        let spinner = terminal.spinner("writing the bundle");
        let written = pulled.and_then(|pulled| export(&store, &pulled, &self.output, is_tarball));
        spinner.finish_and_clear();
        for name in written.with_context(|| format!("cannot write bundle `{}`", self.output.display()))? {
            terminal.text(&format!("{name}\n"))?;
        }
        Ok(Verdict::Yes)
    }

    async fn packages(
        &self,
        client: &ferroplane_image::registry::Registry,
        store: &Store,
    ) -> anyhow::Result<Vec<LockedPackage>> {
        if let Some(path) = &self.lock {
            return Ok(LockFile::read(path)?.packages);
        }
        let mut resolver = Resolver::new(client, store);
        let mut roots = Vec::new();
        for package in &self.packages {
            roots.push(resolver.fetch(package).await?);
        }
        resolver.resolve(&roots).await
    }
}
