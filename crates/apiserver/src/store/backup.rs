//! Copies of a store: taking one, and beginning again from one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::OpenError;
use super::directory::{self, Directory, database_in, write_ahead_log_of};
use super::log::sqlite::check_header;

/// How far a restored store is moved on, so that no revision that was given out since is given out again.
const LEAP: u64 = 1_000_000;

/// Why a store could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("cannot back up a store that is only in memory")]
    InMemory,
    #[error("cannot back up `{}`: there is no store", _0.display())]
    NoStore(PathBuf),
    #[error("cannot write `{}`: it exists already", _0.display())]
    Exists(PathBuf),
    #[error("cannot restore to `{}`: there is a store already", _0.display())]
    NotEmpty(PathBuf),
    #[error("cannot restore `{}`: it is damaged: {detail}", file.display())]
    Damaged { file: PathBuf, detail: String },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot {action} `{}`", file.display())]
    File { action: &'static str, file: PathBuf, source: io::Error },
    #[error("cannot {action} `{}`", file.display())]
    Sqlite { action: &'static str, file: PathBuf, source: rusqlite::Error },
}

/// Write a copy of the store in a data directory, which may be in use, to a file that must not exist.
pub fn backup(data_directory: &Path, file: &Path) -> Result<(), BackupError> {
    let database = database_in(data_directory);
    if !database.exists() {
        return Err(BackupError::NoStore(data_directory.to_owned()));
    }
    check_header(&database)?;
    if file.exists() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let partial = Partial::create(file)?;
    let copy = |connection: Connection| {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        // One consistent moment, read from a connection of its own: the writer does not wait.
        connection.execute("VACUUM INTO ?1", [partial.path.to_string_lossy()])
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(&database, flags).and_then(copy).map_err(|source| BackupError::Sqlite {
        action: "back up",
        file: database,
        source,
    })?;
    partial.finish(false)
}

/// Make the store in a data directory what it was when a backup was taken.
///
/// A store that is there already is replaced only if told so. Watches and lists from before are told to begin anew.
pub fn restore(file: &Path, data_directory: &Path, replace: bool) -> Result<(), BackupError> {
    check_header(file)?;
    let lock = Directory::lock(data_directory)?;
    let database = lock.database();
    if database.exists() && !replace {
        return Err(BackupError::NotEmpty(data_directory.to_owned()));
    }
    let partial = Partial::create(&database)?;
    fs::copy(file, &partial.path)
        .and_then(|_| directory::make_private(&File::open(&partial.path)?))
        .map_err(|source| BackupError::File { action: "copy", file: file.to_owned(), source })?;
    prepare(&partial.path, file)?;
    // After the copy was checked, and before it gets its name: until here the old store is as it was.
    retire(&database)?;
    partial.finish(true)
}

/// Make sure that the write-ahead log of an old database is not taken for that of a new one.
fn retire(database: &Path) -> Result<(), BackupError> {
    if database.exists() {
        // If this works the old store is still whole should we be interrupted; if not it was damaged anyway.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let _ = Connection::open_with_flags(database, flags)
            .and_then(|connection| connection.execute_batch("PRAGMA journal_mode = DELETE"));
    }
    remove(&write_ahead_log_of(database))?;
    remove(&shared_memory_of(database))
}

/// Check the copy, and move it on.
fn prepare(copy: &Path, original: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::Sqlite { action: "read", file: original.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags).map_err(failed)?;
    let detail: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if detail != "ok" {
        return Err(BackupError::Damaged { file: original.to_owned(), detail });
    }
    let leap = format!(
        "PRAGMA journal_mode = DELETE;
         UPDATE mark SET revision = max(revision, coalesce((SELECT max(revision) FROM log), 0)) + {LEAP};
         UPDATE mark SET floor = revision;"
    );
    connection.execute_batch(&leap).map_err(failed)
}

fn shared_memory_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-shm");
    name.into()
}

fn remove(file: &Path) -> Result<(), BackupError> {
    match fs::remove_file(file) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(BackupError::File { action: "remove", file: file.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// A file that is not finished. It gets its name when it is, and is removed if it never is.
struct Partial {
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    fn create(target: &Path) -> Result<Self, BackupError> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = Self { path: name.into(), target: target.to_owned() };
        remove(&partial.path)?;
        directory::private().create_new(true).open(&partial.path).map_err(|source| partial.failed(source))?;
        Ok(partial)
    }

    /// Make it durable, and give it its name.
    fn finish(self, replace: bool) -> Result<(), BackupError> {
        let finish = || {
            File::open(&self.path)?.sync_all()?;
            if replace {
                fs::rename(&self.path, &self.target)?;
            } else {
                // Unlike renaming, this fails if somebody made the file meanwhile.
                fs::hard_link(&self.path, &self.target)?;
                fs::remove_file(&self.path)?;
            }
            directory::sync(self.target.parent().filter(|parent| *parent != "").unwrap_or(Path::new(".")))
        };
        finish().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> BackupError {
        BackupError::File { action: "write", file: self.target.clone(), source }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it was given its name there is nothing here any more.
        let _ = fs::remove_file(&self.path);
    }
}
