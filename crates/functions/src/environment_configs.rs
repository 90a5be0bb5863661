//! `function-environment-configs`: merges the data of `EnvironmentConfig`s into the environment of the pipeline.
//!
//! It takes two calls. The first says which `EnvironmentConfig`s are needed; the second brings them, and is
//! answered with the environment, in the context, where later steps look for it.

mod environment;
mod input;
mod sources;

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::{response, selection};
use input::Specification;

/// Where functions keep the environment in the context.
const CONTEXT_KEY: &str = "apiextensions.crossplane.io/environment";

pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match answer(request, &mut response) {
        Ok(()) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

fn answer(request: &RunFunctionRequest, response: &mut RunFunctionResponse) -> Result<(), String> {
    let specification: Specification<'_> = crate::input::specification(request.input.as_ref())?;
    // Not even the defaults are merged then, as in the original.
    let Some(sources) = &specification.environment_configs else { return Ok(()) };

    // Asked for again although they are there: what a function no longer asks for, it no longer gets.
    let requirements = sources::requirements(sources, selection::composite(request)?)
        .map_err(|error| format!("cannot build requirements: {error}"))?;
    response.requirements = Some(requirements);
    // The first call. The environment is left as it is until everything for it is there.
    if request.required_resources.is_empty() {
        return Ok(());
    }

    let configs = sources::select(sources, specification.is_optional(), &request.required_resources)
        .map_err(|error| format!("cannot get selected environment configs: {error}"))?;
    let data =
        environment::merge(&configs).map_err(|error| format!("cannot merge environment data: {error}"))?;
    let context =
        request.context.as_ref().map(Struct::json).transpose().map_err(|error| error.to_string())?;
    let environment = environment::complete(data, context, specification.default_data.as_ref());
    response::set_context(response, CONTEXT_KEY, environment.into()).map_err(|error| {
        format!("cannot convert Composition environment to protobuf Struct well-known type: {error}")
    })
}

#[cfg(test)]
mod tests;
