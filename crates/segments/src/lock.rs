//! The lock that keeps a second process from writing to a directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const NAME: &str = "lock";

/// A directory that only this process writes to as long as this lives.
#[derive(Debug)]
pub(crate) struct Lock(File);

/// Why a directory is not ours.
pub(crate) enum Locked {
    /// Another process has it, which may have said which one it is.
    InUse(Option<u32>),
    Failed(io::Error),
}

impl Lock {
    pub(crate) fn take(directory: &Path) -> Result<Self, Locked> {
        let path = directory.join(NAME);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
            // We write to it, and it might be a link to a foreign file.
            return Err(Locked::Failed(io::Error::other(format!("`{}` is a symbolic link", path.display()))));
        }
        let mut options = OpenOptions::new();
        // Not truncated: until the lock is ours, the file names the process that has it.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(Locked::Failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                // Only for the message: the process may have taken the lock and not written its number yet.
                let _ = file.read_to_string(&mut process);
                return Err(Locked::InUse(process.trim().parse().ok()));
            }
            Err(TryLockError::Error(error)) => return Err(Locked::Failed(error)),
        }
        note_process(&mut file).map_err(Locked::Failed)?;
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was just forked has the file open as well until it runs its program.
        let _ = self.0.unlock();
    }
}

fn note_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
