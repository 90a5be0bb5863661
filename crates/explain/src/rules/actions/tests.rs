//! What is said of ActionSets that do not work.

use ferroplane_api::{ActionSetStatus, ActionState, Cause, PhaseError, PhaseState, PhaseStatus};
use ferroplane_engine::action::report_conditions;
use serde_json::{Value, json};

use crate::testing::{Plane, SINCE, object};
use crate::{Diagnosis, Id, diagnose};

/// An ActionSet and the first line that it comes to.
pub(in crate::rules) struct Case {
    pub(in crate::rules) rule: &'static str,
    action_set: Value,
    line: &'static str,
}

/// When all of this happens, in milliseconds since 1970.
const NOW: i64 = 1_767_225_600_000;

fn action_set(status: &ActionSetStatus) -> Value {
    let mut whole = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet",
        "metadata": {"name": "s", "namespace": "shop", "uid": "s", "generation": 1, "creationTimestamp": SINCE},
        "spec": {"actions": []},
    });
    let mut status = status.clone();
    report_conditions(&object(&whole), &mut status, NOW);
    whole["status"] = serde_json::to_value(status).unwrap();
    whole
}

/// One that failed because of this.
pub(in crate::rules) fn failed(cause: Cause, phase: &str, message: &str) -> Value {
    let error = PhaseError {
        phase: phase.to_owned(),
        code: cause.code().to_owned(),
        message: message.to_owned(),
        ..PhaseError::default()
    };
    action_set(&ActionSetStatus {
        state: ActionState::Failed,
        errors: vec![error],
        ..ActionSetStatus::default()
    })
}

pub(in crate::rules) fn running() -> Value {
    let phase = PhaseStatus { name: "gate".to_owned(), state: PhaseState::Running, ..PhaseStatus::default() };
    let action =
        ferroplane_api::ActionStatus { phases: vec![phase], ..ferroplane_api::ActionStatus::default() };
    action_set(&ActionSetStatus {
        state: ActionState::Running,
        actions: vec![action],
        ..ActionSetStatus::default()
    })
}

pub(in crate::rules) fn cases() -> Vec<Case> {
    let case = |rule, action_set, line| Case { rule, action_set, line };
    vec![
        case(
            "blueprint",
            failed(Cause::BlueprintNotFound, "", "there is no Blueprint `b`"),
            "ActionSet shop/s: there is no Blueprint `b`",
        ),
        case(
            "action-input",
            failed(Cause::ActionInvalid, "", "action `backup` needs the Secret `s`"),
            "ActionSet shop/s: field `spec.actions`: action `backup` needs the Secret `s`",
        ),
        case(
            "phase-needs",
            failed(Cause::PhaseNeedsUnmet, "tail", "function `KubeExec` runs commands in pods"),
            "ActionSet shop/s: step `tail`: function `KubeExec` runs commands in pods",
        ),
        case(
            "phase-template",
            failed(Cause::PhaseTemplateFailed, "dump", "cannot render `args.x`"),
            "ActionSet shop/s: step `dump`: cannot render `args.x`",
        ),
        case(
            "phase-timeout",
            failed(Cause::PhaseTimeout, "gate", "the conditions do not hold"),
            "ActionSet shop/s: step `gate`: the conditions do not hold",
        ),
        case(
            "phase-failed",
            failed(Cause::PhaseFailed, "dump", "it ended with 1"),
            "ActionSet shop/s: step `dump`: it ended with 1",
        ),
        case(
            "action-cancelled",
            failed(Cause::ActionCancelled, "gate", "the ActionSet was cancelled"),
            "ActionSet shop/s: step `gate`: the ActionSet was cancelled",
        ),
        case("action-failed", failed(Cause::RequestRefused, "make", "no"), "ActionSet shop/s: no"),
        case("action-running", running(), "ActionSet shop/s: phase `gate` runs (function `` )"),
    ]
}

fn explain(action_set: &Value) -> Diagnosis {
    let root = Id::of(&object(action_set));
    diagnose(&Plane { objects: vec![action_set.clone()], ..Plane::default() }.read_from(&root), &root)
}

#[test]
fn every_cause_is_named_in_the_first_line() {
    let mut wrong = Vec::new();
    for case in cases() {
        let diagnosis = explain(&case.action_set);
        assert!(!diagnosis.is_ready, "{}", case.rule);
        let found = diagnosis.cause.map(|cause| (cause.rule, cause.to_string()));
        if found != Some((case.rule, case.line.to_owned())) {
            wrong.push(format!("\n  {}: {}\n  {found:?}", case.rule, case.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn action_set_that_is_complete_is_ready() {
    let complete = ActionSetStatus { state: ActionState::Complete, ..ActionSetStatus::default() };
    assert!(explain(&action_set(&complete)).is_ready);
}

#[test]
fn action_set_that_nobody_has_looked_at_says_so() {
    let mut fresh = running();
    fresh.as_object_mut().unwrap().remove("status");
    let cause = explain(&fresh).cause.unwrap();
    assert_eq!(cause.rule, "unattended");
    assert!(cause.advice.concat().contains("--enable-blueprints"), "{:?}", cause.advice);
}
