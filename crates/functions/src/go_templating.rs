//! `function-go-templating`: composes what Go templates print.
//!
//! The template sees the request as JSON writes it, and prints YAML documents. A document is a composed resource, named by an
//! annotation; or the composite resource, whose status it sets; or says something about it in a kind of the function's own.
//!
//! Nothing here reads files, the environment, the network or a clock, and what a template may cost is bounded.

mod documents;
mod helpers;
mod input;
mod json;
mod release;

use std::sync::Arc;

use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{Budget, Heap, Templates, Value};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, to_json};

use crate::chance::Chance;
use crate::{response, ttl};
use input::Prepared;
use release::Release;

/// As upstream from v0.12.0 to v0.12.2.
pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_12, request)
}

/// As upstream from v0.11.0 to v0.11.9.
pub(crate) fn run_v0_11(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_11, request)
}

/// As upstream from v0.9.0 to v0.10.1.
pub(crate) fn run_v0_9(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_9, request)
}

/// As upstream in v0.8.0.
pub(crate) fn run_v0_8(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_8, request)
}

/// As upstream in v0.7.0.
pub(crate) fn run_v0_7(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_7, request)
}

/// As upstream in v0.6.0.
pub(crate) fn run_v0_6(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_6, request)
}

/// As upstream in v0.5.0.
pub(crate) fn run_v0_5(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_5, request)
}

/// As upstream from v0.4.0 to v0.4.1.
pub(crate) fn run_v0_4(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_4, request)
}

fn run_as(release: Release, request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    let read = |input: &Struct| (release, Prepared::read(input, release));
    let mut reading = match &request.input {
        Some(input) => input.reading(read),
        None => Arc::new(read(&Struct::default())),
    };
    // Two steps can share an input and call different versions. What the first one made of it is kept.
    if let Some(input) = request.input.as_ref().filter(|_| reading.0 != release) {
        reading = Arc::new(read(input));
    }
    let prepared = reading.1.as_ref().map_err(Clone::clone);
    if let Err(problem) = prepared.and_then(|prepared| compose(request, prepared, &mut response)) {
        response = response::fatal(response, problem);
    }
    if !release.targets_results() {
        response.results.iter_mut().for_each(|result| result.target = None);
    }
    response
}

fn compose(
    request: &RunFunctionRequest,
    prepared: &Prepared,
    response: &mut RunFunctionResponse,
) -> Result<(), String> {
    // A time to live that cannot be read is ignored, as in the original.
    if let Some(ttl) = prepared.ttl.as_deref().and_then(|text| ttl::parse(text).ok())
        && let Some(meta) = &mut response.meta
    {
        meta.ttl = Some(ttl);
    }
    let output = prepared.with_templates(request.context.as_ref(), |templates| {
        execute(templates, request, prepared.release)
    })?;
    documents::read(&output, prepared.release)
        .and_then(|documents| documents::apply(documents, request, prepared.release, response))
}

/// What the templates print for this request.
fn execute(templates: &Templates, request: &RunFunctionRequest, release: Release) -> Result<String, String> {
    let mut data = to_json(request).map_err(|error| format!("cannot convert request to map: {error}"))?;
    if release.knows_required_resources()
        && let Some(data) = data.as_object_mut()
        && !data.contains_key("extraResources")
        && let Some(required) = data.get("requiredResources").cloned()
    {
        data.insert("extraResources".to_owned(), required);
    }
    let heap = Heap::new();
    let data = Value::from_json(&heap, &data, Numbers::Integers);
    let mut host =
        helpers::Host { release, chance: Chance::of(request), included: helpers::Included::default() };
    let output = templates
        .execute(data, &heap, &mut host, Budget::default())
        .map_err(|error| format!("cannot execute template: {error}"))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests;
