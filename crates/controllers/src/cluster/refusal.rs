//! Why a request came to nothing.

use http::StatusCode;
use serde::Deserialize;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server said no.
    #[error("{0}")]
    Refused(Refusal),
    /// There was no answer, or none that could be understood. The request may have been carried out.
    #[error("cannot reach the API server")]
    Unreachable(#[source] Source),
}

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// How long to wait before asking again, if the server said so.
    pub retry_after: Option<u64>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default, rename = "retryAfterSeconds")]
    retry_after: Option<u64>,
}

impl Error {
    pub(super) fn refused(status: StatusCode, body: &[u8]) -> Self {
        Self::Refused(Refusal::read(status.as_u16(), body))
    }

    pub(super) fn unreachable(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(Refusal {
                code: status.code,
                reason: status.reason,
                message: status.message,
                retry_after: None,
            }),
            error => Self::Unreachable(error.into()),
        }
    }

    pub(super) fn timeout() -> Self {
        Self::Unreachable("there was no answer in time".into())
    }

    /// The answer is not what it should be.
    pub(crate) fn garbled(error: serde_json::Error) -> Self {
        Self::Unreachable(error.into())
    }

    /// The code of the answer, if there was one.
    pub(super) fn answered(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Unreachable(_) => None,
        }
    }

    fn code(&self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal.code,
            Self::Unreachable(_) => 0,
        }
    }

    /// Whether the request may have been carried out all the same.
    pub(crate) fn is_inconclusive(&self) -> bool {
        matches!(self, Self::Unreachable(_)) || self.code() >= 500
    }

    /// There is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == 404
    }

    /// Somebody else was faster: look again.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == 409 && refusal.reason == "Conflict")
    }

    /// There is one already.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.reason == "AlreadyExists")
    }

    /// The object is not valid. Sending it again is no use.
    pub(crate) fn is_invalid(&self) -> bool {
        self.code() == 422
    }

    /// We may not.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code() == 403
    }

    /// What was asked for lies too far back.
    pub(crate) fn is_gone(&self) -> bool {
        self.code() == 410
    }

    /// How long the server wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after.map(std::time::Duration::from_secs),
            Self::Unreachable(_) => None,
        }
    }
}

impl Refusal {
    /// Read a status object, or make do with what there is instead.
    pub(super) fn read(code: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Status>(body) {
            Ok(status) if !status.message.is_empty() => Self {
                code: if status.code == 0 { code } else { status.code },
                reason: status.reason,
                message: status.message,
                retry_after: status.details.and_then(|details| details.retry_after),
            },
            _ => Self {
                code,
                reason: String::new(),
                message: format!("the API server answered with status {code}"),
                retry_after: None,
            },
        }
    }
}
