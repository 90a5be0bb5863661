//! Why an image, a layer or an entry of it is not unpacked.

use std::io;

use crate::{Digest, tar};

/// Why a layer cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot unpack a layer of type `{0}`: it is not a layer of a file system")]
    MediaType(String),
    #[error("cannot unpack an image of {found} layers: {limit} are allowed")]
    Layers { found: usize, limit: usize },
    #[error("cannot read the layer as an archive")]
    Archive(#[source] tar::Error),
    #[error("cannot unpack entry `{path}`")]
    Entry { path: String, source: Refusal },
    #[error("cannot unpack the layer")]
    Limit(#[from] LimitExceeded),
    #[error("cannot trust the layer: its content is {found}, and the image's configuration says {expected}")]
    DiffId { expected: Digest, found: Digest },
    #[error(
        "cannot unpack images to a file system that ignores the case of names: names of images may differ in case only"
    )]
    IgnoresCase,
    #[error("cannot {action}")]
    Io { action: &'static str, source: io::Error },
}

impl Error {
    pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

/// Limits travel through readers as I/O errors, and are found again here.
impl From<tar::Error> for Error {
    fn from(error: tar::Error) -> Self {
        match error {
            tar::Error::Read(error) => match error.downcast::<LimitExceeded>() {
                Ok(limit) => Self::Limit(limit),
                Err(error) => Self::Archive(tar::Error::Read(error)),
            },
            error => Self::Archive(error),
        }
    }
}

/// Why an entry is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("its name has the part `..`")]
    ParentDirectory,
    #[error("its name is empty")]
    EmptyName,
    #[error("its name has a zero byte")]
    ZeroByte,
    #[error("its name has {found} bytes; {limit} are allowed")]
    PathTooLong { found: usize, limit: usize },
    #[error("a part of its name has {found} bytes; {limit} are allowed")]
    ComponentTooLong { found: usize, limit: usize },
    #[error("its name has {found} parts; {limit} are allowed")]
    TooDeep { found: usize, limit: usize },
    #[error("it would replace the root directory")]
    ReplacesRoot,
    #[error("the file has {found} bytes; {limit} are allowed")]
    FileTooLarge { found: u64, limit: u64 },
    #[error("its path leads through the link `{0}`, which the same layer made")]
    ThroughLink(String),
    #[error("its path leads through links that leave the root directory")]
    LeavesRoot,
    #[error("its path leads through more than {0} links")]
    TooManyLinks(usize),
    #[error("its path leads through `{0}`, which is not a directory")]
    NotADirectory(String),
    #[error("it links to `{0}`, which does not exist")]
    LinkTargetMissing(String),
    #[error("it links to `{0}`, which is neither a file nor a symbolic link")]
    LinkTargetKind(String),
    #[error("it links to itself, or to what it replaces")]
    LinkToItself,
    #[error("its link is empty, too long, or has a zero byte")]
    BadLink,
    #[error("it is a whiteout that names no file")]
    BadWhiteout,
    #[error("cannot {action}")]
    Io { action: &'static str, source: io::Error },
}

impl Refusal {
    pub(super) fn io(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |source| Self::Io { action, source: source.into() }
    }
}

/// Which limit an image exceeds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    #[error("the layers unpack to more than {0} bytes")]
    Bytes(u64),
    #[error("a layer unpacks to more than {0} times its size")]
    Ratio(u64),
    #[error("the layers have more than {0} entries")]
    Entries(u64),
    #[error("the names in the layers have more than {0} bytes")]
    Names(u64),
}

/// Bytes as text for messages: printable, and not endless.
pub(super) fn printable(bytes: &[u8]) -> String {
    const LONGEST: usize = 120;
    let text = bytes[..bytes.len().min(LONGEST)].escape_ascii().to_string();
    if bytes.len() > LONGEST { format!("{text}…") } else { text }
}
