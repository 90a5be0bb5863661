//! The cause of a failed request to the API server, for programs.

use ferroplane_api::Cause;
use ferroplane_client::Error;
use ferroplane_engine::refusal_cause;

pub(crate) fn cause_of(error: &Error) -> Cause {
    match error {
        Error::Refused(status) => refusal_cause(&status.reason, &status.message),
        Error::Unreachable(_) => Cause::ApiServerUnreachable,
        Error::InvalidPath(_) => Cause::RequestRefused,
    }
}
