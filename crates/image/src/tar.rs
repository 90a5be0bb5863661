//! Tar archives, as layers and archives of images are: a reader that trusts nothing, and a writer whose output is reproducible.
//!
//! The reader refuses whatever two readers could understand differently, because the difference is where content hides: sparse
//! files, links with content, names and sizes that are given twice. It knows neither paths nor a file system.

mod error;
mod header;
mod pax;
mod reader;
mod writer;

pub use error::Error;
pub use header::EntryKind;
pub use reader::{Entry, MAX_EXTENSION, Reader};
pub use writer::{Member, Writer};

/// Archives consist of blocks of this size.
pub const BLOCK: usize = 512;

/// A point in time: seconds since 1970, and nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timestamp {
    pub seconds: u64,
    pub nanoseconds: u32,
}
