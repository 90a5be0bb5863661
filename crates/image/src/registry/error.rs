//! Why something cannot be done with a registry, and whether it is worth another try.

use std::time::Duration;

use ferroplane_api::image::Digest;
use http::StatusCode;

use crate::manifest::InvalidManifest;
use crate::{LoadError, auth, platform, store};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why an image cannot be pulled, pushed or found.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} `{subject}`")]
pub struct Error {
    operation: &'static str,
    subject: String,
    source: Box<Failure>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("cannot connect to {host}")]
    Unreachable { host: String, source: BoxError },
    #[error("cannot finish the exchange with {host}")]
    Broken { host: String, source: BoxError },
    #[error("{host} took longer than {seconds} seconds {what}")]
    Slow { host: String, what: &'static str, seconds: u64 },
    #[error("it took longer than {seconds} seconds altogether")]
    Deadline { seconds: u64 },
    #[error("{host} answers {what} with status {}{}", status.as_u16(), words(said))]
    Status {
        host: String,
        what: &'static str,
        status: StatusCode,
        said: String,
        /// How long the registry asks to wait.
        pause: Option<Duration>,
    },
    #[error(
        "{host} asks to wait for {seconds} seconds, which is longer than the {limit} seconds that are allowed"
    )]
    Throttled { host: String, seconds: u64, limit: u64 },
    #[error("{registry} has no {what}, or hides it from {}", if *has_credential { "this user" } else { "unauthenticated clients" })]
    NotFound { registry: String, what: String, has_credential: bool },
    #[error(
        "{registry} refuses access to `{repository}`{}",
        if *has_credential { ": it does not accept the credential" }
        else { ": there is no credential for it; log in with `docker login`, or name a pull secret" }
    )]
    Unauthorized { registry: String, repository: String, has_credential: bool },
    #[error("{host} redirects {problem}")]
    Redirect { host: String, problem: &'static str },
    #[error("cannot parse {what} of {host}")]
    Protocol { host: String, what: &'static str },
    #[error("cannot accept {what} of {size} bytes: at most {limit} are allowed")]
    TooLarge { what: &'static str, size: u64, limit: u64 },
    #[error("{host} sends {what} of {actual} bytes instead of {expected}")]
    Length { host: String, what: &'static str, expected: u64, actual: u64 },
    /// How much came until it was cut differs each time.
    #[error("{host} sends {what} of more than {limit} bytes, which is its size")]
    Endless { host: String, what: &'static str, limit: u64 },
    #[error("{host} sends content with the digest {actual} as {expected}")]
    Mismatch { host: String, expected: Digest, actual: Digest },
    #[error("cannot use the token server {host}: {problem}")]
    TokenServer { host: String, problem: &'static str },
    #[error("cannot push: {digest} is not in the content store")]
    Incomplete { digest: Digest },
    #[error("cannot read {digest} from the content store")]
    Unreadable { digest: Digest, source: std::io::Error },
    #[error("it is not in the content store, and the pull policy is Never")]
    NotPresent,
    #[error("cannot find a credential")]
    Credentials(#[from] auth::Error),
    #[error("cannot use the manifest")]
    Manifest(#[from] InvalidManifest),
    #[error(transparent)]
    Platform(#[from] platform::Error),
    #[error("cannot use the content store")]
    Store(#[from] store::Error),
    #[error("cannot use the pulled content")]
    Load(#[from] LoadError),
    #[error("cannot finish work in the background")]
    Background(#[from] tokio::task::JoinError),
}

impl Error {
    pub(super) fn new(operation: &'static str, subject: &impl ToString) -> impl FnOnce(Failure) -> Self {
        let subject = subject.to_string();
        move |failure| Self { operation, subject, source: Box::new(failure) }
    }

    pub fn failure(&self) -> &Failure {
        &self.source
    }
}

impl Failure {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            // A certificate will not become better.
            Self::Unreachable { source, .. } => !is_about_tls(source.as_ref()),
            Self::Broken { .. } | Self::Slow { .. } | Self::Deadline { .. } => true,
            // Less than what was announced: the connection ended early.
            Self::Length { expected, actual, .. } => actual < expected,
            Self::Status { status, .. } => matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Status { pause, .. } => *pause,
            _ => None,
        }
    }
}

fn is_about_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.any(|cause| {
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause.is::<rustls::Error>() || inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some()
    })
}

fn words(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}
