//! `ferroplane backup` and `ferroplane restore`: everything that is stored, in one file.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_apiserver::store::{self, BackupError};

use crate::Verdict;
use crate::terminal::Terminal;
use crate::up::data_directory;

/// What a terminal shows while a backup is written.
const WRITING: &str = "writing the backup";

/// Back up the data of a control plane to a file
///
/// The control plane can run meanwhile: the backup is one consistent state. It contains all objects, Secrets included.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane backup ferroplane.db
  ferroplane backup - --data-dir /var/lib/ferroplane | gzip > ferroplane.db.gz")]
pub(crate) struct Backup {
    /// The file to write, which must not exist; `-` is standard output
    file: PathBuf,

    /// Data directory of the control plane [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Save the readable part of a damaged store
    ///
    /// The control plane must not run there. `ferroplane restore --force` turns the file into a store again.
    #[arg(long)]
    salvage: bool,
}

/// Restore a backup to a data directory
///
/// The control plane must not be running. Clients list and watch anew when it is started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane restore ferroplane.db
  ferroplane restore ferroplane.db --data-dir /var/lib/ferroplane --force")]
pub(crate) struct Restore {
    /// A file that `ferroplane backup` wrote; `-` is standard input
    file: PathBuf,

    /// Data directory to restore to [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Replace existing data
    #[arg(long)]
    force: bool,
}

impl Backup {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let directory = self.data_dir.map_or_else(data_directory, Ok)?;
        let write = if self.salvage { store::salvage } else { store::backup };
        if self.file == Path::new("-") {
            return print(&directory, write, terminal).map(|()| Verdict::Yes);
        }
        let written = terminal.work(WRITING, || write(&directory, &self.file));
        written.with_context(|| format!("cannot back up `{}`", directory.display()))?;
        terminal.note(&format!("wrote `{}`", self.file.display()));
        Ok(Verdict::Yes)
    }
}

impl Restore {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let directory = self.data_dir.map_or_else(data_directory, Ok)?;
        let mut temporary = None;
        let file =
            if self.file == Path::new("-") { read(&mut temporary, terminal)? } else { self.file.clone() };
        let restored = terminal.work("restoring", || store::restore(&file, &directory, self.force));
        restored.with_context(|| format!("cannot restore `{}`", self.file.display()))?;
        terminal.note(&format!("restored to `{}`", directory.display()));
        Ok(Verdict::Yes)
    }
}

/// Write a backup to standard output. Through a file: the database writes nothing else.
fn print(
    directory: &Path,
    write: fn(&Path, &Path) -> Result<(), BackupError>,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        bail!("cannot write a backup to a terminal: redirect standard output, or name a file");
    }
    let temporary = tempfile::tempdir().context("cannot create a directory for the backup")?;
    let file = temporary.path().join("backup");
    let written = terminal.work(WRITING, || write(directory, &file));
    written.with_context(|| format!("cannot back up `{}`", directory.display()))?;
    let mut file = std::fs::File::open(&file).context("cannot read the backup")?;
    let copied = terminal.work(WRITING, || io::copy(&mut file, &mut io::stdout().lock()));
    copied.context("cannot write to standard output")?;
    Ok(())
}

/// What standard input says, in a file that lives as long as its directory.
fn read(temporary: &mut Option<tempfile::TempDir>, terminal: &mut Terminal) -> anyhow::Result<PathBuf> {
    let directory = tempfile::tempdir().context("cannot create a directory for the backup")?;
    let path = temporary.insert(directory).path().join("backup");
    let mut file = std::fs::File::create(&path).context("cannot write the backup to a file")?;
    let copied = terminal.work("reading the backup", || io::copy(&mut io::stdin().lock(), &mut file));
    copied.context("cannot read the backup from standard input")?;
    Ok(path)
}
