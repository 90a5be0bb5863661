//! `ferroplane blueprint validate`: would a control plane take this Blueprint?

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ferroplane_engine::versions::Version;
use ferroplane_functions::Library;
use ferroplane_offline::blueprints::{Severity, is_kind, validate};
use ferroplane_offline::manifest::Files;

use crate::Verdict;
use crate::terminal::Terminal;

/// Check Blueprints as a control plane does when they are written
///
/// Every phase is checked against the version of the function that it calls: its `funcVersion`, or the stable one. Functions, versions and
/// arguments that do not exist, arguments that are missing, conditions and durations that cannot be read, and names that two phases have
/// are errors. Deprecated versions are warnings; so are versions that do not exist, in whose place v0.0.0 runs, unless --strict.
///
/// Exit codes: 0 valid; 3 invalid; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane blueprint validate blueprint.yaml
  ferroplane blueprint validate blueprints/ --strict
  ferroplane blueprint validate blueprints/ --at 0.5.0")]
pub(crate) struct Validate {
    /// Files and directories with Blueprints; `-` for standard input
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,

    /// Treat a version that does not exist as an error
    #[arg(long)]
    strict: bool,

    /// Evaluate against this Ferroplane release
    #[arg(long, value_name = "RELEASE")]
    at: Option<Version>,
}

impl Validate {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let library = Library::built_in().context("this build is broken")?;
        let mut files = Files::default();
        let (mut count, mut errors, mut warnings) = (0, 0, 0);
        for path in &self.files {
            for manifest in files.load(path)?.iter().filter(|manifest| is_kind(manifest, "Blueprint")) {
                count += 1;
                for finding in validate(manifest, &library, self.at.as_ref(), self.strict) {
                    match finding.severity {
                        Severity::Error => {
                            errors += 1;
                            terminal.text(&format!("{finding}\n"))?;
                        }
                        Severity::Warning => {
                            warnings += 1;
                            terminal.text(&format!("warning: {finding}\n"))?;
                        }
                    }
                }
            }
        }
        if count == 0 {
            bail!("there is no Blueprint (cr.kanister.io/v1alpha1) in the files");
        }
        terminal.note(&format!("{count} Blueprints: {errors} errors, {warnings} warnings"));
        Ok(if errors == 0 { Verdict::Yes } else { Verdict::No })
    }
}
