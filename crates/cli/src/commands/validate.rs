//! `ferroplane validate`: would an API server take these manifests?

use std::path::PathBuf;

use anyhow::{anyhow, bail};

use crate::Verdict;
use crate::manifest::Files;
use crate::terminal::Terminal;
use crate::validate::output::{self, Format, Layout};
use crate::validate::{Cache, Documents, Judge, Report};

/// Check manifests as an API server would, without one
///
/// Everything that is given is validated, and defines what it defines for everything else: composite and custom
/// resources are checked against the XRDs and CRDs that are given, Crossplane's and Kubernetes' own kinds against what
/// is known of them. Unknown and duplicate fields are found, CEL rules are tried, XRDs and CRDs are checked themselves,
/// and so are the inputs of the functions that Compositions and Operations call: those that are built in, and those
/// whose input is of a kind that is given.
///
/// Every error comes with its file, line and field. Packages are not downloaded: what they define has to be given, or
/// to be in the cache of Crossplane's command line.
///
/// Exits with 3 if anything is invalid, with 1 if something cannot be read. Objects whose kind nobody defines are no
/// error, unless --error-on-missing-schemas makes them one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane validate manifests/
  ferroplane validate xr.yaml --schemas xrds/,crds/
  ferroplane render xr.yaml composition.yaml -x | ferroplane validate - --schemas xrds/
  ferroplane validate . --error-on-missing-schemas --output json")]
pub(crate) struct Validate {
    /// What to validate: files, directories and all below them, or `-`
    #[arg(required = true, value_delimiter = ',')]
    files: Vec<PathBuf>,

    /// What defines kinds but is not validated itself: files or directories
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    schemas: Vec<PathBuf>,

    #[command(flatten)]
    options: Options,
}

/// What can be said about any validation.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct Options {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,

    /// Print only what is wrong
    #[arg(long)]
    skip_success_results: bool,

    /// Exit with 3 if there is an object whose kind nobody defines
    #[arg(long)]
    error_on_missing_schemas: bool,

    /// Where Crossplane's command line keeps what packages define. Only read [default: ~/.crossplane/cache]
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
        let mut given = Given::default();
        given.read(files, schemas)?;
        let judge = given.judge(self.cache_dir.as_deref(), terminal)?;
        let judge = judge.splitting_inputs(layout == Layout::Upstream);
        let (doubtful, unusable) = Judge::judge_definitions(&given.schemas)?;
        given.unreadable.extend(unusable);
        for problem in doubtful {
            terminal.warn(&problem.to_string());
        }

        let progress = terminal.progress(given.objects.as_slice().len(), "validating");
        let (findings, unreadable) = judge.judge_all(&given.objects, &progress)?;
        progress.finish_and_clear();
        given.unreadable.extend(unreadable);
        if findings.is_empty() && given.unreadable.is_empty() {
            bail!("found no objects to validate");
        }
        let report = Report::new(findings);
        let style = output::Style {
            layout,
            skips_success: self.skip_success_results,
            is_colourful: terminal.shows_data_in_colour(),
        };
        terminal.data(output::print(&report, self.output, style)?.as_bytes())?;
        self.verdict(&report, &given.unreadable, terminal)
    }

    fn verdict(
        &self,
        report: &Report,
        unreadable: &[anyhow::Error],
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        for error in unreadable {
            terminal.error(error);
        }
        if !unreadable.is_empty() {
            return Err(anyhow!("not everything could be read and used"));
        }
        let is_missing = self.error_on_missing_schemas && report.summary.missing_schemas > 0;
        Ok(if report.summary.invalid > 0 || is_missing { Verdict::No } else { Verdict::Yes })
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

/// What the user gives.
#[derive(Debug, Default)]
struct Given {
    objects: Documents,
    schemas: Documents,
    unreadable: Vec<anyhow::Error>,
}

impl Given {
    fn read(&mut self, files: &[PathBuf], schemas: &[PathBuf]) -> anyhow::Result<()> {
        let mut reader = Files::default();
        self.unreadable.extend(self.schemas.add_all(&mut reader, schemas)?);
        self.unreadable.extend(self.objects.add_all(&mut reader, files)?);
        Ok(())
    }

    /// Somebody who knows everything that is given, and what is in the packages among it.
    fn judge(&mut self, cache: Option<&std::path::Path>, terminal: &mut Terminal) -> anyhow::Result<Judge> {
        let mut judge = Judge::new(&self.schemas)?;
        judge.add(&self.objects)?;
        if let Some(cache) = Cache::find(cache) {
            let found: Vec<_> = judge.packages().iter().filter_map(|image| cache.package(image)).collect();
            let mut packages = Documents::default();
            self.unreadable.extend(packages.add_all(&mut Files::default(), &found)?);
            judge.add(&packages)?;
        } else if let Some(path) = cache {
            terminal.warn(&format!("{}: there is no such cache", path.display()));
        }
        Ok(judge)
    }
}
