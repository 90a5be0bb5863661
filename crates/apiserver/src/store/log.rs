//! What makes writes durable. The rest of the store does not know how.

use std::path::PathBuf;
use std::sync::Arc;

use super::watch_cache::Event;

pub(super) mod head;
pub(super) mod memory;
pub(super) mod sqlite;
pub(super) mod tables;
pub(super) mod write_ahead_log;

/// A durable log of everything written.
///
/// The one promise that everything rests on: when [`Log::append`] returns `Ok`, all of the batch survives whatever happens
/// next; when it returns [`LogError::Full`], none of it does. [`LogError::Unacknowledged`] says that all of it is there, but that
/// clients may not rely on it yet.
pub trait Log: Send {
    /// What the log says about itself.
    fn marks(&mut self) -> Result<Marks, LogError>;

    /// Visit every row in the order of revisions. A row that the visitor cannot make sense of is damage.
    fn load(&mut self, visit: &mut dyn FnMut(Row<'_>) -> Result<(), RowError>) -> Result<(), LogError>;

    /// Make a batch durable, as one.
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), LogError>;

    /// Do a little housekeeping. Returns whether there is more to do. If it is urgent, only what cannot wait is done.
    fn tidy(&mut self, is_urgent: bool) -> Result<bool, LogError>;
}

/// Numbers that outlive the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// No revision up to this one is given out again.
    pub revision: u64,
    /// History up to this revision may have holes.
    pub floor: u64,
}

/// A row as it was stored.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub revision: u64,
    pub collection: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub is_deleted: bool,
    pub object: &'a [u8],
}

/// Why a row cannot have been written by a store.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    #[error("cannot read its object: {0}")]
    Object(#[source] serde_json::Error),
    #[error("its object has the resource version `{0}`")]
    ResourceVersion(String),
    /// Under the name of another object, it would hide that one.
    #[error("its object is `{0}`")]
    Name(String),
    #[error("its object is too large")]
    TooLarge,
}

/// What is committed together.
#[derive(Debug)]
pub struct Batch<'a> {
    /// What happened, in the order of revisions.
    pub events: &'a [Arc<Event>],
    /// Rows that are no longer needed.
    pub forget: &'a [u64],
    /// What to mark if rows are forgotten.
    pub marks: Marks,
}

/// Why something is not durable.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Nothing of the batch was written; it may work later.
    #[error("cannot write to `{}`: the disk is full", file.display())]
    Full { file: PathBuf },
    /// All of the batch was written, but not that it was: if it got lost, the next start would not notice.
    #[error("cannot note in `{}` what was stored", file.display())]
    Unacknowledged { file: PathBuf, source: Box<LogError> },
    /// It is unknown what was written.
    #[error("cannot {action} `{}`", file.display())]
    Failed { action: &'static str, file: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("`{}` is damaged ({detail}); restore a backup, or inspect the file with `sqlite3 FILE .recover`", file.display())]
    Damaged { file: PathBuf, detail: String },
    /// It can be read, but it is not all that was written.
    #[error(
        "`{}` may have lost acknowledged writes ({detail}); restore a backup, or continue with what is left: \
         `ferroplane backup --salvage FILE`, then `ferroplane restore --force FILE`",
        file.display()
    )]
    Lost { file: PathBuf, detail: String },
    #[error(
        "`{}` is empty or missing, but revision {revision} was acknowledged; restore a backup, or delete `{}` to begin anew",
        file.display(),
        head.display()
    )]
    Missing { file: PathBuf, head: PathBuf, revision: u64 },
}
