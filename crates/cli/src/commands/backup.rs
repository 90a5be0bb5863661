//! `ferroplane backup` and `ferroplane restore`: everything that is stored, in one file.

use std::path::PathBuf;

use anyhow::Context as _;
use ferroplane_apiserver::store;

use crate::Verdict;
use crate::terminal::Terminal;
use crate::up::data_directory;

/// Write everything that is stored to a file, also while the control plane runs
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The file to write; it must not exist
    file: PathBuf,

    /// Where everything is kept [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Write what is left of a store that does not open because it has lost something
    ///
    /// The control plane must not run there. `ferroplane restore --force` makes a store of it again.
    #[arg(long)]
    salvage: bool,
}

/// Put what was backed up into a data directory
///
/// The control plane must not run there. Clients that remember what they had seen are told to look again.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// A file that `ferroplane backup` wrote
    file: PathBuf,

    /// Where to keep everything [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Replace what is stored there
    #[arg(long)]
    force: bool,
}

impl Backup {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let directory = self.data_dir.map_or_else(data_directory, Ok)?;
        let spinner = terminal.spinner("writing the backup");
        let write = if self.salvage { store::salvage } else { store::backup };
        let written = write(&directory, &self.file);
        spinner.finish_and_clear();
        written.with_context(|| format!("cannot back up `{}`", directory.display()))?;
        terminal.note(&format!("wrote `{}`", self.file.display()));
        Ok(Verdict::Yes)
    }
}

impl Restore {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let directory = self.data_dir.map_or_else(data_directory, Ok)?;
        let spinner = terminal.spinner("restoring");
        let restored = store::restore(&self.file, &directory, self.force);
        spinner.finish_and_clear();
        restored.with_context(|| format!("cannot restore `{}`", self.file.display()))?;
        terminal.note(&format!("restored to `{}`", directory.display()));
        Ok(Verdict::Yes)
    }
}
