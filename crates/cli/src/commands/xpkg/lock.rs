//! `ferroplane xpkg lock`: pins the versions of the dependencies of a package.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_api::LockPackage;
use ferroplane_golang::yaml::to_yaml;
use ferroplane_image::Reference;
use ferroplane_package::{PackageSource, SourceOptions};

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::bundle::{LOCK_FILE, LockFile};
use crate::xpkg::files::write_file;
use crate::xpkg::registry::RegistryFlags;
use crate::xpkg::resolve::{Resolver, unpublished};

/// Resolve dependencies, and write their versions to a lock file
///
/// PACKAGE is a directory with crossplane.yaml, or a package in a registry. For each dependency, it takes the newest version in the
/// registry that all dependents accept, and then resolves the dependencies of that version. The lock file names each with its digest;
/// `ferroplane xpkg bundle --lock` uses it.
///
/// With --check, nothing is written: the command compares the lock file with crossplane.yaml and with the registries.
///
/// Exit codes: 0 locked, or the lock file is up to date; 3 the lock file is out of date; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg lock
  ferroplane xpkg lock r.example.org/platform:v2.1.0 -o platform.lock.yaml
  ferroplane xpkg lock --check")]
pub(crate) struct Lock {
    /// The package: a directory, or a reference
    #[arg(value_name = "PACKAGE", default_value = ".")]
    package: String,

    /// Lock file
    #[arg(short, long, value_name = "FILE", default_value = LOCK_FILE)]
    output: PathBuf,

    /// Compare instead of writing
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    registry: RegistryFlags,
}

impl Lock {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let store = self.registry.cache.open()?;
        let client = self.registry.client()?;
        let spinner = terminal.spinner("asking registries");
        let done = block_on(async {
            let mut resolver = Resolver::new(&client, &store);
            let root = self.root(&mut resolver).await?;
            if self.check {
                let lock = LockFile::read(&self.output)?;
                return lock.differences(&root, &client).await;
            }
            let packages = resolver.resolve(std::slice::from_ref(&root)).await?;
            let lock = LockFile::new(&root, packages);
            let text = to_yaml(&serde_json::to_value(&lock)?);
            write_file(&self.output, |file| {
                std::io::Write::write_all(file, text.as_bytes()).context("cannot write the lock file")
            })?;
            Ok(Vec::new())
        });
        spinner.finish_and_clear();
        let differences = done.with_context(|| format!("cannot lock `{}`", self.package))?;
        for difference in &differences {
            terminal.failure(difference);
        }
        if !differences.is_empty() {
            return Ok(Verdict::No);
        }
        if !self.check {
            terminal.data(format!("{}\n", self.output.display()).as_bytes())?;
        }
        Ok(Verdict::Yes)
    }

    async fn root(&self, resolver: &mut Resolver<'_>) -> anyhow::Result<LockPackage> {
        let path = Path::new(&self.package);
        if path.is_dir() {
            return source(path, &self.output);
        }
        if path.exists() {
            bail!("`{}` is neither a directory nor a reference", self.package);
        }
        let reference: Reference = self.package.parse()?;
        resolver.fetch(&reference).await
    }
}

/// What the manifest in a directory depends on.
fn source(root: &Path, lock: &Path) -> anyhow::Result<LockPackage> {
    // The lock file is no part of the package.
    let ignore: Vec<String> =
        lock.file_name().map(|name| name.to_string_lossy().into_owned()).into_iter().collect();
    let examples = root.join("examples");
    let source = PackageSource::read(&SourceOptions { root, examples: &examples, ignore: &ignore })?;
    Ok(unpublished(source.manifest))
}
