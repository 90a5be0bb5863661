//! The directory of the store: its parts, its lock, and files that appear at once or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ferroplane_api::image::{Algorithm, Digest};
use uuid::Uuid;

use super::{Error, Store};

pub(super) const PARTIAL: &str = "partial";
pub(super) const PINS: &str = "pins";
pub(super) const ROOTS: &str = "roots";
pub(super) const REFERENCES: &str = "references";
const BLOBS: &str = "blobs";
const VERSION: &str = "1";

/// The lock is held for as long as it takes to check the directory and to rename a file.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Only one process at a time changes what is there.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Create what is missing, and refuse what is not ours.
pub(super) fn prepare(directory: &Path) -> Result<(), Error> {
    create(directory)?;
    let owner = fs::metadata(directory).map_err(Error::io("look at", directory))?.uid();
    // Programs are run from here: the owner of the directory could exchange them after they were verified.
    if owner != rustix::process::geteuid().as_raw() {
        return Err(Error::Owner { directory: directory.to_owned() });
    }
    let private = Permissions::from_mode(0o700);
    // Also if it exists, with another umask.
    fs::set_permissions(directory, private).map_err(Error::io("make private", directory))?;
    create(&directory.join(PARTIAL))?;
    check_version(directory)?;
    for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
        create(&directory.join(BLOBS).join(algorithm.name()))?;
    }
    for part in [PINS, ROOTS, REFERENCES] {
        create(&directory.join(part))?;
    }
    Ok(())
}

fn create(directory: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(Error::io("create", directory))
}

fn check_version(directory: &Path) -> Result<(), Error> {
    let path = directory.join("version");
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == VERSION => Ok(()),
        Ok(found) => {
            // It goes into an error message, and the file may hold anything.
            let found = found.trim().chars().take(20).collect();
            Err(Error::Version { directory: directory.to_owned(), found })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write_new(&directory.join(PARTIAL), &path, VERSION.as_bytes())
        }
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

/// Write a small file that is there completely or not at all, through a file in `temporary`.
pub(super) fn write_new(temporary: &Path, path: &Path, content: &[u8]) -> Result<(), Error> {
    // In the same file system: a rename across two is a copy, and not atomic.
    let hidden = temporary.join(format!("new-{}-{}", content.len(), Uuid::new_v4()));
    let written = create_private(&hidden)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&hidden, path))
        .and_then(|()| synchronise(path.parent().unwrap_or(path)));
    if written.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    written.map_err(Error::io("write", path))
}

pub(super) fn create_private(path: &Path) -> io::Result<File> {
    // `create_new` follows no link that another user may have put there.
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Names in a directory outlive a power failure only if the directory is synchronised, too.
pub(super) fn synchronise(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Whether a path still leads to an open file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

impl Store {
    pub(super) fn part(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn blob_directory(&self, algorithm: Algorithm) -> PathBuf {
        self.part(BLOBS).join(algorithm.name())
    }

    pub(super) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.blob_directory(digest.algorithm()).join(digest.hex())
    }

    /// Wait for the lock. A process that was stopped while it held it must not stop the others for ever.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        let path = self.part("lock");
        let mut options = OpenOptions::new();
        // The file stays when it is unlocked: two processes must not lock two files of one name.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Busy { path, seconds: PATIENCE.as_secs() });
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
        }
    }
}
