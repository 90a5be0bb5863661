//! Composite resources, as rollouts of functions see them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Condition, Object, RolloutFirst, RolloutTarget, Status, meta};
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::conditions_in;
use ferroplane_engine::intercept::Intercept;
use ferroplane_engine::rollout::{RevisionFact, Subject};
use serde_json::Value;

use super::controller::Controller;
use super::{Composites, GroupKind};
use crate::apiextensions::composition_cache::Revision;
use crate::rollout::KnownSubjects;

/// How long to wait until the composite resources of a kind are cached.
const PATIENCE: Duration = Duration::from_secs(1);

impl Composites {
    /// The revisions of a composition. One with an invalid pipeline is not in service.
    pub(crate) fn composition_facts(&self, composition: &str) -> Vec<RevisionFact> {
        let fact = |revision: &Arc<Revision>| RevisionFact {
            name: revision.name.to_string(),
            number: u64::try_from(revision.facts.number).unwrap_or_default(),
            is_active: true,
            is_serving: revision.problem.is_none(),
        };
        self.shared.compositions.revisions_of(composition).iter().map(fact).collect()
    }

    /// Increases when a composition or a revision of one changes, and when the controller of a kind is started or stopped.
    pub(crate) fn rollout_epoch(&self) -> (u64, u64) {
        (self.shared.compositions.epoch(), self.epoch())
    }

    /// All composite resources with a step that calls a function without naming a revision, or that use a composition. None before all
    /// are cached: a rollout that counted only some would move too many.
    pub(crate) async fn subjects(
        &self,
        target: RolloutTarget<'_>,
        first: Option<&RolloutFirst>,
    ) -> Option<KnownSubjects> {
        let mut known = KnownSubjects::default();
        let composed = self.composed_by(target);
        let definitions = self.shared.context.definitions.objects();
        for definition in definitions.iter().filter(|it| composed.contains(&defined_kind(it))) {
            match (self.get(meta::name(definition)), establishment(definition)) {
                (_, Establishment::Never) => {}
                (Some(controller), _) => {
                    tokio::time::timeout(PATIENCE, controller.informer.synced()).await.ok()?;
                    controller.add_subjects(target, first, &mut known.subjects);
                }
                // Its controller is about to start.
                (None, Establishment::Done) => return None,
                (None, Establishment::Pending) => {
                    known.unestablished.get_or_insert_with(|| meta::name(definition).to_owned());
                }
            }
        }
        Some(known)
    }

    /// The kinds whose composite resources may call a function without naming a revision, or use a composition.
    fn composed_by(&self, target: RolloutTarget<'_>) -> BTreeSet<GroupKind> {
        let compositions = &self.shared.compositions;
        let revisions: Vec<Arc<Revision>> = match target {
            RolloutTarget::Function(function) => {
                let callers = compositions.revisions_open_to(function);
                callers.iter().filter_map(|name| compositions.revision(name)).collect()
            }
            RolloutTarget::Composition(composition) => compositions.revisions_of(composition),
        };
        let kind =
            |it: &Arc<Revision>| (meta::group(&it.composes.api_version).to_owned(), it.composes.kind.clone());
        revisions.iter().map(kind).collect()
    }
}

/// Whether the kind of a definition is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Establishment {
    Done,
    Pending,
    /// It is being deleted, or only an edit can help it.
    Never,
}

fn establishment(definition: &Object) -> Establishment {
    if meta::is_being_deleted(definition) {
        return Establishment::Never;
    }
    let established = conditions_of(definition).into_iter().find(|it| it.kind == "Established");
    let Some(established) = established else { return Establishment::Pending };
    let is_final = |cause: Cause| matches!(cause, Cause::DefinitionInvalid | Cause::ObjectControlled);
    if established.status == Status::True {
        Establishment::Done
    } else if established.code.parse::<Cause>().is_ok_and(is_final) {
        Establishment::Never
    } else {
        Establishment::Pending
    }
}

/// The kind of composite resources that a definition defines.
fn defined_kind(definition: &Object) -> GroupKind {
    let spec = definition.get("spec");
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = spec.and_then(|spec| spec.get("names")?.get("kind"));
    (text(spec.and_then(|spec| spec.get("group"))), text(kind))
}

impl Controller {
    fn add_subjects(
        &self,
        target: RolloutTarget<'_>,
        first: Option<&RolloutFirst>,
        subjects: &mut Vec<Subject>,
    ) {
        let compositions = &self.shared.compositions;
        let callers = match target {
            RolloutTarget::Function(function) => compositions.revisions_open_to(function),
            RolloutTarget::Composition(composition) => {
                compositions.revisions_of(composition).iter().map(|revision| revision.name.clone()).collect()
            }
        };
        if callers.is_empty() {
            return;
        }
        let (callables, grants) = (self.shared.functions.current(), self.shared.grants.current());
        let is_open = self.shared.functions.allows_development();
        for cached in self.informer.all() {
            let Some(composite) = self.informer.to_object(&cached) else { continue };
            let revision = Machinery::of(&composite, self.layout).revision();
            if revision.is_some_and(|it| callers.contains(it)) && !meta::is_being_deleted(&composite) {
                let mut subject = Subject::read(&composite, self.layout, target, first);
                let selects = self.defaults.revision_selector.is_some();
                subject.is_manual |= selects && matches!(target, RolloutTarget::Composition(_));
                // What a developer's process does says nothing about the candidate, also if it fails. An intercept
                // without a grant does nothing.
                let is_its = |intercept: &Intercept| {
                    intercept.is_for_real()
                        && intercept.selects(&composite)
                        && (is_open || intercept.permit(&composite, &grants).is_ok())
                };
                subject.is_paused |= callables.intercepts.iter().any(is_its);
                subjects.push(subject);
            }
        }
    }
}

/// Whether a definition is established.
pub(super) fn is_established(definition: &Object) -> bool {
    establishment(definition) == Establishment::Done
}

fn conditions_of(definition: &Object) -> Vec<Condition> {
    let conditions = definition.get("status").and_then(|status| status.get("conditions"));
    conditions.map(conditions_in).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(status: &Value) -> Object {
        let definition = json!({
            "metadata": {"name": "sites.example.org"},
            "spec": {"group": "example.org", "names": {"kind": "Site", "plural": "sites"}}, "status": status,
        });
        definition.as_object().unwrap().clone()
    }

    #[test]
    fn definition_is_waited_for_unless_only_an_edit_can_help_it() {
        let established = |status: &str, code: &str| {
            let condition = json!({
                "type": "Established", "status": status, "reason": "Any", "code": code,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            establishment(&definition(&json!({"conditions": [condition]})))
        };
        assert_eq!(establishment(&definition(&json!({}))), Establishment::Pending);
        assert_eq!(established("True", ""), Establishment::Done);
        assert_eq!(established("True", "DefinitionInvalid"), Establishment::Done, "it was before the edit");
        assert_eq!(established("False", "ApiServerUnreachable"), Establishment::Pending);
        for code in ["DefinitionInvalid", "ObjectControlled"] {
            assert_eq!(established("False", code), Establishment::Never);
        }
        let mut deleted = definition(&json!({}));
        meta::set_field(&mut deleted, "deletionTimestamp", "2026-01-01T00:00:00Z");
        assert_eq!(establishment(&deleted), Establishment::Never);
        assert_eq!(defined_kind(&deleted), ("example.org".to_owned(), "Site".to_owned()));
    }
}
