//! `ferroplane xpkg push`: package files to a registry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ferroplane_golang::semver::Version;
use ferroplane_image::build::build_index;
use ferroplane_image::registry;
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Reference};
use ferroplane_package::open;

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::files::{find_package, import_packages};
use crate::xpkg::registry::RegistryFlags;
use crate::xpkg::transfer::Transfer;

/// Push a package to a registry
///
/// Several files, each for another platform, become one package. Files may be built by this program or by Crossplane's; OCI layouts are
/// taken, too. Files that are not packages are refused.
///
/// Prints the reference of what was pushed, with its digest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg push r.example.org/configuration:v1.0.0
  ferroplane xpkg push r.example.org/function:v1.0.0 \\
    -f function-amd64.xpkg,function-arm64.xpkg")]
pub(crate) struct Push {
    /// Where to push the package: registry, repository and tag
    #[arg(value_name = "REGISTRY/REPOSITORY:TAG")]
    package: Reference,

    /// Files to push [default: the only *.xpkg in the current directory]
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',')]
    package_files: Vec<PathBuf>,

    #[command(flatten)]
    registry: RegistryFlags,
}

impl Push {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let Some(tag) = self.package.tag().filter(|_| self.package.digest().is_none()) else {
            bail!("cannot push to `{}`: name a tag and no digest, as in :v1.0.0", self.package);
        };
        if Version::parse(tag).is_err() {
            terminal.warn(&format!(
                "tag `{tag}` is not a semantic version: other packages cannot depend on it by a range of versions"
            ));
        }
        let files =
            if self.package_files.is_empty() { vec![find_package()?] } else { self.package_files.clone() };
        let store = self.registry.cache.open()?;
        let client = self.registry.client()?;
        // Until the end, what is imported stays in the store.
        let (image, _imported) = combine(&store, &files)?;
        let transfer = Transfer::start(terminal, "pushing");
        let push = registry::Push::from(&store).with_progress(transfer.reporter());
        let pushed = block_on(async { Ok(client.push(&self.package, &image.digest, &push).await?) });
        transfer.finish();
        let reference = self.package.with_digest(pushed?.digest);
        terminal.data(format!("{reference}\n").as_bytes())?;
        Ok(Verdict::Yes)
    }
}

/// One image of one file, or an index of several.
fn combine(
    store: &Store,
    files: &[PathBuf],
) -> anyhow::Result<(Descriptor, Vec<ferroplane_image::archive::Imported>)> {
    let (mut images, mut kept): (Vec<Descriptor>, Vec<_>) = (Vec::new(), Vec::new());
    for path in files {
        let (found, imported) = import_packages(store, path)?;
        for image in &found {
            open(store, &image.digest).with_context(|| format!("cannot push `{}`", path.display()))?;
            if let Some(other) = images.iter().find(|other| other.platform == image.platform) {
                let platform = image.platform.as_ref().map(ToString::to_string).unwrap_or_default();
                if other.digest == image.digest {
                    bail!("cannot push `{}`: it was named twice", path.display());
                }
                bail!("cannot push `{}`: another file is for {platform}, too", path.display());
            }
            images.push(image.clone());
        }
        kept.push(imported);
    }
    let image = match <[Descriptor; 1]>::try_from(images) {
        Ok([only]) => only,
        Err(images) if images.is_empty() => bail!("cannot push: the files hold no package"),
        Err(images) => build_index(store, images, BTreeMap::new())?,
    };
    Ok((image, kept))
}
