//! Finds the rows of a copy that no store can have written: a store that has one of them does not open.

use rusqlite::{Connection, params};

use super::entry::Entry;
use super::log::sqlite::{SELECT_ROWS, read_row};
use super::state::State;

/// A row that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DamagedRow {
    revision: i64,
    /// The revision, and what is wrong.
    pub(super) detail: String,
}

/// The damaged rows of a database, or as many of them as the caller wants.
pub(super) fn find(connection: &Connection, most: usize) -> rusqlite::Result<Vec<DamagedRow>> {
    let mut state = State::new(0, 0);
    let mut damaged = Vec::new();
    let mut select = connection.prepare(SELECT_ROWS)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()?
        && damaged.len() < most
    {
        let revision: i64 = row.get(0)?;
        let checked = read_row(row).map_err(|error| error.to_string()).and_then(|row| {
            let key = state.collection(row.collection).key(row.namespace, row.name);
            let entry = Entry::loaded(key, row.revision, row.is_deleted, row.object, None);
            entry.map(drop).map_err(|error| error.to_string())
        });
        if let Err(why) = checked {
            damaged.push(DamagedRow { revision, detail: format!("revision {revision}: {why}") });
        }
    }
    Ok(damaged)
}

/// Remove the damaged rows of a copy.
pub(super) fn remove(connection: &Connection) -> rusqlite::Result<()> {
    for row in find(connection, usize::MAX)? {
        tracing::warn!(row = row.detail, "leaving out a damaged row");
        connection.execute("DELETE FROM log WHERE revision = ?1", params![row.revision])?;
    }
    Ok(())
}
