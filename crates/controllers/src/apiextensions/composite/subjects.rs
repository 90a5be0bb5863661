//! Composite resources, as rollouts of functions see them.

use std::time::Duration;

use ferroplane_api::{Object, RolloutFirst, Status, meta};
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::conditions_in;
use ferroplane_engine::rollout::Subject;

use super::Composites;
use super::controller::Controller;

/// How long to wait for the composite resources of a kind to be read.
const PATIENCE: Duration = Duration::from_secs(1);

impl Composites {
    /// All composite resources that call a function in a step that does not say which revision. None before all are known: whoever
    /// counted a part of them would move too many.
    pub(crate) async fn subjects(
        &self,
        function: &str,
        first: Option<&RolloutFirst>,
    ) -> Option<Vec<Subject>> {
        let mut subjects = Vec::new();
        for definition in self.shared.context.definitions.objects().iter().filter(|it| is_established(it)) {
            let controller = self.get(meta::name(definition))?;
            tokio::time::timeout(PATIENCE, controller.informer.synced()).await.ok()?;
            controller.add_subjects(function, first, &mut subjects);
        }
        Some(subjects)
    }
}

impl Controller {
    fn add_subjects(&self, function: &str, first: Option<&RolloutFirst>, subjects: &mut Vec<Subject>) {
        let callers = self.shared.compositions.revisions_open_to(function);
        if callers.is_empty() {
            return;
        }
        for cached in self.informer.all() {
            let Some(composite) = self.informer.to_object(&cached) else { continue };
            let revision = Machinery::of(&composite, self.layout).revision();
            if revision.is_some_and(|it| callers.contains(it)) && !meta::is_being_deleted(&composite) {
                subjects.push(Subject::read(&composite, self.layout, function, first));
            }
        }
    }
}

fn is_established(definition: &Object) -> bool {
    let conditions = definition.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.map(conditions_in).unwrap_or_default();
    let is_so = conditions.iter().any(|it| it.kind == "Established" && it.status == Status::True);
    is_so && !meta::is_being_deleted(definition)
}
