//! What a database of ours may hold: the tables of its version, and nothing that acts by itself.
//!
//! A database is also a program: triggers, views, generated columns and the like are run by reads and writes. So whatever
//! a file holds beside our tables is refused before the first statement that would run it.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::super::OpenError;
use super::sqlite::{APPLICATION, MIGRATIONS, explain};

/// More than any version of ours has.
const MOST: usize = 16;

/// Something that a database holds, as its own list of them has it.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    name: String,
    /// What made it, to the letter: a table of our name may still have columns and conditions that are not ours.
    sql: Option<String>,
}

/// Have a connection run nothing that is stored in its file.
pub(in super::super) fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.execute_batch("PRAGMA cell_size_check = TRUE")
}

/// Refuses a database that does not hold exactly what one of this version holds.
pub(in super::super) fn check(connection: &Connection, file: &Path, version: usize) -> Result<(), OpenError> {
    let ours = Connection::open_in_memory().and_then(|blank| {
        make(&blank, version)?;
        entries(&blank)
    });
    let ours = ours.map_err(|error| explain(error, "check", file))?;
    let found = entries(connection).map_err(|error| explain(error, "check", file))?;
    if found == ours {
        return Ok(());
    }
    let strange = found.iter().find(|entry| !ours.contains(entry));
    let why = strange.map_or("it lacks a table".to_owned(), |entry| {
        format!("Ferroplane did not make its {} `{}`", entry.kind, entry.name)
    });
    Err(OpenError::Altered { file: file.to_owned(), why })
}

fn entries(connection: &Connection) -> rusqlite::Result<Vec<Entry>> {
    let mut select =
        connection.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY name LIMIT ?1")?;
    let entry =
        |row: &rusqlite::Row<'_>| Ok(Entry { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? });
    select.query_map([MOST], entry)?.collect()
}

/// Write the rows of a database to a new one of the same version, which has our tables and nothing else.
///
/// Flushes nothing: the caller does before it names the file.
pub(in super::super) fn copy(
    source: &Connection,
    target: &Path,
    version: usize,
) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(target, flags)?;
    copy.execute_batch(
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;",
    )?;
    make(&copy, version)?;
    copy.execute_batch("BEGIN IMMEDIATE")?;
    for table in entries(&copy)? {
        copy_rows(source, &copy, &table.name)?;
    }
    copy.execute_batch("COMMIT")?;
    Ok(copy)
}

/// Columns need no names: both tables were made by the same statement.
fn copy_rows(source: &Connection, copy: &Connection, table: &str) -> rusqlite::Result<()> {
    copy.execute_batch(&format!("DELETE FROM {table}"))?;
    let mut select = source.prepare(&format!("SELECT * FROM {table}"))?;
    let columns = select.column_count();
    let places: Vec<_> = (1..=columns).map(|column| format!("?{column}")).collect();
    let mut insert = copy.prepare(&format!("INSERT INTO {table} VALUES ({})", places.join(", ")))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let values =
            (0..columns).map(|column| row.get_ref(column)).collect::<rusqlite::Result<Vec<ValueRef>>>()?;
        let values = values.into_iter().map(rusqlite::types::ToSqlOutput::Borrowed);
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// Make what a database of a version holds.
fn make(connection: &Connection, version: usize) -> rusqlite::Result<()> {
    MIGRATIONS.iter().take(version).try_for_each(|step| connection.execute_batch(step))?;
    connection
        .execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version};"))
}
