//! A message about a failure, in a condition or in an event.
//!
//! What this plane says has a code. What a Crossplane says has none: [`crate::texts`] finds out what it means.

use ferroplane_api::{Cause, Object, keys, meta};

use crate::id::Id;
use crate::look::{Condition, Role, condition, ready, synced};
use crate::snapshot::{Snapshot, time_of};
use crate::texts;

/// What was said about a failure, and since when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Complaint<'a> {
    /// What failed, if that is known.
    pub(crate) cause: Option<Cause>,
    /// The step that failed, if one did.
    pub(crate) step: Option<&'a str>,
    /// What the composition calls the resource that failed, if one did.
    pub(crate) resource: Option<&'a str>,
    /// Of an event.
    reason: &'a str,
    pub(crate) text: &'a str,
    pub(crate) since: &'a str,
}

impl<'a> Complaint<'a> {
    fn new(code: &'a str, step: &'a str, resource: &'a str, text: &'a str, since: &'a str) -> Self {
        let some = |text: &'a str| (!text.is_empty()).then_some(text);
        if code.is_empty() {
            let (cause, step) = (texts::cause_in(text), texts::step_in(text));
            return Self { cause, step, resource: texts::resource_in(text), reason: "", text, since };
        }
        // A later release may have codes that this one does not know: then the message has to do.
        let cause = code.parse().ok();
        Self { cause, step: some(step), resource: some(resource), reason: "", text, since }
    }

    fn of_condition(condition: Condition<'a>) -> Self {
        let Condition { code, step, resource, message, since, .. } = condition;
        Self::new(code, step, resource, message, since)
    }

    fn of_event(event: &'a Object, since: &'a str) -> Self {
        let text = |field: &str| event.get(field).and_then(|text| text.as_str()).unwrap_or_default();
        let [code, step, resource] =
            [keys::CAUSE, keys::STEP, keys::RESOURCE].map(|key| meta::annotation(event, key));
        Self { reason: text("reason"), ..Self::new(code, step, resource, text("message"), since) }
    }

    /// Whether it is what an API server does not let the control plane do, and nothing else. Crossplane has the same reason.
    pub(crate) fn is_denial(&self) -> bool {
        self.reason == "RoleBasedAccessControl"
    }
}

/// Why an object could not be made what it should be, the most telling first.
pub(crate) fn complaints<'a>(
    snapshot: &'a Snapshot,
    id: &Id,
    object: &'a Object,
    role: Role,
) -> Vec<Complaint<'a>> {
    let Some(synced) = failing(object, role) else { return Vec::new() };
    let said = Complaint::of_condition(synced);
    let warnings =
        snapshot.events(id).filter(|event| event.get("type").is_some_and(|kind| kind == "Warning"));
    // What was said before that is about something else.
    let recent = warnings.filter(|event| time_of(event) >= synced.since);
    let recent = recent.map(|event| Complaint::of_event(event, synced.since));
    let mut complaints: Vec<_> = recent.filter(|event| says_more(event, &said)).collect();
    // After the events: the condition is a summary, and what it sums up says more.
    complaints.push(said);
    complaints.retain(|complaint| !complaint.text.is_empty());
    complaints
}

/// The condition that says why.
fn failing(object: &Object, role: Role) -> Option<Condition<'_>> {
    let is_failing = |condition: &Condition<'_>| condition.status == "False";
    let synced = synced(object);
    match role {
        // One that has failed for good is synced: nothing more will be done about it.
        Role::Operation => condition(object, "Succeeded").filter(is_failing).or(synced.filter(is_failing)),
        Role::ActionSet => condition(object, "Succeeded").filter(is_failing),
        Role::OperationMaker => synced.filter(is_failing).or(ready(object).filter(is_failing)),
        _ => synced.filter(|synced| !synced.is_true()),
    }
}

/// Whether an event says more than the condition about the same failure.
fn says_more(event: &Complaint<'_>, condition: &Complaint<'_>) -> bool {
    let Some(names) = texts::unsynced_in(condition.text) else {
        let about = |it: &Complaint<'_>| {
            [it.step.unwrap_or_default(), it.resource.unwrap_or_default()].map(str::to_owned)
        };
        let is_same =
            condition.cause.is_some() && event.cause == condition.cause && about(event) == about(condition);
        return is_same && event.text != condition.text;
    };
    // The condition only counts what the API server refused.
    match event.resource {
        Some(resource) => texts::lists(names, resource),
        None => texts::is_refusal(event.text),
    }
}
