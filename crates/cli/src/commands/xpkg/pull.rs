//! `ferroplane xpkg pull`: a package from a registry to a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ferroplane_image::archive::{export_layout, export_tarball};
use ferroplane_image::registry::{self, PullPolicy};
use ferroplane_image::store::Store;
use ferroplane_image::{Platform, Reference};
use ferroplane_package::open;

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::files::{EXTENSION, write_file, write_package};
use crate::xpkg::registry::RegistryFlags;
use crate::xpkg::transfer::Transfer;

/// Pull a package from a registry to a file
///
/// Writes the package for one platform as a file that `push`, `extract` and Crossplane's command line read. As an OCI layout, a directory or a
/// tarball, it has all platforms.
///
/// Prints the name of the file, and the digest on standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg pull r.example.org/function:v1.0.0
  ferroplane xpkg pull r.example.org/function:v1.0.0 \\
    --platform linux/arm64 -o function-arm64.xpkg
  ferroplane xpkg pull r.example.org/function:v1.0.0 \\
    --format oci-layout -o function")]
pub(crate) struct Pull {
    /// The package: registry, repository, and tag or digest
    #[arg(value_name = "REGISTRY/REPOSITORY:TAG")]
    package: Reference,

    /// File or directory to write [default: NAME-TAG.xpkg in the current directory]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: PackageFormat,

    /// Platform of an xpkg file [default: that of this machine]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,

    #[command(flatten)]
    registry: RegistryFlags,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum PackageFormat {
    /// A file for one platform
    #[default]
    Xpkg,
    /// A directory with all platforms
    OciLayout,
    /// A tarball with all platforms
    OciTarball,
}

impl Pull {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let store = self.registry.cache.open()?;
        let client = self.registry.client()?;
        let transfer = Transfer::start(terminal, "pulling");
        let platform = self.platform.clone().unwrap_or_else(Platform::host);
        let pull = registry::Pull::into(&store)
            .with_policy(PullPolicy::Always)
            .with_platform(platform)
            .with_progress(transfer.reporter());
        let path = self.output.clone().unwrap_or_else(|| self.default_path());
        let pulled = if self.format == PackageFormat::Xpkg {
            block_on(self.pull_one(&client, &pull, &path))
        } else {
            block_on(self.pull_all(&client, &pull, &path))
        };
        transfer.finish();
        terminal.note(&format!("pulled {}", pulled?));
        terminal.data(format!("{}\n", path.display()).as_bytes())?;
        Ok(Verdict::Yes)
    }

    async fn pull_one(
        &self,
        client: &registry::Registry,
        pull: &registry::Pull,
        path: &Path,
    ) -> anyhow::Result<String> {
        let pulled = client.pull(&self.package, pull).await?;
        let digest = pulled.image.digest.clone();
        open(&pull.store, &digest).with_context(|| format!("cannot use `{}`", self.package))?;
        write_package(&pull.store, &digest, path)?;
        Ok(digest.to_string())
    }

    async fn pull_all(
        &self,
        client: &registry::Registry,
        pull: &registry::Pull,
        path: &Path,
    ) -> anyhow::Result<String> {
        let pulled = client.pull_all(&self.package, pull).await?;
        let name = self.package.to_string();
        let images = [(pulled.descriptor.clone(), Some(name.as_str()))];
        self.export(&pull.store, &images, path)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(pulled.descriptor.digest.to_string())
    }

    fn export(
        &self,
        store: &Store,
        images: &[(ferroplane_image::Descriptor, Option<&str>)],
        path: &Path,
    ) -> anyhow::Result<()> {
        if self.format == PackageFormat::OciLayout {
            return Ok(export_layout(store, images, path)?);
        }
        write_file(path, |file| Ok(export_tarball(store, images, file)?))
    }

    fn default_path(&self) -> PathBuf {
        let version = match (self.package.tag(), self.package.digest()) {
            (Some(tag), _) => tag.to_owned(),
            (None, Some(digest)) => digest.hex()[..12].to_owned(),
            (None, None) => "latest".to_owned(),
        };
        let name = format!("{}-{version}", self.package.name());
        PathBuf::from(match self.format {
            PackageFormat::Xpkg => format!("{name}.{EXTENSION}"),
            PackageFormat::OciLayout => name,
            PackageFormat::OciTarball => format!("{name}.tar"),
        })
    }
}
