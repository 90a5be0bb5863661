//! Calls functions that behave, and many that do not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod drive;
mod external;
mod grpc;
mod long_calls;
mod process;
mod program;
mod remote_templates;
#[cfg(feature = "wasm")]
mod starlark;
#[cfg(feature = "wasm")]
mod wasm;

use ferroplane_wire::v1::{RequestMeta, Result, RunFunctionRequest, RunFunctionResponse};

/// An answer that says this.
fn says(text: impl Into<String>) -> RunFunctionResponse {
    let result = Result { message: text.into(), ..Result::default() };
    RunFunctionResponse { results: vec![result], ..RunFunctionResponse::default() }
}

/// What an answer says.
fn said(response: &RunFunctionResponse) -> &str {
    &response.results[0].message
}

/// A request that asks this.
fn asks(text: &str) -> RunFunctionRequest {
    let meta = RequestMeta { tag: text.to_owned(), ..RequestMeta::default() };
    RunFunctionRequest { meta: Some(meta), ..RunFunctionRequest::default() }
}
