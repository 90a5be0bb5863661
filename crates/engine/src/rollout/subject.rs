//! A composite resource, as a rollout sees it.

use ferroplane_api::{Condition, Object, RolloutFirst, RolloutTarget, Status, keys, meta};
use ferroplane_golang::time::rfc3339;

use super::differences::Differences;
use super::overlay::{comes_first, created};
use crate::composite::Machinery;
use crate::inputs::Layout;
use crate::intercept;
use crate::settle::conditions_in;

/// The conditions that are false of one that fights over fields, or whose composed resources change too often.
const DISTURBANCES: [&str; 2] = ["Uncontested", "Responsive"];

/// A composite resource that calls the function in a step that does not say which revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub uid: String,
    /// Its kind, namespace and name, for people.
    pub name: String,
    /// When it was created, in RFC 3339.
    pub created: String,
    pub is_first: bool,
    pub is_manual: bool,
    /// Or a developer's process answers for the function.
    pub is_paused: bool,
    /// The revisions of the function that composed it last, or the revision of the composition that it follows.
    pub ran: Vec<String>,
    pub health: Health,
    /// Since when, in seconds since 1970.
    pub since: i64,
    /// How the candidate differed, if it has been tried for it.
    pub trial: Option<Differences>,
    /// Which recordings are about it: what to tell `ferroplane replay`.
    pub recorded_as: String,
}

/// How a composite resource is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It is synced and ready.
    Ready,
    /// It is synced and ready, and somebody keeps changing what it composes, or that changes without end.
    Disturbed,
    /// It is synced.
    NotReady,
    /// It cannot be composed.
    Failed,
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
            // Whoever selects revisions by labels has decided.
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
            recorded_as: recorded_as(composite),
        }
    }
}

/// Which recordings are about a composite resource: what to tell `ferroplane replay`.
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
        (Health::Failed, since(synced))
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
