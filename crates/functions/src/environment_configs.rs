//! `function-environment-configs`: merges the data of `EnvironmentConfig`s into the environment of the pipeline.
//!
//! It takes two calls. The first says which `EnvironmentConfig`s are needed; the second brings them, and is
//! answered with the environment, in the context, where later steps look for it.
//!
//! Upstream has behaved in three ways, and each can be asked for:
//!
//! | Entry | Reproduces | What is different |
//! |---|---|---|
//! | [`run`] | v0.7.0 and later | the data of a source can go to a field of the environment |
//! | [`run_v0_5`] | v0.5.0 and v0.6.0 | a source that asks for nothing is passed over |
//! | [`run_v0_1`] | v0.0.7 to v0.4.0 | a source that asks for nothing is a mistake |
//!
//! Earlier releases asked in another field of the protocol, and the first ones for `v1alpha1`. All versions here ask as the
//! latest does, so that they find the existing objects.

mod environment;
mod input;
mod sources;

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::{response, selection};
use input::Specification;

/// Where functions keep the environment in the context.
const CONTEXT_KEY: &str = "apiextensions.crossplane.io/environment";

/// A release that behaves differently from the one before, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Release {
    V0_1,
    V0_5,
    V0_7,
}

impl Release {
    /// What it calls an object that it asked for.
    fn noun(self) -> &'static str {
        if self >= Self::V0_7 { "required resource" } else { "extra resource" }
    }
}

/// As upstream from v0.7.0 on.
pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_7, request)
}

/// As upstream in v0.5.0 and v0.6.0.
pub(crate) fn run_v0_5(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_5, request)
}

/// As upstream up to v0.4.0.
pub(crate) fn run_v0_1(request: &RunFunctionRequest) -> RunFunctionResponse {
    run_as(Release::V0_1, request)
}

fn run_as(release: Release, request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match answer(request, &mut response, release) {
        Ok(()) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

fn answer(
    request: &RunFunctionRequest,
    response: &mut RunFunctionResponse,
    release: Release,
) -> Result<(), String> {
    let specification: Specification<'_> = crate::input::specification(request.input.as_ref())?;
    if release < Release::V0_7 {
        specification.refuse_targets()?;
    }
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

    let configs = sources::select(sources, specification.is_optional(), &request.required_resources, release)
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
