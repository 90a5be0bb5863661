//! `function-go-templating`: composes what Go templates print.
//!
//! The template sees the request as JSON writes it, and prints YAML documents. A document is a composed resource, named by an
//! annotation; or the composite resource, whose status it sets; or says something about it in a kind of the function's own.
//!
//! Nothing here reads files, the environment, the network or a clock, and what a template may cost is bounded.

mod attempt;
mod documents;
mod helpers;
mod input;
mod json;
mod limits;
mod parsed;
mod release;

use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{Heap, Templates, Value};
use ferroplane_wire::to_json;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::chance::Chance;
use crate::effort::{Effort, TakesLong};
use crate::{response, ttl};
use attempt::Attempt;
use input::Prepared;
use release::Release;

type Answer = Result<RunFunctionResponse, TakesLong>;

/// As upstream from v0.12.0 to v0.12.2.
pub(crate) fn run(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_12, request, effort)
}

/// As upstream from v0.11.0 to v0.11.9.
pub(crate) fn run_v0_11(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_11, request, effort)
}

/// As upstream from v0.9.0 to v0.10.1.
pub(crate) fn run_v0_9(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_9, request, effort)
}

/// As upstream in v0.8.0.
pub(crate) fn run_v0_8(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_8, request, effort)
}

/// As upstream in v0.7.0.
pub(crate) fn run_v0_7(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_7, request, effort)
}

/// As upstream in v0.6.0.
pub(crate) fn run_v0_6(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_6, request, effort)
}

/// As upstream in v0.5.0.
pub(crate) fn run_v0_5(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_5, request, effort)
}

/// As upstream from v0.4.0 to v0.4.1.
pub(crate) fn run_v0_4(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_4, request, effort)
}

fn run_as(release: Release, request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    let attempt = Attempt::new(effort);
    let mut response = response::to(request);
    let kept = attempt.read(request, release)?;
    let prepared = kept.read.as_ref().map_err(Clone::clone);
    let composed = prepared.and_then(|prepared| compose(request, prepared, &attempt, &mut response));
    if attempt.gave_up() {
        kept.note_that_it_takes_long();
        return Err(TakesLong);
    }
    if let Err(problem) = composed {
        response = response::fatal(response, problem);
    }
    if !release.targets_results() {
        response.results.iter_mut().for_each(|result| result.target = None);
    }
    Ok(response)
}

fn compose(
    request: &RunFunctionRequest,
    prepared: &Prepared,
    attempt: &Attempt<'_>,
    response: &mut RunFunctionResponse,
) -> Result<(), String> {
    // A time to live that cannot be read is ignored, as in the original.
    if let Some(ttl) = prepared.ttl.as_deref().and_then(|text| ttl::parse(text).ok())
        && let Some(meta) = &mut response.meta
    {
        meta.ttl = Some(ttl);
    }
    let output = prepared.with_templates(request.context.as_ref(), |templates| {
        execute(templates, request, prepared, attempt)
    })?;
    documents::read(&output, prepared.release)
        .and_then(|documents| documents::apply(documents, request, prepared.release, response))
}

/// What the templates print for this request.
fn execute(
    templates: &Templates,
    request: &RunFunctionRequest,
    prepared: &Prepared,
    attempt: &Attempt<'_>,
) -> Result<String, String> {
    let (release, limits) = (prepared.release, &prepared.limits);
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
    let input = prepared.seed.as_ref().or(request.input.as_ref());
    let chance = Chance::of(request, input);
    let mut host = helpers::Host { attempt, limits, state: helpers::State::new(release, chance) };
    let output = templates
        .execute(data, &heap, &mut host, attempt.budget(limits))
        .map_err(|error| attempt.explain(&error, limits))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests;
