//! Why a request failed.

use http::StatusCode;
use serde::Deserialize;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused it.
    #[error("{0}")]
    Refused(StatusError),
    /// There was no answer, or none that could be understood. The request may have been carried out.
    #[error("cannot reach the API server")]
    Unreachable(#[source] BoxError),
    /// No API server has an object of such a name, and the path would be that of something else. Nothing was sent.
    #[error("{0}")]
    InvalidPath(String),
}

/// The `StatusBody` with which a server refused a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StatusError {
    /// The HTTP status code.
    pub code: u16,
    /// Kubernetes' word for why, such as `AlreadyExists`.
    pub reason: String,
    pub message: String,
    /// Which fields it is about, if the server said so.
    pub causes: Vec<StatusCause>,
    /// How many seconds to wait before the next try, if the server said so.
    pub retry_after: Option<u64>,
}

/// What the server has against one field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StatusCause {
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub field: String,
}

#[derive(Deserialize)]
struct StatusBody {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default, rename = "retryAfterSeconds")]
    retry_after: Option<u64>,
    #[serde(default)]
    causes: Option<Vec<StatusCause>>,
}

impl Error {
    pub(crate) fn refused(status: StatusCode, body: &[u8]) -> Self {
        Self::Refused(StatusError::read(status.as_u16(), body))
    }

    pub(crate) fn unreachable(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(StatusError {
                code: status.code,
                reason: status.reason,
                message: status.message,
                ..StatusError::default()
            }),
            error => Self::Unreachable(error.into()),
        }
    }

    /// There was no answer in time.
    pub fn timeout() -> Self {
        Self::Unreachable("there was no answer in time".into())
    }

    /// The answer is not what it should be.
    pub fn invalid_answer(error: serde_json::Error) -> Self {
        Self::Unreachable(error.into())
    }

    /// The HTTP status code, if there was an answer.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// What the server said, if there was an answer.
    pub fn status(&self) -> Option<&StatusError> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Unreachable(_) | Self::InvalidPath(_) => None,
        }
    }

    /// Whether the request may have been carried out all the same.
    pub fn is_inconclusive(&self) -> bool {
        // An object that is too large is certainly not stored, also where the code says that the server failed.
        if matches!(self, Self::InvalidPath(_)) || self.is_too_large() {
            return false;
        }
        // A server that fails may do so after it has stored the object, for instance when it times out.
        self.code().is_none_or(|code| code >= 500)
    }

    /// There is no such object, or no such path.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Another client wrote first: read again.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(StatusError::is_conflict)
    }

    /// There is an object of that name already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// The object is not valid. Sending it again is no use.
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }

    /// The object is larger than the server or its etcd stores. Sending it again is no use.
    pub fn is_too_large(&self) -> bool {
        self.status().is_some_and(StatusError::is_too_large)
    }

    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// The resource version, or the continuation of a list, is too old.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        self.status()?.retry_after.map(std::time::Duration::from_secs)
    }
}

impl StatusError {
    /// Another client wrote first, or owns a field that is applied.
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason == "Conflict"
    }

    /// The object is larger than the server or its etcd stores.
    fn is_too_large(&self) -> bool {
        // kube-apiserver passes the refusals of etcd and of its gRPC client on as they are, with the code 500.
        let of_etcd = ["etcdserver: request is too large", "trying to send message larger than max"];
        self.code == 413 || self.code == 500 && of_etcd.iter().any(|words| self.message.contains(words))
    }

    /// Read a `StatusBody`, or take the body as the message.
    pub(crate) fn read(code: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<StatusBody>(body) {
            // All fields have defaults, so that any JSON object reads as a `StatusBody`, that of a proxy in
            // between as well. A real one has a message.
            Ok(status) if !status.message.is_empty() => {
                let details = status.details.unwrap_or_default();
                Self {
                    code: if status.code == 0 { code } else { status.code },
                    reason: status.reason,
                    message: status.message,
                    causes: details.causes.unwrap_or_default(),
                    retry_after: details.retry_after,
                }
            }
            _ => Self {
                code,
                message: format!("the API server answered with status {code}"),
                ..Self::default()
            },
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_that_is_too_large_is_certainly_not_stored_whoever_refuses_it() {
        let refused = |code: u16, message: &str| {
            Error::Refused(StatusError { code, message: message.to_owned(), ..StatusError::default() })
        };
        let too_large = [
            refused(413, "Request entity too large: limit is 3145728"),
            refused(500, "etcdserver: request is too large"),
            refused(
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)",
            ),
        ];
        for error in too_large {
            assert!(error.is_too_large() && !error.is_inconclusive(), "{error}");
        }
        let failed = refused(500, "etcdserver: request timed out");
        assert!(!failed.is_too_large() && failed.is_inconclusive());
        assert!(!refused(422, "etcdserver: request is too large").is_too_large());
        assert!(!Error::timeout().is_too_large());
    }
}
