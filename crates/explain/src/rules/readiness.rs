//! What was made, and is not ready.

use ferroplane_api::{Condition as Conditions, Object, keys, meta};

use super::{Suspect, describe};
use crate::finding::Finding;
use crate::id::Id;
use crate::known_functions::known;
use crate::look::{Role, children, condition, conditions, created_at, ready, revision_of, steps};
use crate::steps::step_of;
use crate::texts::{lists, unready_in};

/// Something says itself that it is not ready.
pub(super) fn own_condition(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    if matches!(suspect.role, Role::Composite | Role::Claim) {
        return None;
    }
    let ready = ready(object).filter(|ready| !ready.is_true())?;
    // Something may be worse than not being ready yet, and say so in another condition.
    let is_worse = |kind: &str| ["Progressing", "LastAsyncOperation", "AsyncOperation"].contains(&kind);
    let worse =
        conditions(object).find(|it| it.status == "False" && is_worse(it.kind) && !it.message.is_empty());
    let telling = if ready.message.is_empty() { worse.unwrap_or(ready) } else { ready };
    let words = match (telling.reason, telling.message) {
        ("", "") => String::new(),
        (reason, "") => format!(": {reason}"),
        ("", message) => format!(": {message}"),
        (reason, message) => format!(": {reason}: {message}"),
    };
    let message = format!("its condition {} is {}{words}", telling.kind, telling.status);
    let step = suspect.above.and_then(|above| step_of(suspect.snapshot, above, object));
    let cause = Finding::new(suspect.id, &message).since(telling.since).step(step);
    Some(cause.advice(describe(suspect.id)))
}

/// Whether the composite resource above waits for this one.
fn is_waited_for(above: &Object, object: &Object) -> bool {
    let Some(ready) = condition(above, "Ready").filter(|ready| !ready.is_true()) else { return false };
    let name = meta::annotation(object, keys::RESOURCE_NAME);
    unready_in(ready.message).is_some_and(|names| lists(names, name))
}

fn declares_readiness(suspect: &Suspect<'_>, composite: &Object) -> Option<bool> {
    let revision = revision_of(suspect.snapshot, composite)?;
    let declares = |name: &str| known(suspect.snapshot, name).is_some_and(|it| it.declares_readiness);
    Some(steps(revision).values().any(|name| declares(name)))
}

/// Nobody has ever said anything about it.
pub(super) fn nobody_looks(suspect: &Suspect<'_>) -> Option<Finding> {
    let (object, above) = (suspect.object?, suspect.above?);
    let is_silent = conditions(object).next().is_none();
    if suspect.role != Role::Other
        || !is_silent
        || !is_waited_for(above, object)
        || !declares_readiness(suspect, above)?
    {
        return None;
    }
    let kind = &suspect.id.kind;
    let message = format!(
        "has no conditions: nothing that runs here looks after {kind}; is its provider or controller running?"
    );
    let step = step_of(suspect.snapshot, above, object);
    let cause = Finding::new(suspect.id, &message).since(created_at(object)).step(step);
    Some(cause.advice("kubectl get providers").advice(describe(suspect.id)))
}

/// Nothing in the pipeline says that anything is ready.
pub(super) fn undeclared(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite)?;
    let ready = condition(object, "Ready").filter(|ready| !ready.is_true())?;
    let names = unready_in(ready.message)?;
    if declares_readiness(suspect, object)? {
        return None;
    }
    let revision = revision_of(suspect.snapshot, object)?;
    let is_waiting =
        |child: &Id| suspect.snapshot.object(child).is_some_and(|child| is_waited_for(object, child));
    let child = children(suspect.snapshot, suspect.id, object).into_iter().find(is_waiting);
    let step = child.and_then(|child| step_of(suspect.snapshot, object, suspect.snapshot.object(&child)?));
    let message =
        format!("no function says whether these are ready: {names}; the pipeline has no step for it");
    let cause =
        Finding::new(&Id::of(revision), &message).since(ready.since).step(step).field("spec.pipeline");
    let cause = cause.advice(
        "add a last step to the Composition:  - {step: ready, functionRef: {name: function-auto-ready}}",
    );
    Some(cause.advice("or have the function that composes them set `ready`"))
}

/// A function said so.
pub(super) fn function_condition(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite && !suspect.is_fine())?;
    let is_theirs = |kind: &str| !Conditions::SYSTEM.contains(&kind);
    let wrong = conditions(object).find(|it| it.status == "False" && is_theirs(it.kind))?;
    let message = format!("a function has set {} to False: {}", wrong.kind, wrong.words());
    Some(Finding::new(suspect.id, &message).since(wrong.since).advice(describe(suspect.id)))
}

/// Functions have the last word.
pub(super) fn declared(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite)?;
    let ready = condition(object, "Ready").filter(|ready| !ready.is_true())?;
    let message = match unready_in(ready.message) {
        Some(names) => {
            format!("a function says that these are not ready, although they say nothing themselves: {names}")
        }
        None => format!(
            "a function says that it is not ready{}",
            if ready.message.is_empty() { String::new() } else { format!(": {}", ready.message) }
        ),
    };
    let cause = Finding::new(suspect.id, &message).since(ready.since);
    Some(
        cause
            .advice(describe(suspect.id))
            .advice("see what each step says: ferroplane render XR.yaml COMPOSITION.yaml"),
    )
}
