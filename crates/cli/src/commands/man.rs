//! `ferroplane man`: the manual, one page per command, or one Markdown file with all of them.

mod markdown;

use std::path::PathBuf;

use anyhow::Context as _;

use crate::Verdict;

/// Write the manual pages
///
/// Writes a page for each command, for the program `man`. With --format markdown it writes one file, commands.md, with all commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane man /usr/local/share/man/man1
  ferroplane man --format markdown docs/reference")]
pub(crate) struct Man {
    /// Directory to write to
    directory: PathBuf,

    /// Format of the pages
    #[arg(long, value_enum, default_value_t)]
    format: ManualFormat,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum ManualFormat {
    /// Pages for the program `man`
    #[default]
    Man,
    /// One Markdown file
    Markdown,
}

impl Man {
    pub(crate) fn run(self, command: &clap::Command) -> anyhow::Result<Verdict> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot create {}", self.directory.display()))?;
        let written = match self.format {
            ManualFormat::Man => clap_mangen::generate_to(command.clone(), &self.directory),
            ManualFormat::Markdown => {
                std::fs::write(self.directory.join("commands.md"), markdown::page(command.clone()))
            }
        };
        written.with_context(|| format!("cannot write manual pages to {}", self.directory.display()))?;
        Ok(Verdict::Yes)
    }
}
