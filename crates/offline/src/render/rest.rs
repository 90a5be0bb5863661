//! Composite resources that are left alone: those that are paused, and those that are being deleted.

use ferroplane_api::{Condition, Object, Status, keys, meta, set_condition};
use ferroplane_engine::{Event, EventKind, conditions_to_json};
use serde_json::Value;

use super::{RenderInput, Rendered, decided_before};

/// Why a composite resource is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Paused,
    Deleting,
}

impl Rest {
    /// Why it is left alone, if it is.
    pub(crate) fn of(xr: &Object) -> Option<Self> {
        if meta::annotation(xr, keys::PAUSED) == "true" {
            return Some(Self::Paused);
        }
        let deleted = xr.get("metadata").and_then(|metadata| metadata.get("deletionTimestamp"));
        deleted.is_some_and(|time| !time.is_null()).then_some(Self::Deleting)
    }

    fn conditions(self) -> Vec<Condition> {
        match self {
            Self::Paused => vec![
                Condition::new("Synced", Status::False, "ReconcilePaused")
                    .with_message("Reconciliation (including deletion) is paused via the pause annotation"),
            ],
            Self::Deleting => vec![
                Condition::new("Ready", Status::False, "Deleting"),
                Condition::new("Synced", Status::True, "ReconcileSuccess"),
            ],
        }
    }

    fn event(self) -> Option<Event> {
        let message = "Reconciliation is paused via the pause annotation".to_owned();
        (self == Self::Paused).then(|| Event::new(EventKind::Normal, "ReconciliationPaused", message))
    }
}

/// What a composite resource that is left alone becomes: itself, with conditions that say so.
pub(super) fn rendered(input: RenderInput, rest: Rest) -> Rendered {
    let mut conditions = decided_before(&input);
    let requested = input.composite.requested().filter(|_| rest == Rest::Deleting);
    let mut xr = input.composite.into_object();
    for condition in rest.conditions() {
        let condition = Condition {
            last_transition_time: input.now.clone(),
            observed_generation: meta::generation(&xr),
            ..condition
        };
        set_condition(&mut conditions, condition);
    }
    meta::child(&mut xr, "status")
        .insert("conditions".to_owned(), Value::Array(conditions_to_json(&conditions)));
    Rendered {
        xr,
        composed: Vec::new(),
        deleted: Vec::new(),
        events: requested.into_iter().chain(rest.event()).collect(),
        asked: Vec::new(),
        context: input.context,
        failure: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rest(metadata: Value) -> Option<Rest> {
        Rest::of(&Object::from_iter([("metadata".to_owned(), metadata)]))
    }

    #[test]
    fn paused_and_deleted_composites_are_left_alone() {
        let deleted = "2020-01-01T00:00:00Z";
        assert_eq!(rest(json!({"annotations": {"crossplane.io/paused": "true"}})), Some(Rest::Paused));
        assert_eq!(rest(json!({"annotations": {"crossplane.io/paused": "false"}})), None);
        assert_eq!(rest(json!({"deletionTimestamp": deleted})), Some(Rest::Deleting));
        assert_eq!(rest(json!({"deletionTimestamp": null})), None);
    }
}
