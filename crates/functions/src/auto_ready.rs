//! `function-auto-ready`: says of each composed resource whether it is ready, by looking at what is observed of it.
//!
//! A resource whose readiness another function has already stated is left alone, and so is one that does not exist
//! yet. Of the others, the first that has an opinion decides: a CEL expression of the user's for that kind
//! ([`custom`]), what is known of kinds that are part of Kubernetes ([`kinds`]), the condition `Ready` ([`condition`]).
//!
//! Upstream has behaved in three ways, and each can be asked for:
//!
//! | Entry | Reproduces | What it reads |
//! |---|---|---|
//! | [`run`] | v0.7.0 and later | the input, kinds of Kubernetes, the condition |
//! | [`run_v0_6`] | v0.6.0 to v0.6.7 | kinds of Kubernetes, the condition |
//! | [`run_v0_5`] | v0.2.0 to v0.5.2 | the condition |

mod condition;
mod custom;
mod input;
mod kinds;

use std::collections::BTreeMap;

use ferroplane_wire::v1::{Ready, Resource, RunFunctionRequest, RunFunctionResponse, Severity};
use ferroplane_wire::{State, Struct};
use serde_json::{Map, Value};

use self::custom::Checks;
use self::input::Input;
use crate::effort::{BRIEF_COST, Effort, TakesLong};
use crate::response;

/// As upstream from v0.7.0 on, with its alpha feature for health checks in CEL.
pub(crate) fn run(
    request: &RunFunctionRequest,
    effort: Effort<'_>,
) -> Result<RunFunctionResponse, TakesLong> {
    let mut response = response::to(request);
    let input = match Input::read(request.input.as_ref()) {
        Ok(input) => input,
        Err(problem) => return Ok(response::fatal(response, problem)),
    };
    if let Some(ttl) = input.ttl
        && let Some(meta) = &mut response.meta
    {
        meta.ttl = Some(ttl);
    }
    // A full call has no bound over all checks: each check has its own, and the caller's deadline holds for
    // all.
    let cost = if let Effort::Brief = effort { BRIEF_COST } else { u64::MAX };
    let checks = Checks::new(&input, request.context.as_ref(), cost);
    let response = answer(request, response, &mut |object, warnings| {
        checks
            .judge(object, warnings)
            // A check that says false ends the search, one that fails with a warning does not.
            .or_else(|| is_ready_by_kind_or_condition(object).then_some(Ready::True))
    });
    if checks.are_exhausted() { Err(TakesLong) } else { Ok(response) }
}

/// As upstream from v0.6.0 on, before it read any input.
pub(crate) fn run_v0_6(request: &RunFunctionRequest) -> RunFunctionResponse {
    answer(request, response::to(request), &mut |object, _| {
        is_ready_by_kind_or_condition(object).then_some(Ready::True)
    })
}

/// As upstream from v0.2.0 on, before it knew any kind.
pub(crate) fn run_v0_5(request: &RunFunctionRequest) -> RunFunctionResponse {
    answer(request, response::to(request), &mut |object, _| {
        condition::is_ready(object).then_some(Ready::True)
    })
}

/// A kind that is not healthy by what is known of it can still say that it is ready.
fn is_ready_by_kind_or_condition(object: &Map<String, Value>) -> bool {
    kinds::is_healthy(object) || condition::is_ready(object)
}

/// Says whether an object is ready, if that can be said. The second is where to leave warnings.
type Judge<'a> = &'a mut dyn FnMut(&Map<String, Value>, &mut Vec<String>) -> Option<Ready>;

fn answer(
    request: &RunFunctionRequest,
    mut response: RunFunctionResponse,
    judge: Judge<'_>,
) -> RunFunctionResponse {
    let nothing = State::default();
    let desired = request.desired.as_ref().unwrap_or(&nothing);
    let observed = request.observed.as_ref().unwrap_or(&nothing).resources();
    let mut warnings = Vec::new();
    match verdicts(desired.resources(), observed, judge, &mut warnings) {
        Ok(verdicts) => response.desired = Some(settle(desired, &verdicts)),
        Err(problem) => return response::fatal(response, problem),
    }
    response.results.extend(warnings.into_iter().map(|warning| response::result(Severity::Warning, warning)));
    response
}

/// What is newly known of the desired resources, in their order.
fn verdicts<'a>(
    desired: &'a BTreeMap<String, Resource>,
    observed: &BTreeMap<String, Resource>,
    judge: Judge<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<(&'a str, Ready)>, String> {
    let nothing = Struct::default();
    let mut verdicts = Vec::new();
    for (name, resource) in desired {
        // `False` is an opinion, too, and that of an earlier function counts.
        if resource.ready != i32::from(Ready::Unspecified) {
            continue;
        }
        let Some(observed) = observed.get(name) else { continue };
        let object = observed.resource.as_ref().unwrap_or(&nothing);
        let object = object.json().map_err(|error| unreadable(name, error))?;
        verdicts.extend(judge(object, warnings).map(|ready| (name.as_str(), ready)));
    }
    Ok(verdicts)
}

fn unreadable(name: &str, error: ferroplane_wire::StructError) -> String {
    format!("cannot get observed composed resource `{name}`: {error}")
}

/// The desired state with the verdicts in it. It is only copied if there is something to change.
fn settle(desired: &State, verdicts: &[(&str, Ready)]) -> State {
    if verdicts.is_empty() && desired.resources().values().all(response::is_plain) {
        return desired.clone();
    }
    let (composite, mut resources) = desired.clone().into_parts();
    let mut verdicts = verdicts.iter().peekable();
    for (name, resource) in &mut resources {
        response::make_plain(resource);
        // Both are in the order of the names.
        if let Some((_, ready)) = verdicts.next_if(|(judged, _)| judged == name) {
            resource.ready = i32::from(*ready);
        }
    }
    State::new(composite, resources)
}

#[cfg(test)]
pub(crate) mod tests;
