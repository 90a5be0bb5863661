//! Errors of calls of functions, with the remedy.

use std::time::Duration;

use ferroplane_engine::Cause;
use tonic::Code;

/// Why a function did not answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("there is no function `{function}`")]
    Unknown { function: String },

    #[error("cannot reach the function at {target} within {}: {reason}", seconds(.waited))]
    Unreachable { target: String, waited: Duration, reason: String },

    #[error("cannot establish TLS with the function at {target}: {reason}")]
    Tls { target: String, reason: String },

    #[error("the function at {target} did not answer within {}", seconds(.after))]
    Timeout { target: String, after: Duration },

    #[error("function `{function}` was still running when its time limit was reached")]
    TimeIsUp { function: String },

    #[error("lost the connection to the function at {target} before it answered: {reason}")]
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

    #[error("cannot use the response of {target}: {reason}")]
    BadAnswer { target: String, reason: String },

    #[error("{target} refused the request with {reason}")]
    Refused { target: String, reason: String },

    #[error("cannot use the input of {function}: {reason}")]
    Input { function: String, reason: String },

    #[error("cannot let image `{image}` {what}: it has not been granted")]
    NotPermitted { image: String, what: &'static str },

    #[error("cannot call webhook `{url}`: {reason}")]
    Untrusted { url: String, reason: &'static str },

    #[error("cannot run image `{image}`: {reason}")]
    Image { image: String, reason: String },

    #[error("cannot read templates from {remote}: {reason}")]
    Templates { remote: String, reason: String },

    #[error("the function's program ended ({how}){said}")]
    Ended { how: String, said: String },
}

impl CallError {
    /// What failed, for programs.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Unknown { .. } => Cause::FunctionNotFound,
            Self::Unreachable { .. } => Cause::FunctionUnreachable,
            Self::Tls { .. } => Cause::FunctionTlsFailed,
            Self::Timeout { .. } | Self::TimeIsUp { .. } => Cause::FunctionTimeout,
            Self::Lost { .. } => Cause::FunctionConnectionLost,
            Self::Unimplemented { .. } => Cause::FunctionProtocolUnsupported,
            Self::RequestTooLarge { .. } => Cause::FunctionRequestTooLarge,
            Self::ResponseTooLarge { .. } => Cause::FunctionResponseTooLarge,
            Self::Garbage { .. } | Self::BadAnswer { .. } => Cause::FunctionResponseInvalid,
            Self::Failed { .. } | Self::Refused { .. } | Self::Input { .. } | Self::Templates { .. } => {
                Cause::FunctionCallFailed
            }
            Self::NotPermitted { .. } => Cause::AccessNotGranted,
            Self::Image { .. } | Self::Untrusted { .. } => Cause::FunctionNotRunnable,
            Self::Ended { .. } => Cause::FunctionExited,
        }
    }

    /// What kind of failure it is, as gRPC says it in Go.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "NotFound",
            // A connection that never comes about ends with the deadline in gRPC for Go, which waits for the
            // connection to be ready.
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::TimeIsUp { .. } => "DeadlineExceeded",
            Self::Tls { .. } | Self::Lost { .. } | Self::Ended { .. } => "Unavailable",
            Self::Unimplemented { .. } => "Unimplemented",
            Self::RequestTooLarge { .. } | Self::ResponseTooLarge { .. } => "ResourceExhausted",
            Self::Garbage { .. } | Self::BadAnswer { .. } => "Internal",
            Self::Refused { .. } => "Unknown",
            Self::Input { .. } => "InvalidArgument",
            Self::NotPermitted { .. } => "PermissionDenied",
            Self::Image { .. } | Self::Untrusted { .. } | Self::Templates { .. } => "FailedPrecondition",
            Self::Failed { code, .. } => name(*code),
        }
    }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        // Spelt as Go spells it: dashboards for Crossplane group by these names.
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

pub(crate) fn seconds(duration: &Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}
