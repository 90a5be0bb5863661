//! Copies of a store: taking one, and beginning again from one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::damaged_rows;
use super::directory::{self, Directory, database_in, write_ahead_log_of};
use super::log::head::{self, Record, Summary};
use super::log::sqlite::{check_header, check_write_ahead_log};
use super::log::tables;
use super::{LogError, OpenError};

/// How far a restored store is moved on, so that no revision that was given out since is given out again.
const LEAP: u64 = 1_000_000;

/// What a backup is called while it is checked.
const RECEIVED: &str = "received";
/// How the names of files end that are not finished.
const PARTIAL: &str = ".partial";

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

/// What to do about a store that has lost something that it had acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Refuse to copy it: an incomplete backup without a sign of it is worse than none.
    Refuse,
    /// Copy what is left.
    Accept,
}

/// Write a copy of the store in a data directory, which may be in use, to a file that must not exist.
pub fn backup(data_directory: &Path, file: &Path) -> Result<(), BackupError> {
    copy(data_directory, file, Loss::Refuse)
}

/// The same of a store that has lost something: write what is left of it.
pub fn salvage(data_directory: &Path, file: &Path) -> Result<(), BackupError> {
    copy(data_directory, file, Loss::Accept)
}

fn copy(data_directory: &Path, file: &Path, loss: Loss) -> Result<(), BackupError> {
    let database = database_in(data_directory);
    if !database.exists() {
        return Err(BackupError::NoStore(data_directory.to_owned()));
    }
    check_header(&database)?;
    if file.exists() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let source = Source::new(data_directory, &database, loss)?;
    let partial = Partial::create(file)?;
    let copy = |connection: Connection| {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        // If no other process has it open: a database that may be damaged must be left as it is.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // One consistent moment, read from a connection of its own: the writer does not wait.
        connection.execute("VACUUM INTO ?1", [partial.path.to_string_lossy()])
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(&database, flags).and_then(copy).map_err(|source| BackupError::Sqlite {
        action: "back up",
        file: database.clone(),
        source,
    })?;
    source.check(&partial.path)?;
    if loss == Loss::Accept {
        // A store with such a row does not open, so that what is left would be of no use.
        let failed = |source| BackupError::Sqlite { action: "write", file: partial.path.clone(), source };
        Connection::open(&partial.path).and_then(|copy| damaged_rows::remove(&copy)).map_err(failed)?;
    }
    partial.finish(false)
}

/// What is known of a store before it is copied.
struct Source<'a> {
    database: &'a Path,
    acknowledged: Option<Record>,
    /// Held while it is copied, unless another process holds it, which has checked it already.
    lock: Option<Directory>,
}

impl<'a> Source<'a> {
    fn new(data_directory: &Path, database: &'a Path, loss: Loss) -> Result<Self, BackupError> {
        let lock = match Directory::lock(data_directory) {
            Ok(lock) => Some(lock),
            Err(OpenError::Locked { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut acknowledged = None;
        if loss == Loss::Refuse {
            // Who writes meanwhile may be caught in the middle of it; the next look finds it done.
            let again = |_| Record::read(database);
            acknowledged = Record::read(database).or_else(again).or_else(again)?;
            if acknowledged.is_some() && lock.is_some() {
                check_write_ahead_log(database).map_err(OpenError::from)?;
            }
        }
        Ok(Self { database, acknowledged, lock })
    }

    /// Refuses a copy that lacks something that was acknowledged before it was made.
    fn check(&self, copy: &Path) -> Result<(), BackupError> {
        let Some(acknowledged) = self.acknowledged else { return Ok(()) };
        let failed = |source| BackupError::Sqlite { action: "read", file: self.database.to_owned(), source };
        let found = summarize(copy).map_err(failed)?;
        // A user who writes meanwhile may come any way, but never back.
        let is_whole = self.lock.is_none() && found.revision >= acknowledged.revision();
        let checked = if is_whole { Ok(()) } else { acknowledged.check(&found) };
        checked.map_err(|detail| {
            let lost = LogError::Lost { file: self.database.to_owned(), detail };
            OpenError::from(lost).into()
        })
    }
}

/// What a copy holds.
fn summarize(copy: &Path) -> rusqlite::Result<Summary> {
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let marks =
        "SELECT max(mark.revision, coalesce((SELECT max(revision) FROM log), 0)), mark.floor FROM mark";
    let mut summary = connection.query_row(marks, [], |row| Ok(Summary::new(row.get(0)?, row.get(1)?)))?;
    let mut select = connection.prepare("SELECT revision FROM log")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        summary.add_row(row.get(0)?);
    }
    Ok(summary)
}

/// Make the store in a data directory what it was when a backup was taken.
///
/// An existing store is replaced only if the caller says so. Watches and lists from before have to begin anew.
pub fn restore(file: &Path, data_directory: &Path, replace: bool) -> Result<(), BackupError> {
    check_header(file)?;
    let lock = Directory::lock(data_directory)?;
    let database = lock.database();
    remove_leftovers(lock.path())?;
    if database.exists() && !replace {
        return Err(BackupError::NotEmpty(data_directory.to_owned()));
    }
    // Two copies: one of the file as it is, which nothing changes while it is checked, and one of its rows.
    let received = Partial::create(&lock.path().join(RECEIVED))?;
    fs::copy(file, &received.path)
        .and_then(|_| directory::make_private(&File::open(&received.path)?))
        .map_err(|source| BackupError::File { action: "copy", file: file.to_owned(), source })?;
    let partial = Partial::create(&database)?;
    prepare(&received.path, &partial.path, file)?;
    // After the copy was checked, and before it gets its name: until here the old store is as it was.
    retire(&database)?;
    partial.finish(true)
}

/// Remove files of interrupted restores. Only the holder of the lock restores.
fn remove_leftovers(directory: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::File { action: "read", file: directory.to_owned(), source };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(PARTIAL) && (text.starts_with(RECEIVED) || text.starts_with("store.db.")) {
            remove(&directory.join(&name))?;
        }
    }
    Ok(())
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
    remove(&shared_memory_of(database))?;
    // What was acknowledged before says nothing about what is restored.
    remove(&head::path_of(database))
}

/// Check what was received, write its rows to a database of our own making, and move that on.
///
/// A backup may come from anybody. Nothing that is stored in it is run: what it holds beside our tables is refused first, and then
/// only rows are read.
fn prepare(received: &Path, copy: &Path, original: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::Sqlite { action: "read", file: original.to_owned(), source };
    // Immutable: no journal is looked for, and nothing is written.
    let address = format!("file:{}?immutable=1", percent_encode(received));
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(address, flags).map_err(failed)?;
    tables::distrust(&source).map_err(failed)?;
    let version = source.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    tables::check(&source, original, version)?;
    // Before any table is read: a tree with the same page in two places could be walked for ever.
    let detail: String =
        source.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if detail != "ok" {
        return Err(BackupError::Damaged { file: original.to_owned(), detail });
    }
    let copy = tables::copy(&source, copy, version).map_err(failed)?;
    // Before a store that opens is replaced by one that does not.
    if let Some(row) = damaged_rows::find(&copy, 1).map_err(failed)?.pop() {
        return Err(BackupError::Damaged { file: original.to_owned(), detail: row.detail });
    }
    let leap = format!(
        "UPDATE mark SET revision = max(revision, coalesce((SELECT max(revision) FROM log), 0)) + {LEAP};
         UPDATE mark SET floor = revision;"
    );
    copy.execute_batch(&leap).map_err(failed)
}

/// A path as `SQLite` reads it in an address, where some characters have a meaning.
fn percent_encode(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    let bytes = path.as_os_str().as_encoded_bytes();
    let encode = |byte: &u8| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(encode).collect()
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
        name.push(format!(".{}{PARTIAL}", std::process::id()));
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
                // Unlike renaming, this fails if the file was created meanwhile.
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
