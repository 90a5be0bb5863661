//! The directory that a store lives in, and the lock that keeps others out.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::OpenError;

const DATABASE: &str = "store.db";
const LOCK: &str = "store.lock";

/// A data directory that is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Closing is not enough: a child that was just forked has the file open as well until it runs its program.
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// Make the directory if there is none, and lock it.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let mut lock = private().create(true).truncate(false).open(path.join(LOCK)).map_err(failed)?;
        // Without waiting: a second server on the same data is a mistake, and is to be told at once.
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: path.to_owned(), process: read_process(&mut lock) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        write_process(&mut lock).map_err(failed)?;
        Ok(Self { path: path.to_owned(), lock })
    }

    pub(super) fn database(&self) -> PathBuf {
        database_in(&self.path)
    }
}

/// Where the database of a data directory is.
pub(super) fn database_in(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// The file beside a database that holds what has not been moved into it yet.
pub(super) fn write_ahead_log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// How to open a file that nobody else may read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Make sure that nobody else can read a file.
pub(super) fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Make the names in a directory durable.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn read_process(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_process(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}
