//! `ferroplane validate`: would an API server take these manifests?

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use ferroplane_offline::validate::{self, Layout, Style, Validated, Validation};

use crate::Verdict;
use crate::terminal::Terminal;

/// Validate manifests as an API server would, without one
///
/// Composite and custom resources are validated against the XRDs and CRDs among the files, and Crossplane's and Kubernetes' own kinds against
/// built-in schemas: unknown and duplicate fields, types, CEL rules. XRDs and CRDs are validated themselves, and so are the inputs of
/// functions in Compositions and Operations: those of built-in functions, and those whose kind is defined in the files.
///
/// Every error names its file, line and field. Packages are not downloaded: add their CRDs to the files, or let Crossplane's command line
/// cache them.
///
/// Exits with 3 if anything is invalid, and with 1 if something cannot be read. Objects of unknown kinds are no error, unless
/// --error-on-missing-schemas makes them one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane validate manifests/
  ferroplane validate xr.yaml --schemas xrds/,crds/
  ferroplane render xr.yaml composition.yaml -x |
    ferroplane validate - --schemas xrds/
  ferroplane validate . --error-on-missing-schemas --output json")]
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

    /// Ignored: the cache is only read
    #[arg(long, hide = true)]
    clean_cache: bool,
    /// Ignored: the cache is only read
    #[arg(long, hide = true)]
    update_cache: bool,
    /// Ignored: Crossplane's own kinds are built in
    #[arg(long, hide = true)]
    crossplane_image: Option<String>,
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
        let mut validation = Validation::read(files, schemas, self.cache_dir.as_deref())?;
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
        terminal.text(&validate::print(&validated.report, self.output.into(), style)?)?;
        self.verdict(validated, terminal)
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
            ("--clean-cache", self.clean_cache, "packages are not downloaded, and the cache is only read"),
            ("--update-cache", self.update_cache, "packages are not downloaded, and the cache is only read"),
            ("--crossplane-image", self.crossplane_image.is_some(), "Crossplane's own kinds are built in"),
        ] {
            if is_given {
                terminal.note(&format!("{flag} is ignored: {why}"));
            }
        }
    }
}
