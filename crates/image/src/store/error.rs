//! Why the store cannot do something.

use std::io;
use std::path::{Path, PathBuf};

use ferroplane_api::image::Digest;

/// Why the store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {operation} {}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "cannot use {} as the content store: it belongs to another user; choose another directory",
        directory.display()
    )]
    Owner { directory: PathBuf },
    #[error(
        "cannot use {} as the content store: it has the layout `{found}`, and this release knows `1`; \
         use a newer release or another directory",
        directory.display()
    )]
    Version { directory: PathBuf, found: String },
    #[error("cannot find {digest} in the content store")]
    Missing { digest: Digest },
    #[error("cannot use {digest} of the content store: the content had changed, and was removed")]
    Corrupt { digest: Digest },
    #[error("cannot accept content as {expected}: it has the digest {actual}")]
    Mismatch { expected: Digest, actual: Digest },
    #[error("cannot accept {digest}: it has {actual} bytes instead of {expected}")]
    Size { digest: Digest, expected: u64, actual: u64 },
    #[error("cannot accept content of {size} bytes: at most {limit} are allowed")]
    TooLarge { size: u64, limit: u64 },
    #[error(
        "cannot make room for {needed} bytes: the content store is limited to {limit} bytes, of which {used} are in use; \
         raise the limit"
    )]
    Full { needed: u64, used: u64, limit: u64 },
    #[error("cannot lock the content store: another process has held {} for {seconds} seconds", path.display())]
    Busy { path: PathBuf, seconds: u64 },
}

impl Error {
    /// Whether the content is not there, or not any more, so that it can be fetched.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Corrupt { .. })
    }

    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}
