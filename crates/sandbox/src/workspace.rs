//! A directory that goes with the process that made it, and when that was killed, with the next one that looks.
//!
//! A process holds the lock of its directory for as long as it lives. The kernel drops the lock however the process ends. The number of a
//! process says nothing: in a container, every process before us may have had our own, and one in another container may have it now.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The suffix of the lock beside a directory.
const LOCK: &str = ".lock";

/// A directory of this process. Dropping it removes it.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    lock: Lock,
}

impl Workspace {
    /// An empty directory of our own below this one, which is made if need be. Those of processes that are gone are removed.
    pub fn open(parent: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        remove_abandoned(parent)?;
        let mut number = 1_u64;
        loop {
            let name = format!("{}.{number}", std::process::id());
            if let Some(lock) = Lock::take(parent, &name)? {
                let path = parent.join(name);
                remove_tree(&path)?;
                DirBuilder::new().mode(0o700).create(&path)?;
                return Ok(Self { path, lock });
            }
            // Another one of this process has it, or a process of our number elsewhere.
            number += 1;
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // If it cannot be removed now, its lock stays, and the next process tries again.
        if remove_tree(&self.path).is_ok() {
            self.lock.remove();
        }
    }
}

/// Remove the directories of processes that are gone. Those that cannot be removed stay, and are logged.
pub fn remove_abandoned(parent: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        names.insert(name.strip_suffix(LOCK).unwrap_or(&name).to_owned());
    }
    for name in names {
        let Some(lock) = Lock::take(parent, &name)? else { continue };
        let path = parent.join(name);
        match remove_tree(&path) {
            Ok(()) => lock.remove(),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot remove what a process left behind");
            }
        }
    }
    Ok(())
}

/// Remove a directory, even if a program made parts of it unreadable: one of our own user can.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        result => result,
    }
}

/// Make directories readable. What fails here fails again when it is removed.
fn open_up(directory: &Path) {
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// The lock of a directory, held until it is dropped.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Take the lock of a directory, unless another process has it.
    fn take(parent: &Path, name: &str) -> io::Result<Option<Self>> {
        let path = parent.join(format!("{name}{LOCK}"));
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => {}
            }
            let lock = Self { path: path.clone(), file };
            // The process that removed the directory removed its lock, too, while we opened it.
            if lock.is_at_its_path() {
                return Ok(Some(lock));
            }
        }
    }

    fn is_at_its_path(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(ours), Ok(there)) => identity(ours) == identity(there),
            _ => false,
        }
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("list").map(|entry| entry.expect("entry").file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_process_of_our_own_number_left_is_removed_and_no_obstacle() {
        let parent = tempfile::tempdir().expect("directory");
        let process = std::process::id();
        // The kernel has dropped the lock. Releases before had none.
        for left in [format!("{process}.1"), format!("{process}-1"), "4294967295.1".to_owned()] {
            fs::create_dir_all(parent.path().join(&left).join("tls")).expect("directory");
            fs::write(parent.path().join(&left).join("tls/tls.key"), "secret").expect("key");
        }
        fs::write(parent.path().join(format!("{process}.1{LOCK}")), "").expect("lock");
        let workspace = Workspace::open(parent.path()).expect("workspace");
        let own = format!("{process}.1");
        assert_eq!(names(parent.path()), [own.clone(), format!("{own}{LOCK}")]);
        assert_eq!(names(workspace.path()), Vec::<String>::new());
        drop(workspace);
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }

    #[test]
    fn directory_of_a_process_that_lives_is_left_alone() {
        let parent = tempfile::tempdir().expect("directory");
        let one = Workspace::open(parent.path()).expect("workspace");
        fs::write(one.path().join("file"), "kept").expect("file");
        let other = Workspace::open(parent.path()).expect("workspace");
        assert_ne!(one.path(), other.path());
        remove_abandoned(parent.path()).expect("removal");
        drop(other);
        assert_eq!(fs::read(one.path().join("file")).expect("file"), b"kept");
    }

    #[test]
    fn directory_that_a_program_made_unreadable_is_removed() {
        let parent = tempfile::tempdir().expect("directory");
        let left = parent.path().join("4294967295.1");
        fs::create_dir_all(left.join("closed/below")).expect("directory");
        fs::set_permissions(left.join("closed"), Permissions::from_mode(0o000)).expect("mode");
        remove_abandoned(parent.path()).expect("removal");
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }

    #[test]
    fn directory_that_is_not_there_has_nothing_to_remove() {
        let parent = tempfile::tempdir().expect("directory");
        remove_abandoned(&parent.path().join("none")).expect("nothing");
    }
}
