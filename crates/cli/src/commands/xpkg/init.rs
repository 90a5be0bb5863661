//! `ferroplane xpkg init`: a directory to write a package in.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::Verdict;
use crate::terminal::Terminal;
use crate::xpkg::templates::{Template, TemplateParser, fill};

/// Start a new package from a template
///
/// Templates are part of this program; nothing is downloaded. The directory must be empty.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg init platform configuration -d platform
  ferroplane xpkg init function-tags function -d function-tags")]
pub(crate) struct Init {
    /// Name of the new package: lower case letters, digits and dashes
    name: String,

    /// Template
    #[arg(value_parser = TemplateParser::new())]
    template: Template,

    /// Directory to write to; it is created if need be
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Crossplane's flag. It has no effect: these templates need no script
    #[arg(short, long, hide = true)]
    run_init_script: bool,

    /// Crossplane's flag. It is refused: a template of this program has one version
    #[arg(short = 'b', long, value_name = "REF", hide = true)]
    ref_name: Option<String>,
}

impl Init {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        check_name(&self.name)?;
        if let Some(reference) = &self.ref_name {
            bail!(
                "cannot use branch or tag `{reference}` of a template: templates are part of this program, and each has one version; \
                 leave out --ref-name, or clone the template yourself with `git clone --branch {reference}`"
            );
        }
        let directory = &self.directory;
        let failed = || format!("cannot write a package to `{}`", directory.display());
        fs::create_dir_all(directory).with_context(failed)?;
        let mut entries = fs::read_dir(directory).with_context(failed)?;
        // A new repository may be there already.
        let is_taken = entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != ".git"));
        if is_taken {
            bail!("{}: it is not empty; name another directory with -d", failed());
        }
        for (path, text) in self.template.files() {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap_or(directory)).with_context(failed)?;
            fs::write(&path, fill(text, &self.name)).with_context(failed)?;
        }
        terminal.note(&format!("wrote package `{}` to `{}`", self.name, directory.display()));
        terminal.line(&fill(self.template.next_steps(), &self.name));
        Ok(Verdict::Yes)
    }
}

/// Names of packages are names of objects.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_valid = (1..=63).contains(&name.len())
        && name.bytes().all(|byte| is_plain(byte) || byte == b'-')
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && name.bytes().last().is_some_and(is_plain);
    if is_valid {
        return Ok(());
    }
    bail!(
        "`{name}` is not a valid name of a package: use lower case letters, digits and dashes, and begin with a letter"
    )
}
