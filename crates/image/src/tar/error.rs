//! Why an archive cannot be read.

use std::io;

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    #[error("the archive ends in the middle of an entry")]
    Truncated,
    #[error("the checksum of a header is wrong")]
    Checksum,
    #[error("the {field} of a header is not a number")]
    Number { field: &'static str },
    #[error("a block of zeros is followed by an entry")]
    ZeroBlock,
    #[error("an extended header has {size} bytes, more than {limit}")]
    ExtensionTooLarge { size: u64, limit: u64 },
    #[error("an extended header is malformed")]
    Extension,
    #[error("an extended header gives the {what} for all entries, which readers understand differently")]
    GlobalExtension { what: &'static str },
    #[error("the {what} of an entry is given twice")]
    Ambiguous { what: &'static str },
    #[error("an entry is a sparse file, which is not supported")]
    Sparse,
    #[error("an entry has the unknown type `{}`", .0.escape_ascii())]
    UnknownType(u8),
    #[error("an entry that is not a file has content")]
    UnexpectedContent,
    #[error("an extended header is followed by no entry")]
    Dangling,
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}
