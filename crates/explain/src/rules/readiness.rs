//! Rules about objects that exist and are not ready.

use ferroplane_api::{Condition as Conditions, Object, keys, meta};
use ferroplane_engine::composite::COMPOSE;

use super::{Suspect, controllers_of, describe};
use crate::finding::Finding;
use crate::id::Id;
use crate::known_functions::known;
use crate::look::{
    Condition, Role, children, condition, conditions, created_at, ready, revision_of, text_at,
};
use crate::readiness_check::{asks_for_conditions, checks, unmet};
use crate::snapshot::time_of;
use crate::steps::{step_of, steps, template_of};
use crate::texts::{lists, required_patch_in, result_in, step_in, unready_in};

/// A readiness check of patch-and-transform does not hold.
pub(super) fn check_unmet(suspect: &Suspect<'_>) -> Option<Finding> {
    let (object, above) = (suspect.object?, suspect.above?);
    let is_other = !matches!(suspect.role, Role::Composite | Role::Claim);
    let (step, template) =
        template_of(suspect.snapshot, above, object).filter(|_| is_other && is_waited_for(above, object))?;
    // Without checks of its own it waits for the condition `Ready`: as a later step does that judges all resources, which
    // knows more kinds, and as every rule below this one expects.
    if checks(template).is_empty()
        && (declares_readiness(suspect, above)? || condition(object, "Ready").is_some())
    {
        return None;
    }
    let unmet = unmet(object, template)?;
    // Without any condition no controller has reconciled it, which a rule below says better.
    if unmet.condition.is_some() && conditions(object).next().is_none() {
        return None;
    }
    let since = unmet.condition.as_deref().map_or_else(String::new, |kind| super::since(object, kind));
    let finding = Finding::new(suspect.id, &unmet.message).since(&since).step(Some(step.name));
    let finding = Finding { field: unmet.field, ..finding };
    let composition = revision_of(suspect.snapshot, above).map(|it| meta::label(it, keys::COMPOSITION_NAME));
    let (resource, composition) =
        (meta::annotation(object, keys::RESOURCE_NAME), composition.unwrap_or_default());
    let finding = finding.advice(describe(suspect.id));
    Some(finding.advice(format!(
        "if it can never hold, change the `readinessChecks` of resource `{resource}` in step `{}` of Composition `{composition}`",
        step.name
    )))
}

/// A required field is missing, so that patch-and-transform leaves a resource out.
pub(super) fn required_patch(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite && !suspect.is_fine())?;
    let composed = children(suspect.snapshot, suspect.id, object);
    let names: Vec<_> = composed
        .iter()
        .filter_map(|child| suspect.snapshot.object(child))
        .map(|child| meta::annotation(child, keys::RESOURCE_NAME))
        .collect();
    // The same warning is repeated only after minutes, so that its time says little. That the resource still does
    // not exist says more.
    let mut warnings = warnings(suspect);
    let (patch, text, time) = warnings.find_map(|(text, time)| {
        let patch = required_patch_in(text)?;
        (!names.contains(&patch.resource)).then_some((patch, text, time))
    })?;
    let (owner, remedy) = if patch.is_of_environment {
        ("the environment does not have it", "add it to an EnvironmentConfig that the Composition selects")
    } else {
        ("is not set", "set it")
    };
    let message = format!(
        "{owner}, and composed resource `{}` requires it: a patch of type {} is `Required`",
        patch.resource, patch.patch
    );
    let finding = Finding::new(suspect.id, &message).step(step_in(text)).since(time).field(patch.field);
    let finding = finding.advice(format!("{remedy}: {}", patch.field));
    Some(finding.advice("or make the patch optional: policy: {fromFieldPath: Optional}"))
}

/// What functions warned of, the latest first, and when.
fn warnings<'a>(suspect: &Suspect<'a>) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let events = suspect.snapshot.events(suspect.id);
    let is_warning =
        |event: &&Object| text_at(event, &["type"]) == "Warning" && text_at(event, &["reason"]) == COMPOSE;
    // What failed has a code, and rules of its own.
    let is_result = |event: &&Object| meta::annotation(event, keys::CAUSE).is_empty();
    events.filter(is_warning).filter(is_result).map(|event| (text_at(event, &["message"]), time_of(event)))
}

/// A function warned of something, and said that the composite resource is not ready.
pub(super) fn warned(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite && !suspect.is_fine())?;
    let ready = condition(object, "Ready").filter(|ready| !ready.is_true())?;
    // An older warning may be about something that was corrected since.
    let (text, time) = warnings(suspect).find(|(_, time)| *time >= ready.since)?;
    let finding = Finding::new(suspect.id, result_in(text)).step(step_in(text)).since(time);
    Some(finding.advice(describe(suspect.id)))
}

/// Steps name resources, and nothing is composed in the end.
pub(super) fn nothing_composed(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite && !suspect.is_leaving)?;
    let ready = condition(object, "Ready").filter(Condition::is_true)?;
    if !children(suspect.snapshot, suspect.id, object).is_empty() {
        return None;
    }
    let steps = steps(revision_of(suspect.snapshot, object)?);
    let place = steps.iter().position(|step| step.are_templates && !step.resources.is_empty())?;
    let later: Vec<_> = steps[place + 1..].iter().map(|step| format!("`{}`", step.name)).collect();
    if later.is_empty() {
        return None;
    }
    let names: Vec<_> = steps[place].resource_names().take(3).map(|name| format!("`{name}`")).collect();
    let more = steps[place].resources.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "composes nothing, although this step makes {}{more}: a later step ({}) does not pass it on",
        names.join(", "),
        later.join(", ")
    );
    let finding = Finding::new(suspect.id, &message).step(Some(steps[place].name)).since(ready.since);
    let finding = finding.advice("see what each step returns: ferroplane render XR.yaml COMPOSITION.yaml");
    Some(finding.advice("correct the later step: it must return the desired resources of earlier steps, too"))
}

/// Something says itself that it is not ready.
pub(super) fn own_condition(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    if matches!(suspect.role, Role::Composite | Role::Claim) {
        return None;
    }
    let ready = ready(object).filter(|ready| !ready.is_true())?;
    // What is above may find it ready by other checks than its conditions, and wait for something else.
    if suspect.above.is_some_and(|above| is_known_not_waited_for(above, object)) {
        return None;
    }
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
    // What this plane says has a code and, if it is about one, a step.
    let step = Some(telling.step).filter(|step| !step.is_empty());
    let step = step.or_else(|| suspect.above.and_then(|above| step_of(suspect.snapshot, above, object)));
    let cause = Finding::new(suspect.id, &message).since(telling.since).step(step);
    Some(cause.code(telling.code.parse().ok()).advice(describe(suspect.id)))
}

/// Whether the composite resource above waits for this one.
fn is_waited_for(above: &Object, object: &Object) -> bool {
    let Some(ready) = condition(above, "Ready").filter(|ready| !ready.is_true()) else { return false };
    let name = meta::annotation(object, keys::RESOURCE_NAME);
    unready_in(ready.message).is_some_and(|names| lists(names, name))
}

/// Whether the composite resource above says what it waits for, and it is not this one.
pub(super) fn is_known_not_waited_for(above: &Object, object: &Object) -> bool {
    let names = condition(above, "Ready").and_then(|ready| unready_in(ready.message));
    let name = meta::annotation(object, keys::RESOURCE_NAME);
    !name.is_empty() && names.is_some_and(|names| !lists(names, name))
}

fn declares_readiness(suspect: &Suspect<'_>, composite: &Object) -> Option<bool> {
    let revision = revision_of(suspect.snapshot, composite)?;
    let declares = |name: &str| known(suspect.snapshot, name).is_some_and(|it| it.declares_readiness);
    Some(steps(revision).iter().any(|step| declares(step.function)))
}

/// Whether an object becomes ready by what its conditions say.
fn is_judged_by_conditions(suspect: &Suspect<'_>, above: &Object, object: &Object) -> Option<bool> {
    let template = template_of(suspect.snapshot, above, object).map(|(_, template)| template);
    Some(template.is_some_and(asks_for_conditions) || declares_readiness(suspect, above)?)
}

/// No controller has ever reported anything about it.
pub(super) fn controller_not_running(suspect: &Suspect<'_>) -> Option<Finding> {
    let (object, above) = (suspect.object?, suspect.above?);
    let is_silent = conditions(object).next().is_none();
    if suspect.role != Role::Other
        || !is_silent
        || !is_waited_for(above, object)
        || !is_judged_by_conditions(suspect, above, object)?
    {
        return None;
    }
    let kind = &suspect.id.kind;
    let message = format!(
        "has no conditions: no controller here manages {kind}; is its provider or controller running?"
    );
    let step = step_of(suspect.snapshot, above, object);
    let cause = Finding::new(suspect.id, &message).since(created_at(object)).step(step);
    Some(controllers_of(suspect, cause).advice(describe(suspect.id)))
}

/// Nothing in the pipeline says that anything is ready.
pub(super) fn undeclared(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite)?;
    let ready = condition(object, "Ready").filter(|ready| !ready.is_true())?;
    let mut names = unready_in(ready.message)?.to_owned();
    if declares_readiness(suspect, object)? {
        return None;
    }
    let revision = revision_of(suspect.snapshot, object)?;
    let composed: Vec<_> = children(suspect.snapshot, suspect.id, object);
    let composed: Vec<_> = composed.iter().filter_map(|child| suspect.snapshot.object(child)).collect();
    let (judged, unjudged): (Vec<&Object>, Vec<_>) = composed
        .into_iter()
        .filter(|child| is_waited_for(object, child))
        .partition(|child| template_of(suspect.snapshot, object, child).is_some());
    // patch-and-transform has checked what it makes itself.
    if !judged.is_empty() {
        let rest: Vec<_> =
            unjudged.iter().map(|child| meta::annotation(child, keys::RESOURCE_NAME)).collect();
        names = rest.join(", ");
    }
    if names.is_empty() {
        return None;
    }
    let step = unjudged.first().and_then(|child| step_of(suspect.snapshot, object, child));
    let message =
        format!("no function says whether these are ready: {names}; the pipeline has no step for it");
    let cause =
        Finding::new(&Id::of(revision), &message).since(ready.since).step(step).field("spec.pipeline");
    // A line of its own, to copy.
    let cause = cause.advice(
        "add a last step to the pipeline:\n- {step: ready, functionRef: {name: function-auto-ready}}",
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
