//! The directory that a store lives in, and the lock that keeps others out.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::OpenError;
use super::log::head;

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
        make_own(path)?;
        refuse_links(path)?;
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        database_in(&self.path)
    }
}

/// Makes sure that a data directory is ours, and that no other user can create files there.
fn make_own(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Directory { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(OpenError::OtherOwner { path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    let is_empty = std::fs::read_dir(path).map_err(failed)?.next().is_none();
    match permissions(mode, is_empty, database_in(path).exists()) {
        Permissions::Fine => Ok(()),
        Permissions::Narrow => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)
        }
        Permissions::Refuse => Err(OpenError::WritableByOthers { path: path.to_owned(), mode }),
    }
}

/// What to do about the permissions of a data directory.
#[derive(Debug, PartialEq, Eq)]
enum Permissions {
    Fine,
    Narrow,
    Refuse,
}

fn permissions(mode: u32, is_empty: bool, has_store: bool) -> Permissions {
    let (is_shared, is_writable) = (mode & 0o1000 != 0, mode & 0o022 != 0);
    match (is_writable, is_empty) {
        // What others have put there may be anything, and a directory like /tmp is not ours to close.
        (true, false) => Permissions::Refuse,
        (true, true) if is_shared => Permissions::Refuse,
        (true, true) => Permissions::Narrow,
        // Our files are for their owner alone wherever they are. A directory that holds other things as well, such as a working
        // directory, may stay as open as it is.
        (false, _) if mode & 0o077 != 0 && (is_empty || has_store) => Permissions::Narrow,
        (false, _) => Permissions::Fine,
    }
}

/// Refuses links in the place of files that are written. No other user can create them after the directory was checked.
fn refuse_links(directory: &Path) -> Result<(), OpenError> {
    let database = database_in(directory);
    let files = [directory.join(LOCK), write_ahead_log_of(&database), head::path_of(&database), database];
    let is_link = |file: &PathBuf| file.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    files.into_iter().find(is_link).map_or(Ok(()), |link| Err(OpenError::Link(link)))
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

/// How to open a file that only its owner may read, and that is no link.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Make sure that no other user can read a file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_made_private_or_refused() {
        for (mode, is_empty, has_store, expected) in [
            (0o700, false, true, Permissions::Fine),
            (0o755, true, false, Permissions::Narrow),
            (0o755, false, true, Permissions::Narrow),
            // Somebody's working directory.
            (0o755, false, false, Permissions::Fine),
            (0o775, true, false, Permissions::Narrow),
            (0o775, false, false, Permissions::Refuse),
            (0o777, false, true, Permissions::Refuse),
            (0o1777, true, false, Permissions::Refuse),
        ] {
            let found = permissions(mode, is_empty, has_store);
            assert_eq!(found, expected, "{mode:o} {is_empty} {has_store}");
        }
    }
}
