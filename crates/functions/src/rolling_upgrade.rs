//! `function-rolling-upgrade`: brings a fleet of objects to another version, one batch after the other.
//!
//! Every call reads the whole fleet and decides what is next, so that it needs to remember nothing: run it from a `CronOperation`.
//!
//! # Invariants
//! * Nothing is upgraded while an object that was upgraded is not healthy.
//! * An object that was upgraded counts towards its batch, no matter who upgraded it. A batch that was broken off is completed.

mod decision;
mod settings;

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse, Severity};
use serde_json::{Value, json};

use crate::fleet::{self, Changes, called, listed};
use crate::response;
use decision::{Decision, Fleet, Next};
use settings::RollingUpgrade;

/// The name under which the fleet is asked for.
const TARGETS: &str = "targets";
/// How many objects the output lists.
const MOST_TOLD: usize = 100;

pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match upgrade(request, &mut response) {
        Ok(()) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

fn upgrade(request: &RunFunctionRequest, response: &mut RunFunctionResponse) -> Result<(), String> {
    let settings = RollingUpgrade::read(request.input.as_ref())?;
    response.requirements = Some(fleet::requirements([(TARGETS, settings.targets.to_requirement())]));
    let Some(targets) = fleet::brought(request, TARGETS)? else { return Ok(()) };
    let matched = targets.len();
    let decision = Fleet::of(&settings, targets).decide(&settings);

    let mut changes = Changes::after(request);
    for object in decision.to_upgrade() {
        changes.set(object, &settings.version_field, settings.to_version.clone())?;
    }
    response.desired = Some(changes.into_state());
    let (severity, message) = tell(&decision, &settings, matched);
    response.results.push(response::result(severity, message));
    response.output = Some(output(&decision, &settings, matched)?);
    Ok(())
}

/// What is said to who reads the operation.
fn tell(decision: &Decision<'_>, settings: &RollingUpgrade<'_>, matched: usize) -> (Severity, String) {
    let to = settings::shown(&settings.to_version);
    let Decision { batch, upgraded, pending, .. } = decision;
    let batches = settings.batches.len();
    match &decision.next {
        _ if matched == 0 => (Severity::Warning, format!("No {} is selected", settings.targets.kind())),
        Next::Upgrade(objects) => {
            let names: Vec<_> = objects.iter().map(|object| called(object)).collect();
            let fleet = upgraded + pending;
            let message = format!(
                "Batch {batch} of {batches}: upgrading {} of {fleet} to {to}: {}",
                names.len(),
                listed(&names)
            );
            (Severity::Normal, message)
        }
        Next::Hold(unhealthy) => {
            let reasons: Vec<_> =
                unhealthy.iter().map(|(object, reason)| format!("{} ({reason})", called(object))).collect();
            let message = format!(
                "Holding at batch {batch} of {batches}: {} of {upgraded} that have {to} are not healthy: {}",
                reasons.len(),
                listed(&reasons)
            );
            (Severity::Warning, message)
        }
        Next::Finish if *pending > 0 => (
            Severity::Normal,
            format!("The last batch is complete: {upgraded} have {to}, {pending} keep their version"),
        ),
        Next::Finish => (Severity::Normal, format!("All batches are complete: {upgraded} have {to}")),
    }
}

fn output(decision: &Decision<'_>, settings: &RollingUpgrade<'_>, matched: usize) -> Result<Struct, String> {
    let Decision { batch, upgraded, pending, skipped, .. } = decision;
    let upgrading: Vec<_> = decision.to_upgrade().iter().map(|object| called(object)).collect();
    let unhealthy = match &decision.next {
        Next::Hold(unhealthy) => &unhealthy[..],
        Next::Upgrade(_) | Next::Finish => &[],
    };
    let unhealthy: Vec<_> = unhealthy
        .iter()
        .take(MOST_TOLD)
        .map(|(object, reason)| json!({"name": called(object), "reason": reason}))
        .collect();
    let output = json!({
        "state": decision.state(),
        "batch": batch,
        "batches": settings.batches.len(),
        "matchedTargets": matched,
        "upgradedTargets": upgraded + upgrading.len(),
        "pendingTargets": pending - upgrading.len(),
        "skippedTargets": skipped,
        "upgrading": upgrading.into_iter().take(MOST_TOLD).collect::<Vec<_>>(),
        "unhealthy": unhealthy,
    });
    let Value::Object(output) = output else { return Ok(Struct::default()) };
    Struct::try_from(output).map_err(|error| format!("cannot tell what was decided: {error}"))
}

#[cfg(test)]
mod tests;
