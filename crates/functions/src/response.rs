//! How a built-in function starts its response, adds results, and fails.

use ferroplane_wire::v1::{
    Ready, Resource, ResponseMeta, Result, RunFunctionRequest, RunFunctionResponse, Severity, Target,
};
use ferroplane_wire::{Struct, StructError};
use serde_json::Value;

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
    response.results.push(result(Severity::Fatal, message));
    response
}

/// Something to say to who reads the composite resource.
pub(crate) fn result(severity: Severity, message: String) -> Result {
    Result { severity: severity.into(), message, reason: None, target: Some(Target::Composite.into()) }
}

/// Say that something is not as it should be, and continue.
pub(crate) fn warn(response: &mut RunFunctionResponse, message: String) {
    response.results.push(result(Severity::Warning, message));
}

/// Set a key of the context, for later steps to read.
pub(crate) fn set_context(
    response: &mut RunFunctionResponse,
    key: &str,
    value: Value,
) -> std::result::Result<(), StructError> {
    let mut context = response.context.clone().unwrap_or_default().into_json()?;
    context.insert(key.to_owned(), value);
    response.context = Some(Struct::try_from(context)?);
    Ok(())
}

/// Whether the desired resource is nothing but an object and its readiness. One that upstream's SDK returns always is.
pub(crate) fn is_plain(resource: &Resource) -> bool {
    resource.resource.is_some()
        && resource.connection_details.is_empty()
        && Ready::try_from(resource.ready).is_ok()
}

/// Leave nothing of the desired resource but an object and its readiness.
pub(crate) fn make_plain(resource: &mut Resource) {
    resource.resource.get_or_insert_with(Struct::default);
    resource.connection_details.clear();
    if Ready::try_from(resource.ready).is_err() {
        resource.ready = Ready::Unspecified.into();
    }
}
