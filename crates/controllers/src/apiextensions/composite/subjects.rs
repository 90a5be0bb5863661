//! Composite resources, as rollouts of functions see them.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Object, RolloutFirst, RolloutTarget, Status, meta};
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::conditions_in;
use ferroplane_engine::intercept::Intercept;
use ferroplane_engine::rollout::{RevisionFact, Subject};

use super::Composites;
use super::controller::Controller;
use crate::apiextensions::composition_cache::Revision;

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

    /// Increases when a composition or a revision of one changes.
    pub(crate) fn composition_epoch(&self) -> u64 {
        self.shared.compositions.epoch()
    }

    /// All composite resources with a step that calls a function without naming a revision, or that use a composition. None before all
    /// are cached: a rollout that counted only some would move too many.
    pub(crate) async fn subjects(
        &self,
        target: RolloutTarget<'_>,
        first: Option<&RolloutFirst>,
    ) -> Option<Vec<Subject>> {
        let mut subjects = Vec::new();
        for definition in self.shared.context.definitions.objects().iter().filter(|it| is_established(it)) {
            let controller = self.get(meta::name(definition))?;
            tokio::time::timeout(PATIENCE, controller.informer.synced()).await.ok()?;
            controller.add_subjects(target, first, &mut subjects);
        }
        Some(subjects)
    }
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
    let conditions = definition.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.map(conditions_in).unwrap_or_default();
    let is_so = conditions.iter().any(|it| it.kind == "Established" && it.status == Status::True);
    is_so && !meta::is_being_deleted(definition)
}
