//! Events about a composite resource, besides those of functions. There is one text for each fact; where Crossplane 2.4 has one, it is
//! Crossplane's (internal/controller/apiextensions/composite/reconciler.go).

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use super::begin::Selected;
use crate::outcome::{Event, EventKind};
use crate::selection::Why;

/// The reason of events about composing.
pub const COMPOSE: &str = "ComposeResources";
/// The reason of events about selecting a composition and its revision.
pub const SELECT: &str = "SelectComposition";
/// The reason of events about a composition that the definition selects.
const SELECT_BY_DEFINITION: &str = "CompositionSelection";
/// The reason of events about connection details.
pub const PUBLISH: &str = "PublishConnectionSecret";
/// The reason of the event for a paused object.
pub const RECONCILIATION_PAUSED: &str = "ReconciliationPaused";
/// The message of the event for a paused object.
pub const PAUSED_EVENT: &str = "Reconciliation is paused via the pause annotation";
/// The message of the condition for a paused object.
pub const PAUSED_CONDITION: &str = "Reconciliation (including deletion) is paused via the pause annotation";

/// Events about a selection. None if the same was selected before.
pub fn selection_events(selected: &Selected, revision_before: Option<&str>) -> Vec<Event> {
    let Selected { composition, why, revision, .. } = selected;
    let normal = |reason, message| Event::new(EventKind::Normal, reason, message);
    let text = format!("Successfully selected composition: {composition}");
    let composition = match why {
        Why::Named => None,
        Why::Found => Some(normal(SELECT, text)),
        Why::Enforced => Some(normal(SELECT_BY_DEFINITION, format!("{text}, which the definition enforces"))),
        Why::Default => {
            Some(normal(SELECT_BY_DEFINITION, format!("{text}, which is the default of the definition")))
        }
    };
    let revision = revision.as_deref().filter(|revision| Some(*revision) != revision_before);
    let revision = revision.map(|revision| normal(SELECT, format!("Uses CompositionRevision `{revision}`")));
    composition.into_iter().chain(revision).collect()
}

/// The event for connection details that were written.
pub fn published_event() -> Event {
    Event::new(EventKind::Normal, PUBLISH, "Published connection details")
}

pub(super) fn paused_event() -> Event {
    Event::new(EventKind::Normal, RECONCILIATION_PAUSED, PAUSED_EVENT)
}

/// The request to reconcile a composite resource, if it has one. The second value says whether it was handled before.
pub(super) fn reconcile_request(composite: &Object) -> Option<(&str, bool)> {
    let token = meta::annotation(composite, keys::RECONCILE_REQUESTED_AT);
    let handled = composite.get("status").and_then(|status| status.get("lastHandledReconcileAt"));
    (!token.is_empty()).then(|| (token, handled.and_then(Value::as_str) == Some(token)))
}

/// The event for a request to reconcile a composite resource, unless it was handled before.
pub(super) fn request_event(composite: &Object) -> Option<Event> {
    let is_new = reconcile_request(composite).is_some_and(|(_, is_handled)| !is_handled);
    is_new.then(|| Event::new(EventKind::Normal, "ReconcileRequestHandled", "Handling reconcile request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(why: Why, revision_before: Option<&str>) -> Vec<String> {
        let selected = Selected {
            composition: "sites".to_owned(),
            why,
            revision: Some("sites-1".to_owned()),
            connection_namespace: None,
        };
        let events = selection_events(&selected, revision_before);
        events.into_iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
    }

    #[test]
    fn only_what_is_newly_selected_is_told() {
        assert_eq!(told(Why::Named, Some("sites-1")), [""; 0]);
        assert_eq!(told(Why::Named, None), ["SelectComposition: Uses CompositionRevision `sites-1`"]);
        assert_eq!(
            told(Why::Found, Some("sites-1")),
            ["SelectComposition: Successfully selected composition: sites"]
        );
        assert_eq!(
            told(Why::Enforced, Some("sites-1")),
            ["CompositionSelection: Successfully selected composition: sites, which the definition enforces"]
        );
    }
}
