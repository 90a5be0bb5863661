//! A composite resource, as a rollout sees it.

use ferroplane_api::{Cause, Condition, Object, RolloutFirst, RolloutTarget, Status, keys, meta};
use ferroplane_golang::time::rfc3339;

use super::differences::Differences;
use super::overlay::{comes_first, created};
use super::restart::is_uncallable;
use crate::composite::Machinery;
use crate::inputs::Layout;
use crate::intercept;
use crate::settle::conditions_in;

/// The conditions that are false if other managers change composed resources, or if those change too often.
const DISTURBANCES: [&str; 2] = ["Uncontested", "Responsive"];

/// A composite resource with a step that calls the function and names no revision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about a composite resource")]
pub struct Subject {
    pub uid: String,
    /// Its kind, namespace and name, for people.
    pub name: String,
    /// When it was created, in RFC 3339.
    pub created: String,
    pub is_first: bool,
    pub is_manual: bool,
    /// Also if a developer's process intercepts the function.
    pub is_paused: bool,
    /// The revisions of the function that composed it last, or the revision of the composition that it uses.
    pub ran: Vec<String>,
    pub health: Health,
    /// Since when, in seconds since 1970.
    pub since: i64,
    /// The differences that a trial of the candidate found, if there was one.
    pub trial: Option<Differences>,
    /// Whether the candidate composed it before a trial, also if it was refused since.
    pub was_composed: bool,
    /// The subject of its recordings, for `ferroplane replay`.
    pub recorded_as: String,
}

/// The state of a composite resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It is synced and ready.
    Ready,
    /// It is synced and ready, but other managers keep changing composed resources, or those never stop changing.
    Disturbed,
    /// It is synced.
    NotReady,
    /// It cannot be composed.
    Failed,
    /// It cannot be composed, because a function cannot be called.
    Uncallable,
}

impl Subject {
    /// A composite resource, as a rollout of this function or composition sees it.
    pub fn read(
        composite: &Object,
        layout: Layout,
        target: RolloutTarget<'_>,
        first: Option<&RolloutFirst>,
    ) -> Self {
        let (health, since) = health(composite);
        let machinery = Machinery::of(composite, layout);
        let (ran, names_its_own) = match target {
            RolloutTarget::Function(function) => (ran(composite, function), false),
            // A composite resource that selects revisions by labels is not moved.
            RolloutTarget::Composition(_) => (
                machinery.revision().map(str::to_owned).into_iter().collect::<Vec<_>>(),
                machinery.get("compositionRevisionSelector").is_some(),
            ),
        };
        // What a developer's process does to it says nothing about the candidate.
        let is_intercepted = ran.iter().any(|revision| intercept::name_in(revision).is_some());
        Self {
            uid: meta::uid(composite).to_owned(),
            name: name(composite),
            created: created(composite).to_owned(),
            is_first: first.is_some_and(|first| comes_first(first, composite)),
            is_manual: machinery.is_manual() || names_its_own,
            is_paused: meta::annotation(composite, keys::PAUSED) == "true" || is_intercepted,
            ran,
            health,
            since,
            trial: None,
            was_composed: false,
            recorded_as: recorded_as(composite),
        }
    }
}

/// The subject of a composite resource's recordings, for `ferroplane replay`.
pub fn recorded_as(composite: &Object) -> String {
    let (kind, namespace, name) = (meta::kind(composite), meta::namespace(composite), meta::name(composite));
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{name} -n {namespace}") }
}

fn name(composite: &Object) -> String {
    let (kind, namespace, name) = (meta::kind(composite), meta::namespace(composite), meta::name(composite));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

fn ran(composite: &Object, function: &str) -> Vec<String> {
    let status = composite.get("status").and_then(|status| status.get("ferroplane"));
    let functions = status.and_then(|status| status.get("functions")?.as_array());
    let of_function = functions.into_iter().flatten().filter(|ran| ran["function"] == function);
    of_function.filter_map(|ran| ran["revision"].as_str().map(str::to_owned)).collect()
}

fn health(composite: &Object) -> (Health, i64) {
    let conditions = composite.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.map(conditions_in).unwrap_or_default();
    let find = |kind: &str| conditions.iter().find(|condition| condition.kind == kind);
    let is_true = |condition: Option<&Condition>| condition.is_some_and(|it| it.status == Status::True);
    let since = |condition: Option<&Condition>| {
        condition.and_then(|it| rfc3339::moment(&it.last_transition_time)).map_or(0, |it| it.seconds)
    };
    let is_false = |condition: Option<&Condition>| condition.is_some_and(|it| it.status == Status::False);
    let disturbed = DISTURBANCES.into_iter().map(find).find(|condition| is_false(*condition));
    let (synced, ready) = (find("Synced"), find("Ready"));
    if !is_true(synced) {
        let cause = synced.and_then(|condition| condition.code.parse::<Cause>().ok());
        let health = if cause.is_some_and(is_uncallable) { Health::Uncallable } else { Health::Failed };
        (health, since(synced))
    } else if !is_true(ready) {
        (Health::NotReady, since(ready))
    } else if let Some(condition) = disturbed {
        (Health::Disturbed, since(condition))
    } else {
        (Health::Ready, since(ready))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn composite_resource_without_a_label_does_not_come_first_because_of_an_empty_one() {
        let first = RolloutFirst {
            match_labels: [("canary".to_owned(), String::new())].into(),
            ..RolloutFirst::default()
        };
        for (labels, is_first) in [(json!({}), false), (json!({"canary": ""}), true)] {
            let composite = json!({"kind": "Site", "metadata": {"name": "blog", "labels": labels}});
            let composite: Object = serde_json::from_value(composite).unwrap();
            let target = RolloutTarget::Function("own");
            let subject = Subject::read(&composite, Layout::Modern, target, Some(&first));
            assert_eq!(subject.is_first, is_first, "{labels}");
        }
    }

    #[test]
    fn labels_and_namespaces_say_who_comes_first() {
        let composite: Object = serde_json::from_value(json!({
            "metadata": {"name": "blog", "namespace": "staging", "labels": {"tier": "canary"}},
        }))
        .unwrap();
        for (first, comes) in [
            (json!({}), false),
            (json!({"matchLabels": {"tier": "canary"}}), true),
            (json!({"matchLabels": {"tier": "gold"}}), false),
            (json!({"namespaces": ["dev", "staging"]}), true),
            (json!({"namespaces": ["dev"]}), false),
            (json!({"namespaces": ["staging"], "matchLabels": {"tier": "canary"}}), true),
            (json!({"namespaces": ["staging"], "matchLabels": {"tier": "gold"}}), false),
        ] {
            let selector: RolloutFirst = serde_json::from_value(first.clone()).unwrap();
            assert_eq!(comes_first(&selector, &composite), comes, "{first}");
        }
    }

    #[test]
    fn cause_says_whether_a_function_could_not_be_called() {
        for (code, expected) in [
            ("FunctionNotConnectable", Health::Uncallable),
            ("FunctionUnreachable", Health::Uncallable),
            ("FunctionFatalResult", Health::Failed),
            ("SomethingNew", Health::Failed),
            ("", Health::Failed),
        ] {
            let synced =
                json!({"type": "Synced", "status": "False", "reason": "ReconcileError", "code": code});
            let composite = json!({"status": {"conditions": [synced]}});
            let composite: Object = serde_json::from_value(composite).unwrap();
            assert_eq!(health(&composite).0, expected, "{code}");
        }
    }

    #[test]
    fn who_fights_or_storms_is_not_well_though_it_is_ready() {
        let health_with = |kind: &str, status: &str| {
            let condition = |kind: &str, status: &str, second: u32| {
                let since = format!("1970-01-01T00:00:{second:02}Z");
                json!({"type": kind, "status": status, "reason": "Any", "lastTransitionTime": since})
            };
            let conditions =
                [condition("Synced", "True", 1), condition("Ready", "True", 2), condition(kind, status, 3)];
            let composite: Object =
                serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap();
            health(&composite)
        };
        for kind in DISTURBANCES {
            assert_eq!(health_with(kind, "False"), (Health::Disturbed, 3));
            assert_eq!(health_with(kind, "True"), (Health::Ready, 2));
        }
    }
}
