//! Causes that are known. Each is a small rule; the first that holds at an object, from the top of the table, is the cause
//! there. Rules that say `Last` hold only if nothing below the object is to blame.

mod deletion;
mod existence;
mod functions;
mod readiness;
mod refusals;
mod selection;
mod state;

use ferroplane_api::{Object, keys, meta};

use crate::cause::Cause;
use crate::diagnosis::Above;
use crate::id::Id;
use crate::inquiry::is_fine;
use crate::look::{Role, children, condition, created_at, deleted_at, role, synced};
use crate::snapshot::{Snapshot, State, time_of};
use crate::words::{between, has_any, step_in};

/// When a rule is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before anything below the object is looked at.
    First,
    /// When nothing below the object is to blame.
    Last,
}

/// One known cause.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// What has happened if it holds.
    means: &'static str,
    pub(crate) when: When,
    pub(crate) check: fn(&Suspect<'_>) -> Option<Cause>,
}

/// All known causes: a name, and what it means.
pub fn causes() -> impl Iterator<Item = (&'static str, &'static str)> {
    RULES.iter().map(|rule| (rule.name, rule.means))
}

const fn first(name: &'static str, means: &'static str, check: fn(&Suspect<'_>) -> Option<Cause>) -> Rule {
    Rule { name, means, when: When::First, check }
}

const fn last(name: &'static str, means: &'static str, check: fn(&Suspect<'_>) -> Option<Cause>) -> Rule {
    Rule { name, means, when: When::Last, check }
}

pub(crate) const RULES: &[Rule] = &[
    first("definition-invalid", "no CRD can be made of an XRD", existence::definition_invalid),
    first(
        "definition-not-established",
        "the kind has an XRD that is not established",
        existence::not_established,
    ),
    first("no-definition", "neither an XRD nor a CRD defines the kind", existence::no_definition),
    first(
        "provider-not-installed",
        "a composed kind does not exist: its provider is not installed",
        existence::no_kind,
    ),
    first(
        "unreadable",
        "you may not read an object, or the API server cannot serve it",
        existence::unreadable,
    ),
    first("not-found", "there is no object of this name", existence::not_found),
    first("usage", "a Usage keeps something that somebody wants gone", deletion::usage),
    first("finalizer", "a finalizer keeps something that is being deleted", deletion::finalizer_below),
    first("paused", "an annotation stops everything", state::paused),
    first(
        "no-composition",
        "no Composition composes the kind, or none with the labels",
        selection::no_composition,
    ),
    first(
        "composition-missing",
        "the Composition that was named does not exist",
        selection::composition_missing,
    ),
    first(
        "revision-missing",
        "a CompositionRevision that was named does not exist, or none matches",
        selection::revision_missing,
    ),
    first("revision-incompatible", "the Composition composes another kind", selection::incompatible),
    first("function-missing", "a step calls a function that does not exist", functions::missing),
    first("function-inactive", "no revision of a function is active", functions::inactive),
    first(
        "function-version",
        "a function does not have the version that a step asks for",
        functions::version,
    ),
    first("function-capability", "a function cannot do what a Composition is for", functions::capability),
    first("function-tls", "TLS with a function fails", functions::tls),
    first("function-slow", "a function does not answer in time", functions::slow),
    first("function-crashing", "a function ends before it answers", functions::crashing),
    first("function-unreachable", "nothing listens where a function should be", functions::unreachable),
    first("function-answer", "a function answers what cannot be used", functions::answer),
    first("function-fatal", "a function says that it cannot go on", functions::fatal),
    first("function-restless", "a function asks for something else again and again", functions::restless),
    first("requirement", "what a function asks to see cannot be read", functions::requirement),
    first("credential", "a Secret with credentials for a function is missing", functions::credential),
    first("step-input", "the object that a step takes its input from cannot be read", functions::input),
    first("function-failed", "a call of a function fails", functions::failed),
    first("revision-invalid", "a CompositionRevision cannot be used", selection::invalid),
    first("kind-not-installed", "a composed resource has a kind that does not exist", refusals::unknown_kind),
    first("quota", "a quota is used up", refusals::quota),
    first("namespace-terminating", "the namespace is being deleted", refusals::namespace_terminating),
    first("namespace-missing", "the namespace does not exist", refusals::namespace_missing),
    first("rights", "the control plane may not do it", refusals::rights),
    first("webhook-unreachable", "an admission webhook cannot be reached", refusals::webhook_unreachable),
    first("webhook-denied", "an admission webhook says no", refusals::webhook_denied),
    first("name-conflict", "an object of this name belongs to something else", refusals::name_conflict),
    first("same-name", "two composed resources are the same object", refusals::same_object),
    first("field-conflict", "somebody else owns a field", refusals::field_conflict),
    first("immutable", "a field cannot be changed any more", refusals::immutable),
    first("rule-rejection", "a CEL rule of a kind rejects a composed resource", refusals::rule),
    first("schema-rejection", "the schema of a kind rejects a composed resource", refusals::schema),
    first("scope", "a namespaced XR composes something outside of its namespace", refusals::scope),
    first("overload", "the API server has too much to do, or does not answer", refusals::overload),
    first("claim-bound", "the XR is bound to another claim", state::claim_bound),
    first("sync-error", "something says that it cannot be made what it should be", state::sync_error),
    last("contested", "somebody keeps changing a field that is composed", state::contested),
    last("waiting-for-deletion", "a finalizer keeps the object itself", deletion::finalizer),
    last("stale", "a change has not been looked at yet", state::stale),
    last("unattended", "no controller has ever looked at the XR", state::unattended),
    last("not-ready", "something says itself that it is not ready", readiness::own_condition),
    last(
        "nobody-looks",
        "nothing has ever looked at a composed resource: its controller is not running",
        readiness::nobody_looks,
    ),
    last("readiness-undeclared", "no function says that composed resources are ready", readiness::undeclared),
    last("condition", "a function has set a condition that does not hold", readiness::function_condition),
    last("storm", "so much happens to an XR that it is looked at less often", state::storm),
    last("pinned", "the XR stays at an old revision", selection::pinned),
    last(
        "several-compositions",
        "several Compositions compose the kind, and nothing says which",
        selection::several,
    ),
    last("declared-unready", "a function says that it is not ready", readiness::declared),
];

/// Something that was said about an object, and since when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Complaint<'a> {
    pub(crate) text: &'a str,
    pub(crate) since: &'a str,
}

/// An object that something may be wrong with.
pub(crate) struct Suspect<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) id: &'a Id,
    pub(crate) state: Option<&'a State>,
    pub(crate) object: Option<&'a Object>,
    pub(crate) role: Role,
    pub(crate) above: Option<&'a Object>,
    /// Somebody wants it, or what it is part of, gone.
    pub(crate) is_leaving: bool,
    /// Why it could not be made what it should be, the most telling first.
    complaints: Vec<Complaint<'a>>,
}

impl<'a> Suspect<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, id: &'a Id, above: Option<Above<'a>>) -> Self {
        let object = snapshot.object(id);
        let role = object.map_or(Role::Other, |object| role(snapshot, id, object));
        let is_leaving = above.is_some_and(|above| above.is_leaving)
            || object.is_some_and(|object| !deleted_at(object).is_empty());
        let complaints = object.map(|object| complaints(snapshot, id, object)).unwrap_or_default();
        let above = above.map(|above| above.object);
        Self { snapshot, id, state: snapshot.state(id), object, role, above, is_leaving, complaints }
    }

    pub(crate) fn is_fine(&self) -> bool {
        self.object.is_some_and(|object| is_fine(self.role, object))
    }

    /// The first complaint with one of these words.
    pub(crate) fn said(&self, words: &[&str]) -> Option<Complaint<'a>> {
        // What others say of themselves has other words.
        let is_ours = matches!(self.role, Role::Composite | Role::Claim);
        self.complaints.iter().copied().find(|complaint| is_ours && has_any(complaint.text, words))
    }

    /// A cause for which this object is to blame.
    pub(crate) fn own(&self, complaint: Complaint<'_>) -> Cause {
        blame(self.id, complaint)
    }

    /// A cause for which something composed is to blame, if the complaint names it.
    pub(crate) fn composed(&self, complaint: Complaint<'_>) -> Cause {
        blame(&self.composed_id(complaint.text).unwrap_or_else(|| self.id.clone()), complaint)
    }

    /// What is composed that a text speaks of.
    pub(crate) fn composed_id(&self, text: &str) -> Option<Id> {
        let object = self.object?;
        let resource = between(text, "composed resource `", "`").unwrap_or_default();
        let is_it = |child: &Id| {
            text.contains(&format!("\"{}\"", child.name))
                || self.snapshot.object(child).is_some_and(|object| {
                    !resource.is_empty() && meta::annotation(object, keys::RESOURCE_NAME) == resource
                })
        };
        children(self.snapshot, self.id, object).into_iter().find(is_it)
    }
}

/// What others have said is told without what everybody says before.
fn blame(object: &Id, complaint: Complaint<'_>) -> Cause {
    let prefixes = [
        "cannot compose resources: ",
        "cannot select a Composition: ",
        "cannot select a revision: ",
        "cannot apply composed resource `",
        "cannot run pipeline step `",
        "cannot use CompositionRevision `",
        "pipeline step `",
        // As Crossplane says it.
        "cannot run Composition pipeline step \"",
        "pipeline step \"",
    ];
    let mut text = complaint.text;
    while let Some(prefix) = prefixes.iter().find(|prefix| text.starts_with(**prefix)) {
        let end =
            if prefix.ends_with(": ") { Some(prefix.len()) } else { text.find(": ").map(|end| end + 2) };
        let Some(end) = end.filter(|end| *end < text.len()) else { break };
        text = &text[end..];
    }
    let text = match step_in(text).map(|step| format!("step `{step}`: ")) {
        Some(prefix) if text.starts_with(&prefix) => &text[prefix.len()..],
        _ => text,
    };
    Cause::new(object, text).step(step_in(complaint.text)).since(complaint.since)
}

/// Why an object could not be made what it should be. A condition that only says where to look is followed there.
fn complaints<'a>(snapshot: &'a Snapshot, id: &Id, object: &'a Object) -> Vec<Complaint<'a>> {
    let Some(synced) = synced(object).filter(|synced| !synced.is_true()) else { return Vec::new() };
    let mut complaints = vec![Complaint { text: synced.message, since: synced.since }];
    let names = synced.message.strip_prefix("Unsynced resources: ");
    if names.is_some() || synced.message.contains("its events say why") {
        let warnings =
            snapshot.events(id).filter(|event| event.get("type").is_some_and(|kind| kind == "Warning"));
        let text =
            |event: &'a Object| event.get("message").and_then(|text| text.as_str()).unwrap_or_default();
        let is_named = |text: &str| {
            let resource = between(text, "composed resource `", "`");
            let is_listed = |resource: &str| {
                names.is_none_or(|names| names.contains(resource) || names.contains(" more"))
            };
            resource.map_or(text.contains("is invalid"), is_listed)
        };
        // What was said before that is about something else, and so is what is not about anything composed.
        let events = warnings.filter(|event| is_named(text(event)) && time_of(event) >= synced.since);
        let events = events.map(|event| Complaint { text: text(event), since: synced.since });
        complaints.splice(0..0, events.collect::<Vec<_>>());
    }
    complaints.retain(|complaint| !complaint.text.is_empty());
    complaints
}

/// Since when a condition is as it is, or since when there is the object.
pub(crate) fn since(object: &Object, kind: &str) -> String {
    let since = condition(object, kind).map(|condition| condition.since).filter(|since| !since.is_empty());
    since.unwrap_or_else(|| created_at(object)).to_owned()
}

/// What shows everything about an object.
pub(crate) fn describe(id: &Id) -> String {
    format!("kubectl describe {}", id.arguments())
}

#[cfg(test)]
mod tests;
