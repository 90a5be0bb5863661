//! `ferroplane man`: the manual, one page per command.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::Verdict;

/// Write the manual pages
///
/// For example: `ferroplane man /usr/local/share/man/man1`
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The directory to write to
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self, command: &clap::Command) -> anyhow::Result<Verdict> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot create {}", self.directory.display()))?;
        clap_mangen::generate_to(command.clone(), &self.directory)
            .with_context(|| format!("cannot write manual pages to {}", self.directory.display()))?;
        Ok(Verdict::Yes)
    }
}
