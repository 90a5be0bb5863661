//! `ferroplane validate`: would an API server take these manifests?

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use ferroplane_offline::validate::{self, Layout, Style, Validated, Validation};

use crate::Verdict;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::package_files::{NamedPackages, PackageFiles};
use crate::xpkg::registry::{CacheFlags, ClientFlags};

/// Validate manifests as an API server would, without one
///
/// Composite and custom resources are validated against the XRDs and CRDs among the files, and Crossplane's and Kubernetes' own kinds against
/// built-in schemas: unknown and duplicate fields, types, CEL rules. XRDs and CRDs are validated themselves, and so are the inputs of
/// functions in Compositions and Operations: those of built-in functions, and those whose kind is defined in the files.
///
/// Every error names its file, line and field. Packages are downloaded with --download-packages only: otherwise add their CRDs to the files, or
/// let Crossplane's command line cache them.
///
/// Exits with 3 if anything is invalid, and with 1 if something cannot be read. Objects of unknown kinds are no error, unless
/// --error-on-missing-schemas makes them one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane validate manifests/
  ferroplane validate xr.yaml --schemas xrds/,crds/
  ferroplane render xr.yaml composition.yaml -x |
    ferroplane validate - --schemas xrds/
  ferroplane validate . --error-on-missing-schemas --output json
  ferroplane validate . --download-packages")]
pub(crate) struct Validate {
    /// Files and directories to validate (`-` is standard input)
    #[arg(required = true, value_delimiter = ',')]
    files: Vec<PathBuf>,

    /// Files and directories with XRDs and CRDs that are not validated themselves
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    schemas: Vec<PathBuf>,

    #[command(flatten)]
    options: Options,
}

/// What can be said about any validation.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct Options {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,

    /// Print only problems
    #[arg(long)]
    skip_success_results: bool,

    /// Exit with 3 if the schema of an object is missing
    #[arg(long)]
    error_on_missing_schemas: bool,

    /// Package cache of Crossplane's command line, which is only read [default: ~/.crossplane/cache]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// Pull the packages that the manifests name, and their dependencies, for the kinds that they bring
    #[arg(long, alias = "update-cache")]
    download_packages: bool,

    /// Ignored: the cache is only read
    #[arg(long, hide = true)]
    clean_cache: bool,
    /// Ignored: Crossplane's own kinds are built in
    #[arg(long, hide = true)]
    crossplane_image: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Yaml,
}

impl From<Format> for validate::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Yaml => Self::Yaml,
        }
    }
}

impl Validate {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        self.options.validate(&self.files, &self.schemas, Layout::Ours, terminal)
    }
}

impl Options {
    /// Validate what is in these files by what is in all of them.
    pub(super) fn validate(
        &self,
        files: &[PathBuf],
        schemas: &[PathBuf],
        layout: Layout,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        self.explain_ignored(terminal);
        ferroplane_functions::wait_for_interpreter();
        // They are read more than once, and last until everything is validated.
        let packages = self.pull_packages(files, schemas, terminal)?;
        let packages = packages.as_ref().map(PackageFiles::directory);
        let schemas: Vec<PathBuf> =
            schemas.iter().map(PathBuf::as_path).chain(packages).map(Into::into).collect();
        let mut validation = Validation::read(files, &schemas, self.cache_dir.as_deref())?;
        if let (true, Some(path)) = (validation.is_cache_missing, &self.cache_dir) {
            terminal.warn(&format!("{}: there is no such cache", path.display()));
        }
        for problem in validation.check_schemas()? {
            terminal.warn(&problem.to_string());
        }

        let progress = terminal.progress(validation.document_count(), "validating");
        let validated = validation.run(layout, || progress.inc(1))?;
        progress.finish_and_clear();
        if validated.report.summary.total == 0 && validated.unreadable.is_empty() {
            bail!("found no objects to validate");
        }
        let style = Style {
            layout,
            skips_success: self.skip_success_results,
            is_colourful: terminal.shows_data_in_colour(),
        };
        let text = validate::print(&validated.report, self.output.into(), style)?;
        match self.output {
            Format::Text => terminal.text(&terminal.wrapped(&text))?,
            Format::Json | Format::Yaml => terminal.document(text.as_bytes())?,
        }
        self.verdict(validated, terminal)
    }

    /// The packages that manifests name, if they are to be pulled.
    fn pull_packages(
        &self,
        files: &[PathBuf],
        schemas: &[PathBuf],
        terminal: &mut Terminal,
    ) -> anyhow::Result<Option<PackageFiles>> {
        if !self.download_packages {
            return Ok(None);
        }
        // Standard input can be read only once, and is read later.
        let named: BTreeSet<PathBuf> =
            files.iter().chain(schemas).filter(|path| path.as_os_str() != "-").cloned().collect();
        let named: Vec<PathBuf> = named.into_iter().collect();
        let read = Validation::read(&named, &[], None)?;
        let packages = NamedPackages::new(read.packages(), read.package_manifests())?;
        if packages.is_empty() {
            return Ok(None);
        }
        let (client, store) = (self.client.open()?, CacheFlags::default().open()?);
        let spinner = terminal.spinner("pulling packages");
        let pulled = block_on(PackageFiles::pull(packages, &client, &store));
        spinner.finish_and_clear();
        pulled.map(Some).context("cannot pull the packages that the manifests name")
    }

    fn verdict(&self, validated: Validated, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let is_readable = validated.unreadable.is_empty();
        for error in validated.unreadable {
            terminal.error(&error.into());
        }
        if !is_readable {
            return Err(anyhow!("not everything could be read and used"));
        }
        let summary = validated.report.summary;
        let is_missing = self.error_on_missing_schemas && summary.missing_schemas > 0;
        Ok(if summary.invalid > 0 || is_missing { Verdict::No } else { Verdict::Yes })
    }

    fn explain_ignored(&self, terminal: &mut Terminal) {
        for (flag, is_given, why) in [
            ("--clean-cache", self.clean_cache, "the cache of Crossplane's command line is only read"),
            ("--crossplane-image", self.crossplane_image.is_some(), "Crossplane's own kinds are built in"),
        ] {
            if is_given {
                terminal.note(&format!("{flag} is ignored: {why}"));
            }
        }
    }
}
