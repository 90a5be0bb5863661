//! What is concluded from how a reconcile ended.

use std::collections::BTreeMap;

use super::*;
use crate::failure::Failure;
use crate::outcome::{EventKind, FunctionCondition, Ran, Target};
use crate::pipeline::Callee;
use crate::plan::Plan;
use crate::versions::LifecycleState;

fn object(json: &Value) -> Object {
    json.as_object().unwrap().clone()
}

fn outcome(result: Result<Plan, Failure>) -> Outcome {
    Outcome {
        result,
        events: Vec::new(),
        conditions: Vec::new(),
        requirements: Vec::new(),
        schemas: Vec::new(),
        context: None,
        ttl: None,
        ran: Vec::new(),
        outputs: Vec::new(),
    }
}

fn composing_nothing() -> Outcome {
    outcome(Ok(Plan {
        delete: Vec::new(),
        references: Vec::new(),
        apply: Vec::new(),
        status: None,
        is_ready: None,
        connection_details: BTreeMap::new(),
    }))
}

fn for_claim(kind: &str) -> FunctionCondition {
    FunctionCondition {
        condition: Condition::new(kind, Status::True, "Yes"),
        target: Target::CompositeAndClaim,
    }
}

fn facts(composite: &Object) -> Facts<'_> {
    let status = composite.get("status").and_then(Value::as_object);
    Facts {
        composite,
        layout: Layout::Legacy,
        generation: meta::generation(composite),
        held_status: status,
        kept_status: status.cloned().unwrap_or_default(),
        circuit: Circuit::Closed,
        contested: None,
        has_own_fields: true,
        now: "now".to_owned(),
    }
}

fn composed(outcome: &Outcome) -> Ending<'_> {
    Ending::Composed { outcome, unsynced: BTreeSet::new(), published: Published::Before }
}

fn conditions(conclusion: &Conclusion) -> Vec<String> {
    let conditions = conditions_in(&conclusion.status["conditions"]);
    conditions
        .into_iter()
        .map(|it| format!("{}={:?} {} {}", it.kind, it.status, it.reason, it.message))
        .collect()
}

fn events(conclusion: &Conclusion) -> Vec<String> {
    let events = conclusion.events.iter();
    events.map(|event| format!("{} {}: {}", event.kind.as_str(), event.reason, event.message)).collect()
}

fn asked(status: &Value) -> Object {
    object(&json!({
        "metadata": {"annotations": {"crossplane.io/reconcile-requested-at": "today"}}, "status": status,
    }))
}

#[test]
fn paused_composite_says_so_and_keeps_its_status() {
    let xr = asked(&json!({"url": "http://blog"}));
    let conclusion = conclude(Ending::Paused, Vec::new(), facts(&xr));
    assert_eq!(
        conditions(&conclusion),
        [
            "Responsive=True WatchCircuitClosed ",
            "Synced=False ReconcilePaused Reconciliation (including deletion) is paused via the pause annotation",
        ]
    );
    assert_eq!(conclusion.status["url"], "http://blog");
    assert_eq!(
        events(&conclusion),
        ["Normal ReconciliationPaused: Reconciliation is paused via the pause annotation"]
    );
}

#[test]
fn deleted_composite_says_that_it_goes() {
    let xr = object(&json!({"metadata": {"generation": 3}}));
    let conclusion = conclude(Ending::Deleting, Vec::new(), facts(&xr));
    assert_eq!(
        conditions(&conclusion),
        ["Responsive=True WatchCircuitClosed ", "Ready=False Deleting ", "Synced=True ReconcileSuccess "]
    );
    assert_eq!(conclusion.status["conditions"][1]["observedGeneration"], 3);
    assert_eq!(events(&conclusion), [""; 0]);
}

#[test]
fn request_is_told_first_and_handled_when_the_run_succeeds() {
    let (fresh, handled) = (asked(&json!({})), asked(&json!({"lastHandledReconcileAt": "today"})));
    let selected = Event::new(EventKind::Normal, "SelectComposition", "x");
    let failed = outcome(Err(Failure::Status));
    let success = conclude(composed(&composing_nothing()), vec![selected], facts(&fresh));
    assert_eq!(
        events(&success),
        ["Normal ReconcileRequestHandled: Handling reconcile request", "Normal SelectComposition: x"]
    );
    assert_eq!(success.status["lastHandledReconcileAt"], "today");
    let failure = conclude(composed(&failed), Vec::new(), facts(&fresh));
    assert_eq!(events(&failure)[0], "Normal ReconcileRequestHandled: Handling reconcile request");
    assert_eq!(failure.status.get("lastHandledReconcileAt"), None);
    let again = conclude(composed(&composing_nothing()), Vec::new(), facts(&handled));
    assert_eq!((events(&again), &again.status["lastHandledReconcileAt"]), (Vec::new(), &json!("today")));
    let unrecorded = Facts { has_own_fields: false, ..facts(&fresh) };
    let conclusion = conclude(composed(&composing_nothing()), Vec::new(), unrecorded);
    assert_eq!(conclusion.status.get("lastHandledReconcileAt"), None);
}

#[test]
fn failure_keeps_what_functions_said_before() {
    let xr = object(&json!({"status": {"url": "http://blog"}}));
    let failed = outcome(Err(Failure::Status));
    let conclusion = conclude(composed(&failed), Vec::new(), facts(&xr));
    assert_eq!(conclusion.status["url"], "http://blog");
    let message = "cannot compose resources: desired status of the composite resource is not an object";
    assert_eq!(conditions(&conclusion)[1], format!("Synced=False ReconcileError {message}"));
    assert_eq!(events(&conclusion), [format!("Warning ComposeResources: {message}")]);
    let success = conclude(composed(&composing_nothing()), Vec::new(), facts(&xr));
    assert_eq!(success.status.get("url"), None);
}

#[test]
fn what_is_not_allowed_is_told_in_condition_and_event() {
    let xr = object(&json!({}));
    let trouble = Trouble::of(&Failure::Status);
    let ending = Ending::Failed { trouble: &trouble, outcome: None, denied: Some("may not create") };
    let conclusion = conclude(ending, Vec::new(), facts(&xr));
    assert!(conditions(&conclusion)[1].ends_with("is not an object: may not create"), "{conclusion:?}");
    assert_eq!(events(&conclusion)[1], "Warning RoleBasedAccessControl: may not create");
}

#[test]
fn claim_keeps_the_conditions_that_it_had_and_gets_new_ones() {
    let details = json!({"lastPublishedTime": "then"});
    let xr = object(&json!({"status": {"claimConditionTypes": ["Old"], "connectionDetails": details}}));
    let outcome = Outcome { conditions: vec![for_claim("New"), for_claim("Old")], ..composing_nothing() };
    let conclusion = conclude(composed(&outcome), Vec::new(), facts(&xr));
    assert_eq!(conclusion.status["claimConditionTypes"], json!(["Old", "New"]));
    assert_eq!(conclusion.status["connectionDetails"], details);
    let ending = Ending::Composed { outcome: &outcome, unsynced: BTreeSet::new(), published: Published::Now };
    let conclusion = conclude(ending, Vec::new(), facts(&xr));
    assert_eq!(conclusion.status["connectionDetails"], json!({"lastPublishedTime": "now"}));
    let modern = Facts { layout: Layout::Modern, ..facts(&xr) };
    assert_eq!(conclude(composed(&outcome), Vec::new(), modern).status.get("claimConditionTypes"), None);
}

#[test]
fn too_many_changes_are_told_in_a_condition() {
    let xr = object(&json!({}));
    let open = Facts { circuit: Circuit::Open { source: "ConfigMap/blog".to_owned() }, ..facts(&xr) };
    let conclusion = conclude(composed(&composing_nothing()), Vec::new(), open);
    assert!(conditions(&conclusion)[0].starts_with("Responsive=False WatchCircuitOpen"), "{conclusion:?}");
    assert!(conditions(&conclusion)[0].contains("ConfigMap/blog"), "{conclusion:?}");
}

#[test]
fn composite_is_reconciled_again_when_an_answer_expires_or_its_user_wants_it() {
    let again = |annotation: &str, ttl| {
        let xr = object(&json!({"metadata": {"annotations": {"crossplane.io/poll-interval": annotation}}}));
        let outcome = Outcome { ttl, ..composing_nothing() };
        conclude(composed(&outcome), Vec::new(), facts(&xr)).requeue_after
    };
    assert_eq!(again("", None), None);
    assert_eq!(again("1m", None), Some(Duration::from_mins(1)));
    assert_eq!(again("1ms", None), Some(Duration::from_secs(1)));
    assert_eq!(again("1m", Some(Duration::from_secs(5))), Some(Duration::from_secs(5)));
}

/// A step that called this revision of its function.
fn ran(step: &str, revision: &str, version: &str) -> Ran {
    let callee = Callee {
        revision: revision.to_owned(),
        version: version.parse().ok(),
        built_in: None,
        state: LifecycleState::Available,
        advisories: Vec::new(),
    };
    Ran { step: step.to_owned(), function: "f".to_owned(), callee: Some(callee), calls: 1 }
}

#[test]
fn status_says_which_revisions_composed_it_and_keeps_that_when_a_run_fails() {
    let xr = object(
        &json!({"status": {"ferroplane": {"functions": [{"step": "a", "function": "f", "revision": "f-1"}]}}}),
    );
    let mut run = composing_nothing();
    run.ran = vec![ran("a", "f-2", "v1.2.0"), ran("b", "f-3", "latest"), ran("c", "f-v0.0.0-7", "v0.0.0")];
    let success = conclude(composed(&run), Vec::new(), facts(&xr));
    assert_eq!(
        success.status["ferroplane"],
        json!({"functions": [
            {"step": "a", "function": "f", "revision": "f-2", "version": "v1.2.0"},
            {"step": "b", "function": "f", "revision": "f-3"},
            {"step": "c", "function": "f"},
        ]})
    );
    let elsewhere = Facts { has_own_fields: false, kept_status: Object::new(), ..facts(&xr) };
    let rendered = conclude(composed(&run), Vec::new(), elsewhere);
    assert_eq!(rendered.status.get("ferroplane"), None, "what is rendered is compared with Crossplane's");
    let mut failed = outcome(Err(Failure::Fatal { step: "b".to_owned(), message: "no".to_owned() }));
    failed.ran = vec![ran("a", "f-2", "v1.2.0")];
    let failure = conclude(composed(&failed), Vec::new(), facts(&xr));
    assert_eq!(
        failure.status["ferroplane"]["functions"][0]["revision"], "f-1",
        "its resources are as they were"
    );
}
