//! A directory of content that is named by its digest, shared by every process that uses it.
//!
//! | Path | Content |
//! |---|---|
//! | `version` | the version of this layout, `1` |
//! | `lock` | locked while content is removed, evicted, or moved into place |
//! | `blobs/ALGORITHM/HEX` | content; the time of the last change is the time of the last use |
//! | `partial/…` | content that is being written, or whose transfer was interrupted |
//! | `pins/…` | digests that a running process needs; locked while the process is alive |
//! | `roots/…` | digests that stay until they are released by name |
//! | `references/…` | which digest a reference had when it was last pulled |
//!
//! # Invariants
//! * What is in `blobs` was written completely, synchronised and verified before it got its name.
//! * What is handed out was verified when it was opened. Content that does not have its digest is removed.
//! * Content and reservations never exceed [`Limits::max_bytes`]. The least recently used content goes first; what is pinned or a
//!   root never goes.
//! * A process that ends at any point leaves nothing but files in `partial` and `pins`, which the next one that makes room removes.

mod collect;
mod directory;
mod error;
mod pins;
mod read;
mod records;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use collect::Usage;
pub use error::Error;
pub use pins::Pin;
pub use read::BlobReader;
pub use write::BlobWriter;

/// How much a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All content together, with what is being written.
    pub max_bytes: u64,
    /// One blob.
    pub max_blob_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 10 << 30, max_blob_bytes: 4 << 30 }
    }
}

/// A content store. Clones share it. Its calls block on the disk.
#[derive(Debug, Clone)]
pub struct Store {
    directory: Arc<PathBuf>,
    limits: Limits,
}

impl Store {
    /// Open the store in a directory, which is created if need be. Only the user may look into it.
    pub fn open(directory: impl AsRef<Path>, limits: Limits) -> Result<Self, Error> {
        let directory = directory.as_ref();
        directory::prepare(directory)?;
        Ok(Self { directory: Arc::new(directory.to_owned()), limits })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }
}
