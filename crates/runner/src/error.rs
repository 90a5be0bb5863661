//! Why a function did not answer, in words that say what to do about it.

use std::error::Error;
use std::time::Duration;

use tonic::{Code, Status};

/// Why a function did not answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("there is no function `{function}`")]
    Unknown { function: String },

    #[error("cannot reach the function at {target} within {}: {reason}", seconds(.waited))]
    Unreachable { target: String, waited: Duration, reason: String },

    #[error("cannot agree on TLS with the function at {target}: {reason}")]
    Tls { target: String, reason: String },

    #[error("the function at {target} did not answer within {}", seconds(.after))]
    Timeout { target: String, after: Duration },

    #[error("lost the connection to the function at {target} while it was working: {reason}")]
    Lost { target: String, reason: String },

    #[error("the program at {target} serves the function protocol neither as v1 nor as v1beta1")]
    Unimplemented { target: String },

    #[error("the request is larger than the {limit} bytes that may be sent to the function at {target}")]
    RequestTooLarge { target: String, limit: usize },

    #[error("the answer of the function at {target} is larger than the {limit} bytes that are accepted")]
    ResponseTooLarge { target: String, limit: usize },

    #[error("the answer of the function at {target} is not a RunFunctionResponse: {reason}")]
    Garbage { target: String, reason: String },

    #[error("the function at {target} failed with {code:?}: {message}")]
    Failed { target: String, code: Code, message: String },

    #[error("the function's program ended ({how}){said}")]
    Ended { how: String, said: String },
}

pub(crate) fn seconds(duration: &Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// What a call ran into, before it is known what that means.
pub(crate) struct Fault<'a> {
    pub(crate) target: &'a str,
    pub(crate) is_tls: bool,
    pub(crate) max_request: usize,
    pub(crate) max_response: usize,
}

impl Fault<'_> {
    /// What the status of a call that failed means.
    pub(crate) fn explain(&self, status: &Status) -> CallError {
        let target = self.target.to_owned();
        let reason = innermost(status);
        let message = status.message();
        if is_tls_fault(&reason) {
            return CallError::Tls { target, reason };
        }
        match status.code() {
            Code::Unimplemented => CallError::Unimplemented { target },
            Code::OutOfRange | Code::ResourceExhausted if message.contains("encoded message length") => {
                CallError::RequestTooLarge { target, limit: self.max_request }
            }
            Code::OutOfRange if message.contains("decoded message length") => {
                CallError::ResponseTooLarge { target, limit: self.max_response }
            }
            Code::Internal if message.contains("ecode") && status.source().is_none_or(|_| true) && is_ours(message) => {
                CallError::Garbage { target, reason: message.to_owned() }
            }
            _ if status.source().is_some() => CallError::Lost { target, reason: self.with_hint(reason) },
            code => CallError::Failed { target, code, message: message.to_owned() },
        }
    }

    /// A peer that expects TLS hangs up on one that does not speak it, without a word.
    fn with_hint(&self, reason: String) -> String {
        if self.is_tls { reason } else { format!("{reason} (does it expect TLS?)") }
    }
}

/// Whether it was our side that could not make sense of the answer.
fn is_ours(message: &str) -> bool {
    message.contains("failed to decode Protobuf message") || message.contains("protocol error")
}

fn is_tls_fault(reason: &str) -> bool {
    ["certificate", "InvalidContentType", "tls handshake", "HandshakeFailure", "corrupt message", "UnknownCA"]
        .iter()
        .any(|sign| reason.contains(sign))
}

/// The cause of the cause of the error: the layers above it only say that something went wrong.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => innermost.to_string(),
    }
}
