//! `ferroplane xpkg build`: a package file from a directory.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_api::{PackageKind, meta};
use ferroplane_engine::packages::friendly_id;
use ferroplane_image::registry::Pull;
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Image, Platform};
use ferroplane_package::image::write;
use ferroplane_package::{PackageSource, SourceOptions};
use ferroplane_runner::PROTOCOL_ANNOTATION;

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::bundle::LOCK_FILE;
use crate::xpkg::files::{EXTENSION, write_package};
use crate::xpkg::registry::RegistryFlags;
use crate::xpkg::runtime::{RuntimeOptions, RuntimeSource, Runtimes};
use crate::xpkg::transfer::Transfer;

/// The protocol of programs that read a request and write a response.
const RUN_FUNCTION: &str = "RunFunction";

/// Build a package file from a directory
///
/// The directory holds the manifest of the package, crossplane.yaml, and YAML files with the objects that it brings. Functions and
/// Providers embed the image of their program. The same files give the same package, to the byte.
///
/// With images for several platforms, one file is written for each; `ferroplane xpkg push` makes one package of them.
///
/// Prints the names of the files that it wrote.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg build
  ferroplane xpkg build -f package \\
    --embed-runtime-image-tarball amd64.tar,arm64.tar
  ferroplane xpkg build -f package \\
    --embed-runtime-image r.example.org/runtime:v1 --platform linux/amd64
  ferroplane xpkg build -f package \\
    --embed-runtime-image linux/amd64=./bin/amd64 --entrypoint /function
  docker save my-program | gzip > program.tgz
  ferroplane xpkg build -f package --from-oci-tarball program.tgz")]
pub(crate) struct Build {
    /// Directory that holds crossplane.yaml
    #[arg(short = 'f', long, value_name = "DIR", default_value = ".")]
    package_root: PathBuf,

    /// Directory of examples to put into the package [default: ./examples, else examples in the package root]
    #[arg(short, long, value_name = "DIR")]
    examples_root: Option<PathBuf>,

    /// Files to leave out, relative to the package root; *, ? and [a-z] stand for parts of a name
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    ignore: Vec<String>,

    /// File to write [default: NAME-DIGEST.xpkg in the package root]
    #[arg(short = 'o', long, value_name = "FILE")]
    package_file: Option<PathBuf>,

    /// Image of the program: a reference, a tarball, an OCI layout, or a directory of files; PLATFORM= may stand in front
    #[arg(long, value_name = "[PLATFORM=]IMAGE", value_delimiter = ',', value_parser = source)]
    embed_runtime_image: Vec<RuntimeSource>,

    /// Tarball with the image of the program, as `docker save` writes it; may be repeated, once for each platform
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    embed_runtime_image_tarball: Vec<PathBuf>,

    /// Tarball with the image of a program that reads a request and writes a response; it is run for every call
    #[arg(long, value_name = "FILE", value_delimiter = ',',
        conflicts_with_all = ["embed_runtime_image", "embed_runtime_image_tarball"])]
    from_oci_tarball: Vec<PathBuf>,

    /// Of images for several platforms, embed these [default: all of them]
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',')]
    platform: Vec<Platform>,

    /// Program in an embedded directory, with its arguments
    #[arg(long, value_name = "PROGRAM", num_args = 1.., value_terminator = ";")]
    entrypoint: Vec<String>,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// For `clap`.
fn source(text: &str) -> Result<RuntimeSource, String> {
    text.parse().map_err(|error: anyhow::Error| error.to_string())
}

impl Build {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut source = self.read()?;
        let runtimes = self.runtimes();
        check_kind(source.manifest.kind, &runtimes, terminal)?;
        if !self.from_oci_tarball.is_empty() {
            run_for_every_call(&mut source)?;
        }
        let store = self.registry.cache.open()?;
        let transfer = Transfer::start(terminal, "pulling");
        let pull = Pull::into(&store).with_progress(transfer.reporter());
        let client = self.registry.client()?;
        let options = RuntimeOptions { platforms: &self.platform, entrypoint: &self.entrypoint };
        let runtimes = block_on(Runtimes::read(&runtimes, options, &client, &store, &pull));
        transfer.finish();
        let images = runtimes?.images;
        let written = terminal.work("building the package", || self.write(&source, images, &store));
        for (path, descriptor) in written? {
            terminal.note(&format!("built {}", descriptor.digest));
            terminal.data(format!("{}\n", path.display()).as_bytes())?;
        }
        Ok(Verdict::Yes)
    }

    fn read(&self) -> anyhow::Result<PackageSource> {
        let examples = self.examples_root.clone().unwrap_or_else(|| {
            let usual = PathBuf::from("examples");
            if usual.is_dir() { usual } else { self.package_root.join("examples") }
        });
        // What `ferroplane xpkg lock` writes beside the manifest is no part of the package.
        let ignore: Vec<String> = self.ignore.iter().cloned().chain([LOCK_FILE.to_owned()]).collect();
        let options = SourceOptions { root: &self.package_root, examples: &examples, ignore: &ignore };
        PackageSource::read(&options)
            .with_context(|| format!("cannot build the package in `{}`", self.package_root.display()))
    }

    fn runtimes(&self) -> Vec<RuntimeSource> {
        let tarballs = self.embed_runtime_image_tarball.iter().chain(&self.from_oci_tarball);
        let tarballs = tarballs.map(|path| RuntimeSource::file(path));
        self.embed_runtime_image.iter().cloned().chain(tarballs).collect()
    }

    /// Write a file for each platform, or one.
    fn write(
        &self,
        source: &PackageSource,
        runtimes: Vec<(Platform, Image)>,
        store: &Store,
    ) -> anyhow::Result<Vec<(PathBuf, Descriptor)>> {
        let is_one = runtimes.len() < 2;
        let runtimes: Vec<Option<(Platform, Image)>> =
            if runtimes.is_empty() { vec![None] } else { runtimes.into_iter().map(Some).collect() };
        let mut written = Vec::new();
        for runtime in runtimes {
            let suffix = runtime.as_ref().filter(|_| !is_one).map(|(platform, _)| suffix(platform));
            let descriptor = write(store, source, runtime.map(|(_, image)| image))?;
            let path = self.path(&source.manifest.name, &descriptor, suffix.as_deref());
            write_package(store, &descriptor.digest, &path)?;
            written.push((path, descriptor));
        }
        Ok(written)
    }

    fn path(&self, name: &str, descriptor: &Descriptor, suffix: Option<&str>) -> PathBuf {
        let suffix = suffix.map(|suffix| format!("-{suffix}")).unwrap_or_default();
        match &self.package_file {
            Some(path) if suffix.is_empty() => path.clone(),
            Some(path) => {
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                with_extension(path.parent().unwrap_or(Path::new("")), &stem.unwrap_or_default(), &suffix)
            }
            None => {
                let name = friendly_id(name, descriptor.digest.hex());
                with_extension(&self.package_root, &name, &suffix)
            }
        }
    }
}

/// Mark a Function whose program is no server: the control plane runs it for every call. A protocol that the manifest names stays.
fn run_for_every_call(source: &mut PackageSource) -> anyhow::Result<()> {
    let kind = source.manifest.kind;
    if kind != PackageKind::Function {
        bail!("cannot use --from-oci-tarball: steps call no {kind}; use --embed-runtime-image-tarball");
    }
    for manifest in &mut source.contents.manifests {
        if meta::annotation(manifest, PROTOCOL_ANNOTATION).is_empty() {
            meta::set_annotation(manifest, PROTOCOL_ANNOTATION, RUN_FUNCTION);
        }
    }
    Ok(())
}

fn with_extension(directory: &Path, name: &str, suffix: &str) -> PathBuf {
    directory.join(format!("{name}{suffix}.{EXTENSION}"))
}

/// The platform as part of a file name.
fn suffix(platform: &Platform) -> String {
    let variant = platform.variant.as_deref().filter(|_| platform.architecture != "arm64");
    format!("{}{}", platform.architecture, variant.unwrap_or_default())
}

fn check_kind(kind: PackageKind, runtimes: &[RuntimeSource], terminal: &mut Terminal) -> anyhow::Result<()> {
    match (kind.has_runtime(), runtimes.is_empty()) {
        (false, false) => bail!("cannot embed a program: a {kind} has none; leave out --embed-runtime-image"),
        (true, true) => {
            terminal.warn(&format!(
                "the package has no program, which a {kind} needs to run: embed it with --embed-runtime-image"
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}
