//! Why there are no templates.

use std::io;
use std::sync::Arc;

use ferroplane_engine::{InvalidRemote, REMOTE_TEMPLATES_ARE_OFF};
use ferroplane_image::registry;

/// Why there are no templates. Its text repeats in conditions, so that it says nothing that changes with time. Clones share it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Invalid(#[from] InvalidRemote),

    #[error("{}", REMOTE_TEMPLATES_ARE_OFF)]
    NotAllowed,

    #[error("they are being fetched, and will be used as soon as they are there")]
    Fetching,

    #[error("too many templates are being fetched; this one has to wait")]
    Busy,

    #[error("cannot pull the artefact")]
    Registry(#[source] Arc<registry::Error>),

    #[error("cannot read layer {digest} of the artefact: {reason}")]
    Layer { digest: String, reason: String },

    #[error("cannot run `{program}`, which fetches from repositories of git: {reason}; install git")]
    NoGit { program: String, reason: String },

    #[error("git could not {what}: {said}")]
    Git { what: &'static str, said: String },

    #[error("it took longer than {seconds} s")]
    TooSlow { seconds: u64 },

    #[error("more than {limit} bytes would have to be transferred")]
    TransferTooLarge { limit: u64 },

    #[error("the templates have more than {limit} bytes; name a directory behind `#`")]
    TooLarge { limit: u64 },

    #[error("there are more than {limit} files; name a directory behind `#`")]
    TooMany { limit: usize },

    #[error("file `{name}` is not text")]
    NoText { name: String },

    #[error("there are no files in {}", place(.directory))]
    Empty { directory: String },

    #[error("cannot use the disk: {0}")]
    Disk(#[source] Arc<io::Error>),

    #[error("it ended before it was done")]
    Ended,
}

fn place(directory: &str) -> String {
    if directory.is_empty() { "it".to_owned() } else { format!("directory `{directory}`") }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Disk(Arc::new(error))
    }
}
