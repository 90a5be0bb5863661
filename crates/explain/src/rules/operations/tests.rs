//! What is said of operations, schedules and watches that do not work.
#![expect(clippy::needless_pass_by_value, reason = "values read better where tests make them")]

use ferroplane_api::{Cause, FailurePoint};
use ferroplane_engine::operation::{
    ActionSetResult, Attempt, AttemptEnding, AttemptFailure, applied_action_sets, await_action_sets,
    conclude, started,
};
use ferroplane_engine::{Failure, InvalidPipeline, Reference, conditions_in};
use serde_json::{Value, json};

use crate::rules::actions::tests::{failed as failed_action_set, running as action_set_running};
use crate::testing::{Plane, SINCE, condition, object};
use crate::{Diagnosis, Id, diagnose};

const API_VERSION: &str = "ops.crossplane.io/v1alpha1";

/// An object, what else there is, and the first line that this comes to.
pub(in crate::rules) struct Case {
    pub(in crate::rules) rule: &'static str,
    objects: Vec<Value>,
    line: &'static str,
}

fn operation(name: &str) -> Value {
    let step = json!({
        "step": "work", "functionRef": {"name": "function-work"},
        "credentials": [{"name": "key", "source": "Secret", "secretRef": {"namespace": "ns", "name": "key"}}],
    });
    json!({
        "apiVersion": API_VERSION, "kind": "Operation",
        "metadata": {"name": name, "uid": name, "generation": 1, "creationTimestamp": SINCE},
        "spec": {"mode": "Pipeline", "retryLimit": 2, "pipeline": [step]},
    })
}

/// The operation after an attempt, as the engine has it.
fn after(ending: AttemptEnding, operation: &Value) -> Value {
    let mut operation = operation.clone();
    operation["status"] = conclude(&object(&operation), Attempt::new(ending), SINCE).status.into();
    operation
}

fn failed(failure: &AttemptFailure) -> Vec<Value> {
    vec![after(AttemptEnding::Failed(failure.clone()), &operation("o"))]
}

/// One that has failed as often as it may.
fn failed_for_good(failure: &AttemptFailure) -> Vec<Value> {
    let once = failed(failure);
    vec![after(AttemptEnding::Failed(failure.clone()), &once[0])]
}

fn run(failure: Failure) -> AttemptFailure {
    AttemptFailure::of_pipeline(&failure, &object(&operation("o")))
}

fn call(cause: Cause, error: &'static str) -> AttemptFailure {
    run(Failure::Call { step: "work".to_owned(), cause, source: error.into() })
}

fn maker(kind: &str, conditions: Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind,
        "metadata": {"name": "m", "uid": "m", "generation": 1, "creationTimestamp": SINCE},
        "spec": {}, "status": {"conditions": conditions},
    })
}

fn coded(mut condition: Value, cause: Cause) -> Value {
    condition["code"] = cause.code().into();
    condition
}

fn refused(kind: &str, cause: Cause, message: &str) -> Vec<Value> {
    vec![maker(kind, json!([coded(condition("Synced", "False", "ReconcileError", message), cause)]))]
}

#[expect(clippy::too_many_lines, reason = "a table with an entry for each cause")]
pub(in crate::rules) fn cases() -> Vec<Case> {
    let text = str::to_owned;
    let case = |rule, objects, line| Case { rule, objects, line };
    let mut suspended =
        maker("CronOperation", json!([condition("Scheduling", "False", "SchedulePaused", "")]));
    suspended["spec"]["suspend"] = true.into();
    let mut paused = operation("o");
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    let mut running = operation("o");
    running["status"] = started(&object(&running), SINCE).into();
    let mut impossible = operation("o");
    impossible["spec"]["retryLimit"] = 0.into();
    let incapable = InvalidPipeline::MissingCapability {
        step: text("work"),
        function: text("function-work"),
        revision: text("r"),
        missing: "operation",
    };
    let incapable = AttemptFailure::invalid_pipeline(
        incapable.to_string(),
        FailurePoint::new(Cause::FunctionCapabilityMissing).in_step("work"),
    );
    let invalid = AttemptFailure::invalid_pipeline(
        "two steps are called `work`",
        FailurePoint::new(Cause::OperationInvalid),
    );
    let namespace = Failure::Inapplicable {
        step: text("work"),
        resource: text("map"),
        problem: ferroplane_engine::Inapplicable::NoNamespace(text("ConfigMap")),
    };
    vec![
        case(
            "paused",
            vec![paused],
            "Operation o: field `metadata.annotations[crossplane.io/paused]`: is paused by the annotation `crossplane.io/paused`: it is not reconciled",
        ),
        case(
            "suspended",
            vec![suspended],
            "CronOperation m: field `spec.suspend`: is suspended: no operations are made",
        ),
        case(
            "function-missing",
            failed_for_good(&AttemptFailure::invalid_pipeline(
                "there is no function `function-work`",
                FailurePoint::new(Cause::FunctionNotFound).in_step("work"),
            )),
            "Function function-work: step `work`: there is no function `function-work`",
        ),
        case(
            "function-capability",
            failed(&incapable),
            "Function function-work: step `work`: function `function-work` (active revision `r`) does not have the capability `operation`",
        ),
        case(
            "function-unreachable",
            failed(&call(
                Cause::FunctionUnreachable,
                "cannot reach the function at a:9443 within 5s: refused",
            )),
            "Function function-work: step `work`: cannot reach the function at a:9443 within 5s: refused",
        ),
        case(
            "function-slow",
            failed(&call(Cause::FunctionTimeout, "the function at a:9443 did not answer within 10s")),
            "Function function-work: step `work`: the function at a:9443 did not answer within 10s",
        ),
        case(
            "function-crashing",
            failed(&call(
                Cause::FunctionConnectionLost,
                "lost the connection to the function at a:9443 before it answered: reset",
            )),
            "Function function-work: step `work`: lost the connection to the function at a:9443 before it answered: reset",
        ),
        case(
            "function-fatal",
            failed_for_good(&run(Failure::Fatal { step: text("work"), message: text("no region") })),
            "Operation o: step `work`: no region",
        ),
        case(
            "function-requirements-unstable",
            failed(&run(Failure::NeverSettles { step: text("work"), calls: 6 })),
            "Function function-work: step `work`: it changed its requirements after each of 6 calls",
        ),
        case(
            "requirement",
            failed(&run(Failure::Requirement {
                step: text("work"),
                requirement: text("vpc"),
                reason: text("there is no kind VPC in a/v1"),
            })),
            "Operation o: step `work`: field `vpc`: cannot fetch `vpc`, which pipeline step `work` requires: there is no kind VPC in a/v1",
        ),
        case(
            "credential",
            failed(&run(Failure::Credential {
                step: text("work"),
                credential: text("key"),
                secret: text("ns/key"),
                reason: text("there is no such Secret"),
            })),
            "Secret ns/key: step `work`: cannot get credential `key` of pipeline step `work` from Secret `ns/key`: there is no such Secret",
        ),
        case(
            "step-input",
            failed(&run(Failure::Input {
                step: text("work"),
                object: text("Palette `warm`"),
                reason: text("it does not exist"),
            })),
            "Operation o: step `work`: cannot get the input of pipeline step `work`, Palette `warm`: it does not exist",
        ),
        case("operation-invalid", failed(&invalid), "Operation o: two steps are called `work`"),
        case(
            "desired-resource-invalid",
            failed(&run(namespace)),
            "Operation o: step `work`: desired resource `map` of step `work` cannot be applied: kind ConfigMap is namespaced, and metadata.namespace is not set",
        ),
        case(
            "desired-resource-refused",
            failed_for_good(&AttemptFailure::not_applied("namespaces \"nowhere\" not found", "work", "map")),
            "Operation o: step `work`: namespaces \"nowhere\" not found",
        ),
        case(
            "attempts-exhausted",
            vec![after(AttemptEnding::GaveUp, &impossible)],
            "Operation o: field `spec.retryLimit`: failure limit of 0 reached",
        ),
        case(
            "operation-slow",
            failed(&AttemptFailure::timeout("the attempt took longer than 2m0s")),
            "Operation o: the attempt took longer than 2m0s",
        ),
        case(
            "operation-panicked",
            failed_for_good(&AttemptFailure::panic()),
            "Operation o: the attempt panicked; the log of the control plane says where",
        ),
        case(
            "operation-not-created",
            refused(
                "CronOperation",
                Cause::OperationNotCreated,
                "cannot create Operation `m-1`: quota exceeded",
            ),
            "CronOperation m: field `spec.operationTemplate`: cannot create Operation `m-1`: quota exceeded",
        ),
        case(
            "schedule",
            refused(
                "CronOperation",
                Cause::ScheduleInvalid,
                "cannot schedule operations: no time matches it",
            ),
            "CronOperation m: field `spec.schedule`: cannot schedule operations: no time matches it",
        ),
        case(
            "watch",
            vec![maker(
                "WatchOperation",
                json!([
                    condition("Synced", "True", "ReconcileSuccess", ""),
                    coded(
                        condition("Watching", "False", "WatchFailed", "there is no such kind"),
                        Cause::WatchNotStarted
                    ),
                ]),
            )],
            "WatchOperation m: field `spec.watch`: there is no such kind",
        ),
        case(
            "watch-loop",
            refused("WatchOperation", Cause::WatchLoop, "operations change ConfigMap `a` again and again"),
            "WatchOperation m: operations change ConfigMap `a` again and again",
        ),
        case(
            "unattended",
            vec![operation("o")],
            "Operation o: no controller has reconciled it yet: it is new, or the control plane runs no operations",
        ),
        case(
            "action-set-gone",
            vec![with_action_set(ActionSetResult::Gone)],
            "Operation o: ActionSet `shop/s` was deleted before its result was read",
        ),
        case("operation-running", vec![running], "Operation o: its pipeline runs, and has not ended yet"),
    ]
}

/// An operation that has applied an ActionSet, with this result.
fn with_action_set(result: ActionSetResult) -> Value {
    let applied = Reference {
        api_version: "cr.kanister.io/v1alpha1".to_owned(),
        kind: "ActionSet".to_owned(),
        name: "s".to_owned(),
        namespace: Some("shop".to_owned()),
    };
    let mut whole = operation("o");
    let attempt = Attempt { applied: vec![applied], ..Attempt::new(AttemptEnding::Succeeded) };
    whole["status"] = conclude(&object(&whole), attempt, SINCE).status.into();
    let waiting = object(&whole);
    let results: Vec<_> = applied_action_sets(&waiting).into_iter().map(|it| (it, result.clone())).collect();
    whole["status"] = await_action_sets(&waiting, &results, SINCE).concluded.status.into();
    whole
}

#[test]
fn operation_is_explained_by_its_action_set() {
    let message = "phase `dump`: disk full".to_owned();
    let failed = with_action_set(ActionSetResult::Failed(message.clone()));
    let diagnosis = explain(&[failed, failed_action_set(Cause::PhaseFailed, "dump", &message)]);
    assert_eq!(
        diagnosis.cause.unwrap().to_string(),
        "ActionSet shop/s: step `dump`: phase `dump`: disk full"
    );
    let waiting = with_action_set(ActionSetResult::Running);
    let diagnosis = explain(&[waiting.clone(), action_set_running()]);
    let line = diagnosis.cause.unwrap().to_string();
    assert!(line.starts_with("ActionSet shop/s: phase `gate` "), "{line}");
    // Whoever may not read the ActionSet is told what the operation waits for.
    let says = conditions_in(&waiting["status"]["conditions"]).into_iter();
    let says: Vec<_> = says.map(|it| it.message).collect();
    assert!(says.contains(&"Waiting for ActionSet `shop/s`".to_owned()), "{says:?}");
}

fn explain(objects: &[Value]) -> Diagnosis {
    let root = Id::of(&object(&objects[0]));
    diagnose(&Plane { objects: objects.to_vec(), ..Plane::default() }.read_from(&root), &root)
}

#[test]
fn every_cause_is_named_in_the_first_line() {
    let mut wrong = Vec::new();
    for case in cases() {
        let diagnosis = explain(&case.objects);
        assert!(!diagnosis.is_ready, "{}", case.rule);
        let found = diagnosis.cause.map(|cause| (cause.rule, cause.to_string()));
        if found != Some((case.rule, case.line.to_owned())) {
            wrong.push(format!("\n  {}: {}\n  {found:?}", case.rule, case.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn operation_that_has_succeeded_is_ready() {
    let mut succeeded = after(AttemptEnding::Succeeded, &operation("o"));
    assert!(explain(std::slice::from_ref(&succeeded)).is_ready);
    // It never runs again, so that nothing waits for an edit of its spec to be checked.
    succeeded["metadata"]["generation"] = 2.into();
    assert!(explain(&[succeeded]).is_ready);
}

#[test]
fn schedule_is_explained_by_its_latest_operation_that_came_to_something() {
    let well = json!([
        condition("Scheduling", "True", "ScheduleActive", ""),
        condition("Synced", "True", "ReconcileSuccess", "")
    ]);
    let made = |name: &str, created: &str, operation: &Value| {
        let mut made = operation.clone();
        made["metadata"]["name"] = name.into();
        made["metadata"]["creationTimestamp"] = created.into();
        made["metadata"]["labels"] = json!({"ops.crossplane.io/cronoperation": "m"});
        made
    };
    let bad =
        &failed_for_good(&run(Failure::Fatal { step: "work".to_owned(), message: "no region".to_owned() }))
            [0];
    let good = after(AttemptEnding::Succeeded, &operation("o"));
    let mut running = operation("o");
    running["status"] = started(&object(&running), SINCE).into();

    let cron = maker("CronOperation", well);
    let diagnosis = explain(&[
        cron.clone(),
        made("m-1", "2026-01-01T00:00:01Z", &good),
        made("m-2", "2026-01-01T00:00:02Z", bad),
        made("m-3", "2026-01-01T00:00:03Z", &running),
    ]);
    assert!(!diagnosis.is_ready);
    assert_eq!(diagnosis.cause.unwrap().to_string(), "Operation m-2: step `work`: no region");
    let recovered = explain(&[
        cron,
        made("m-1", "2026-01-01T00:00:01Z", bad),
        made("m-2", "2026-01-01T00:00:02Z", &good),
    ]);
    assert!(recovered.is_ready && recovered.cause.is_none(), "{recovered:?}");
}
