//! How a built-in function starts its answer, and how it gives up.

use ferroplane_wire::v1::{ResponseMeta, Result, RunFunctionRequest, RunFunctionResponse, Severity};

/// For how long an answer holds unless its function says otherwise. It is what the SDKs say, too.
const DEFAULT_TTL_SECONDS: i64 = 60;

/// An answer that leaves everything as the request has it.
pub(crate) fn to(request: &RunFunctionRequest) -> RunFunctionResponse {
    RunFunctionResponse {
        meta: Some(ResponseMeta {
            tag: request.meta.as_ref().map(|meta| meta.tag.clone()).unwrap_or_default(),
            ttl: Some(prost_types::Duration { seconds: DEFAULT_TTL_SECONDS, nanos: 0 }),
        }),
        desired: request.desired.clone(),
        context: request.context.clone(),
        ..RunFunctionResponse::default()
    }
}

/// The same answer, with a result that stops the pipeline.
pub(crate) fn fatal(mut response: RunFunctionResponse, message: String) -> RunFunctionResponse {
    let severity = Severity::Fatal.into();
    response.results.push(Result { severity, message, ..Result::default() });
    response
}
