//! `ferroplane xpkg extract`: prints the contents of a package.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_image::Reference;
use ferroplane_image::registry::{Pull, PullPolicy};
use ferroplane_image::store::Store;
use ferroplane_package::image::{is_base, read_stream};
use flate2::{Compression, GzBuilder};

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::files::{find_package, import_packages, write_file};
use crate::xpkg::registry::RegistryFlags;

/// Extract the objects of a package
///
/// Writes package.yaml, compressed, as Crossplane's cache of packages has it. With -o -, it is printed as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg extract r.example.org/configuration:v1.0.0 -o configuration.gz
  ferroplane xpkg extract --from-xpkg configuration.xpkg -o -")]
pub(crate) struct Extract {
    /// The package: a reference, or a file with --from-xpkg [default with --from-xpkg: the only *.xpkg in the current directory]
    #[arg(value_name = "PACKAGE")]
    package: Option<String>,

    /// Read a file or an OCI layout instead of a registry
    #[arg(long)]
    from_xpkg: bool,

    /// Crossplane's flag. It is refused: write the image to a file with `docker save` and pass --from-xpkg
    #[arg(long, hide = true, conflicts_with = "from_xpkg")]
    from_daemon: bool,

    /// File to write, ending in .gz, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "out.gz")]
    output: PathBuf,

    #[command(flatten)]
    registry: RegistryFlags,
}

impl Extract {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        if self.from_daemon {
            bail!(
                "cannot read images from Docker: write the image to a file with `docker save`, and pass --from-xpkg FILE"
            );
        }
        let store = self.registry.cache.open()?;
        let spinner = terminal.spinner("reading the package");
        let stream = if self.from_xpkg { self.read_file(&store) } else { self.pull_stream(&store) };
        spinner.finish_and_clear();
        let stream = stream?;
        if self.output == Path::new("-") {
            terminal.document(stream.as_bytes())?;
            return Ok(Verdict::Yes);
        }
        let output = self.output.with_extension("gz");
        write_file(&output, |file| compress(&stream, file).context("cannot compress the package"))?;
        terminal.data(format!("{}\n", output.display()).as_bytes())?;
        Ok(Verdict::Yes)
    }

    fn read_file(&self, store: &Store) -> anyhow::Result<String> {
        let path = self.package.as_ref().map_or_else(find_package, |path| Ok(path.into()))?;
        let (images, _imported) = import_packages(store, &path)?;
        let image = images.first().context("cannot find an image in the file")?;
        read_stream(store, &image.digest).with_context(|| format!("cannot extract `{}`", path.display()))
    }

    fn pull_stream(&self, store: &Store) -> anyhow::Result<String> {
        let Some(package) = &self.package else {
            bail!("cannot extract a package: name one, or pass --from-xpkg");
        };
        let reference: Reference = package.parse()?;
        let client = self.registry.client()?;
        let pull = Pull::into(store).with_policy(PullPolicy::Always);
        block_on(async {
            let pulled = client.pull_layers(&reference, &pull, is_base).await?;
            read_stream(store, &pulled.image.digest).with_context(|| format!("cannot extract `{reference}`"))
        })
    }
}

/// The same content gives the same bytes.
fn compress(stream: &str, target: impl std::io::Write) -> std::io::Result<()> {
    let mut gzip = GzBuilder::new().operating_system(255).write(target, Compression::fast());
    gzip.write_all(stream.as_bytes())?;
    gzip.finish().map(drop)
}
