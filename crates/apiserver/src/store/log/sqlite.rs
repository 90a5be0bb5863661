//! The log in a `SQLite` database. `docs/store.md` says what is in it and why.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::super::OpenError;
use super::super::directory;
use super::super::entry::Entry;
use super::head::{self, Head, Record, Summary};
use super::{Batch, Log, LogError, Marks, Row, RowError, tables, write_ahead_log};

/// "FPLN": says that a database is a store of ours.
pub(super) const APPLICATION: u32 = 0x4650_4C4E;
/// The version of the format that this program writes.
const VERSION: u32 = 1;
/// All rows, as [`read_row`] reads them.
pub(in super::super) const SELECT_ROWS: &str =
    "SELECT revision, collection, namespace, name, deleted, object FROM log ORDER BY revision";
/// Steps from each version to the next, beginning with an empty file.
pub(super) const MIGRATIONS: [&str; VERSION as usize] = [include_str!("1.sql")];

/// Move pages from the write-ahead log into the database when there are about so many.
const CHECKPOINT_PAGES: usize = 4096;
/// Give pages back to the system when there are so many free, and they are a quarter of all.
const VACUUM_PAGES: u64 = 1024;
/// How many to give back at once.
const VACUUM_STEP: u64 = 256;

/// A log in a file.
#[derive(Debug)]
pub(in super::super) struct Sqlite {
    connection: Connection,
    file: PathBuf,
    /// What was acknowledged when the store was last open. Checked, and gone, when the log has been read.
    expected: Option<Record>,
    /// There as soon as the log has been read, and nothing is written before.
    head: Option<Head>,
    /// About how many pages the write-ahead log has that the database has not.
    pages_ahead: usize,
    /// Whether something was written since the last housekeeping.
    is_untidy: bool,
}

impl Sqlite {
    /// Open a database, or make one.
    pub(in super::super) fn open(file: &Path) -> Result<Self, OpenError> {
        let expected = Record::read(file)?;
        let is_new = is_new(file)?;
        if is_new {
            refuse_lost(file, expected)?;
        } else {
            check_header(file)?;
        }
        if expected.is_some() {
            check_write_ahead_log(file)?;
        }
        let directory = file.parent().unwrap_or(Path::new("."));
        // Made here, so that it is never readable by others. SQLite gives its other files the same permissions.
        let database = directory::private().create(true).truncate(false).open(file);
        let prepare = database.and_then(|database| directory::make_private(&database));
        prepare.map_err(|source| OpenError::Directory { path: directory.to_owned(), source })?;
        let mut log = Self::connect(file)?;
        if is_new {
            directory::sync(directory)
                .map_err(|source| OpenError::Directory { path: directory.to_owned(), source })?;
        }
        if log.is_blank()? {
            refuse_lost(file, expected)?;
        }
        log.expected = expected;
        log.migrate()?;
        tables::check(&log.connection, file, VERSION as usize)?;
        Ok(log)
    }

    fn connect(file: &Path) -> Result<Self, LogError> {
        let failed = |error| explain(error, "open", file);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
        // The file may be damaged, or forged.
        tables::distrust(&connection).map_err(failed)?;
        // `FULL`: with less, a write-ahead log may lose its last commits when the power fails. `busy_timeout`: backups and `sqlite3`
        // read beside us. `auto_vacuum` must come before anything is in the file.
        connection
            .execute_batch(
                "PRAGMA auto_vacuum = INCREMENTAL;
                 PRAGMA synchronous = FULL;
                 PRAGMA fullfsync = TRUE;
                 PRAGMA checkpoint_fullfsync = TRUE;
                 PRAGMA temp_store = MEMORY;
                 PRAGMA busy_timeout = 5000;",
            )
            .map_err(failed)?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
        if mode != "wal" {
            let source = format!("its file system allows no write-ahead log, only `{mode}`").into();
            return Err(LogError::Failed { action: "open", file: file.to_owned(), source });
        }
        connection
            // We checkpoint between commits (`tidy`), so that no commit has to wait for that.
            .execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 67108864;")
            .map_err(failed)?;
        // Until everything has been read and found: a damaged write-ahead log must be left as it is.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        Ok(Self {
            connection,
            file: file.to_owned(),
            expected: None,
            head: None,
            pages_ahead: 0,
            is_untidy: true,
        })
    }

    fn number(&self, pragma: &str) -> Result<u64, LogError> {
        let value = self.connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
        value.map_err(|error| self.explain(error, "read"))
    }

    /// Whether nothing is in the database yet. If something is, it has to be ours.
    fn is_blank(&self) -> Result<bool, OpenError> {
        let application = self.number("application_id")?;
        let version = self.number("user_version")?;
        if application == 0 && version == 0 && self.number("page_count")? <= 1 {
            return Ok(true);
        }
        check_identity(&self.file, application, version).map(|()| false)
    }

    fn migrate(&mut self) -> Result<(), LogError> {
        let version = usize::try_from(self.number("user_version")?).unwrap_or(usize::MAX);
        for (index, step) in MIGRATIONS.iter().enumerate().skip(version) {
            let step = format!(
                "BEGIN IMMEDIATE; {step}
                 PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {};
                 COMMIT;",
                index + 1
            );
            self.connection.execute_batch(&step).map_err(|error| self.explain(error, "migrate"))?;
        }
        if version < MIGRATIONS.len() {
            // So that the header says from now on what this is.
            self.checkpoint("TRUNCATE")?;
        }
        Ok(())
    }

    /// Write a batch in one transaction. If this fails the transaction may still be open.
    fn write(&self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        // At once, because a transaction that becomes a writer halfway can fail halfway.
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        if !batch.events.is_empty() {
            let mut insert = self.connection.prepare_cached(
                "INSERT INTO log (revision, collection, namespace, name, deleted, object)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for event in batch.events {
                insert_entry(&mut insert, event.entry())?;
            }
        }
        if !batch.forget.is_empty() {
            let mut delete = self.connection.prepare_cached("DELETE FROM log WHERE revision = ?1")?;
            for revision in batch.forget {
                delete.execute([revision])?;
            }
            self.connection
                .prepare_cached("UPDATE mark SET revision = ?1, floor = ?2")?
                .execute(params![batch.marks.revision, batch.marks.floor])?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Makes a batch durable, or nothing of it.
    fn commit(&mut self, batch: &Batch<'_>) -> Result<(), LogError> {
        let bytes: usize = batch.events.iter().map(|event| event.entry().bytes().len()).sum();
        // An estimate, as SQLite tells the number only when it checkpoints: pages of objects, of inserted and of deleted rows.
        self.pages_ahead += bytes / 4096 + batch.events.len() / 8 + batch.forget.len() + 2;
        self.is_untidy = true;
        let holds = self.after(batch)?;
        self.head_mut()?.prepare(holds)?;
        let Err(error) = self.write(batch) else { return Ok(()) };
        let error = self.explain(error, "write to");
        // If even this fails, the state of the database is unknown.
        self.rollback().map_err(|error| self.explain(error, "roll back"))?;
        Err(error)
    }

    /// Notes that what was committed is there. If this fails nothing may be acknowledged: the next start could not know that it
    /// has to exist. Nor may it be refused, whatever the reason: it does exist.
    fn acknowledge(&mut self) -> Result<(), LogError> {
        let file = head::path_of(&self.file);
        let noted = self.head_mut()?.acknowledge();
        noted.map_err(|source| LogError::Unacknowledged { file, source: Box::new(source) })
    }

    /// What the log holds after a batch.
    fn after(&self, batch: &Batch<'_>) -> Result<Summary, LogError> {
        let mut holds = self.head()?.holds();
        for event in batch.events {
            holds.add_row(event.revision());
            holds.revision = event.revision();
        }
        if !batch.forget.is_empty() {
            batch.forget.iter().for_each(|revision| holds.remove_row(*revision));
            (holds.revision, holds.floor) = (batch.marks.revision, batch.marks.floor);
        }
        Ok(holds)
    }

    fn head(&self) -> Result<&Head, LogError> {
        self.head.as_ref().ok_or_else(|| self.unread())
    }

    fn head_mut(&mut self) -> Result<&mut Head, LogError> {
        let unread = self.unread();
        self.head.as_mut().ok_or(unread)
    }

    fn unread(&self) -> LogError {
        let source = "it has not been read yet".into();
        LogError::Failed { action: "write to", file: self.file.clone(), source }
    }

    /// Compares what was read with what was acknowledged, and notes it as that from now on.
    fn settle(&mut self, holds: Summary) -> Result<(), LogError> {
        if let Some(expected) = self.expected.take() {
            let lost = |detail| LogError::Lost { file: self.file.clone(), detail };
            expected.check(&holds).map_err(lost)?;
        }
        self.head = Some(Head::create(&self.file, holds)?);
        let configured = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        configured.map(drop).map_err(|error| self.explain(error, "open"))
    }

    fn rollback(&self) -> rusqlite::Result<()> {
        if self.connection.is_autocommit() { Ok(()) } else { self.connection.execute_batch("ROLLBACK") }
    }

    fn checkpoint(&mut self, mode: &str) -> Result<(), LogError> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let result = self.connection.query_row(&sql, [], read);
        match result.map_err(|error| self.explain(error, "checkpoint")) {
            // A reader may still use earlier frames; the rest is moved next time.
            Ok((total, moved)) => {
                self.pages_ahead = usize::try_from(total - moved).unwrap_or(0);
                Ok(())
            }
            // Nothing is lost: it stays in the write-ahead log.
            Err(LogError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Give back some free pages. Returns whether there are more.
    fn vacuum(&mut self) -> Result<bool, LogError> {
        let free = self.number("freelist_count")?;
        if free < VACUUM_PAGES || free * 4 < self.number("page_count")? {
            return Ok(false);
        }
        self.connection
            .execute_batch(&format!("PRAGMA incremental_vacuum({VACUUM_STEP})"))
            .map_err(|error| self.explain(error, "vacuum"))?;
        Ok(true)
    }

    fn explain(&self, error: rusqlite::Error, action: &'static str) -> LogError {
        explain(error, action, &self.file)
    }
}

impl Log for Sqlite {
    fn marks(&mut self) -> Result<Marks, LogError> {
        let sql =
            "SELECT max(mark.revision, coalesce((SELECT max(revision) FROM log), 0)), mark.floor FROM mark";
        let read = |row: &rusqlite::Row<'_>| Ok(Marks { revision: row.get(0)?, floor: row.get(1)? });
        self.connection.query_row(sql, [], read).map_err(|error| self.explain(error, "read"))
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row<'_>) -> Result<(), RowError>) -> Result<(), LogError> {
        let Marks { revision, floor } = self.marks()?;
        let mut holds = Summary::new(revision, floor);
        let failed = |error| explain(error, "read", &self.file);
        let mut select = self.connection.prepare(SELECT_ROWS).map_err(failed)?;
        let mut rows = select.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let row = read_row(row).map_err(failed)?;
            holds.add_row(row.revision);
            visit(row).map_err(|error| LogError::Damaged {
                file: self.file.clone(),
                detail: format!("revision {}: {error}", row.revision),
            })?;
        }
        drop(rows);
        // Nothing is read any more, so the pages need not be kept.
        self.connection.execute_batch("PRAGMA shrink_memory").map_err(failed)?;
        drop(select);
        self.settle(holds)
    }

    fn append(&mut self, batch: &Batch<'_>) -> Result<(), LogError> {
        self.commit(batch)?;
        self.acknowledge()
    }

    fn tidy(&mut self, is_urgent: bool) -> Result<bool, LogError> {
        if is_urgent && self.pages_ahead < CHECKPOINT_PAGES || !is_urgent && !self.is_untidy {
            return Ok(false);
        }
        self.checkpoint("PASSIVE")?;
        if !is_urgent && let Some(head) = &mut self.head {
            head.flush()?;
        }
        if is_urgent {
            // Should a reader hold the checkpoint up, then not every commit should try again.
            self.pages_ahead = self.pages_ahead.min(CHECKPOINT_PAGES / 2);
            return Ok(true);
        }
        self.is_untidy = self.vacuum()?;
        Ok(self.is_untidy)
    }
}

fn insert_entry(insert: &mut rusqlite::Statement<'_>, entry: &Entry) -> rusqlite::Result<()> {
    let key = entry.key();
    insert.execute(params![
        entry.revision(),
        key.collection().name(),
        key.namespace(),
        key.name(),
        entry.is_deleted(),
        // We wrote the JSON ourselves: to check again that it is UTF-8 would cost a pass over every object.
        rusqlite::types::ToSqlOutput::Borrowed(ValueRef::Text(entry.bytes())),
    ])?;
    Ok(())
}

pub(in super::super) fn read_row<'a>(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<Row<'a>> {
    let text = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    Ok(Row {
        revision: row.get(0)?,
        collection: text(1)?,
        namespace: text(2)?,
        name: text(3)?,
        is_deleted: row.get(4)?,
        object: row.get_ref(5)?.as_bytes()?,
    })
}

/// Say what went wrong in our own terms.
pub(in super::super) fn explain(error: rusqlite::Error, action: &'static str, file: &Path) -> LogError {
    let file = file.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => LogError::Full { file },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            LogError::Damaged { file, detail: error.to_string() }
        }
        _ => LogError::Failed { action, file, source: error.into() },
    }
}

/// Refuses to begin anew where something was acknowledged.
fn refuse_lost(file: &Path, expected: Option<Record>) -> Result<(), LogError> {
    match expected.map(|record| record.revision()).filter(|revision| *revision > 0) {
        Some(revision) => {
            Err(LogError::Missing { file: file.to_owned(), head: head::path_of(file), revision })
        }
        None => Ok(()),
    }
}

/// Refuses a write-ahead log of which `SQLite` would forget a part.
pub(in super::super) fn check_write_ahead_log(database: &Path) -> Result<(), LogError> {
    let file = directory::write_ahead_log_of(database);
    match write_ahead_log::check(&file) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(detail)) => Err(LogError::Lost { file, detail: detail.to_owned() }),
        Err(error) => Err(LogError::Failed { action: "read", file, source: error.into() }),
    }
}

/// Whether there is no database yet.
fn is_new(file: &Path) -> Result<bool, OpenError> {
    let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let ahead = directory::write_ahead_log_of(file);
    let size_ahead = std::fs::metadata(&ahead).map_or(0, |metadata| metadata.len());
    if size == 0 && size_ahead > 0 {
        let detail = format!("it is empty or missing, but there is `{}`", ahead.display());
        return Err(LogError::Damaged { file: file.to_owned(), detail }.into());
    }
    Ok(size == 0)
}

/// Check that a file is a database that we may open, without `SQLite`, which might change it.
pub(in super::super) fn check_header(file: &Path) -> Result<(), OpenError> {
    let mut header = [0; 72];
    let read = File::open(file).and_then(|mut database| database.read_exact(&mut header));
    let damaged = |detail: String| LogError::Damaged { file: file.to_owned(), detail };
    read.map_err(|error| damaged(format!("cannot read its header: {error}")))?;
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(damaged("it is not an SQLite database".to_owned()).into());
    }
    let number = |at: usize| {
        u64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    let (application, version) = (number(68), number(60));
    // The process that made it may have been killed before the header was complete; then the rest is in the write-ahead log.
    let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let is_unfinished = size <= 4096 || directory::write_ahead_log_of(file).exists();
    if application == 0 && version == 0 && is_unfinished {
        return Ok(());
    }
    check_identity(file, application, version)
}

fn check_identity(file: &Path, application: u64, version: u64) -> Result<(), OpenError> {
    if application != u64::from(APPLICATION) {
        return Err(OpenError::Foreign { file: file.to_owned() });
    }
    if version > u64::from(VERSION) {
        return Err(OpenError::Newer { file: file.to_owned(), version, known: VERSION });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::{Draft, Health, Operation, Options, Store, SubmitError};
    use super::*;

    fn limit(store: &Path, pages: u32) -> Sqlite {
        let log = Sqlite::open(store).unwrap();
        log.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
        log
    }

    #[test]
    fn commits_are_flushed_to_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let log = Sqlite::open(&directory.path().join("store.db")).unwrap();
        let settings =
            ["synchronous", "fullfsync", "checkpoint_fullfsync", "auto_vacuum", "wal_autocheckpoint"];
        assert_eq!(settings.map(|setting| log.number(setting).unwrap()), [2, 1, 1, 2, 0]);
    }

    #[tokio::test]
    async fn full_disk_refuses_writes_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("store.db");
        let store = Store::with_log(Box::new(limit(&file, 30)), Options::default()).unwrap();
        let things = store.collection("things");
        let large = json!({"metadata": {}, "value": "x".repeat(10_000)});
        let create = |store: &Store, index: usize| {
            let draft = Draft::new(large.as_object().unwrap()).unwrap();
            let operation = Operation::create(things.key("", &index.to_string()), draft);
            let store = store.clone();
            async move { store.submit(vec![operation]).await }
        };
        let mut stored = 0;
        let error = loop {
            match create(&store, stored).await {
                Ok(_) => stored += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SubmitError::Full(_)), "{error:?}");
        assert!(matches!(store.health(), Health::Full(_)));
        assert_eq!((store.snapshot(&things).len(), store.revision()), (stored, stored as u64));
        // A small one still fits, so the store is well again.
        let small = Draft::new(json!({"metadata": {}}).as_object().unwrap()).unwrap();
        store.submit(vec![Operation::create(things.key("", "small"), small)]).await.unwrap();
        assert!(matches!(store.health(), Health::Fine));
        store.close().await;

        let store = Store::with_log(Box::new(limit(&file, 1000)), Options::default()).unwrap();
        let things = store.collection("things");
        assert_eq!(store.snapshot(&things).len(), stored + 1);
        let draft = Draft::new(large.as_object().unwrap()).unwrap();
        store.submit(vec![Operation::create(things.key("", "large"), draft)]).await.unwrap();
        store.close().await;
    }

    // `/dev/full` is a disk that is always full.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn commit_that_cannot_be_noted_is_not_said_to_be_refused() {
        use std::sync::Arc;

        use super::super::super::key::Collection;
        use super::super::super::watch_cache::Event;

        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("store.db");
        let mut log = Sqlite::open(&file).unwrap();
        log.load(&mut |_| Ok(())).unwrap();
        let draft = Draft::new(json!({"metadata": {}}).as_object().unwrap()).unwrap();
        let entry = Entry::written(Collection::new("things", 0, 0).key("", "one"), draft, 1);
        let events = [Arc::new(Event::new(Arc::new(entry), None))];
        log.commit(&Batch { events: &events, forget: &[], marks: Marks::default() }).unwrap();
        log.head_mut().unwrap().fill_the_disk();
        let error = log.acknowledge().unwrap_err();
        let LogError::Unacknowledged { source, .. } = error else { panic!("{error:?}") };
        assert!(matches!(*source, LogError::Full { .. }), "{source:?}");
        drop(log);

        let store = Store::with_log(Box::new(Sqlite::open(&file).unwrap()), Options::default()).unwrap();
        assert_eq!(store.snapshot(&store.collection("things")).len(), 1);
        store.close().await;
    }

    #[test]
    fn pages_are_given_back_when_many_are_free() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Sqlite::open(&directory.path().join("store.db")).unwrap();
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
            INSERT INTO log SELECT i, '', '', '', 0, hex(zeroblob(2000)) FROM n; DELETE FROM log";
        log.connection.execute_batch(fill).unwrap();
        let before = log.number("page_count").unwrap();
        while log.tidy(false).unwrap() {}
        assert!(before > 1500 && log.number("page_count").unwrap() < VACUUM_PAGES + 100);
    }
}
