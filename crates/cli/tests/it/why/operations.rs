//! `ferroplane why` of operations, schedules and watches that do not work.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroplane_testkit::FunctionServer;
use ferroplane_wire::from_json;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

use super::{Fault, check, other, plane};
use crate::sandbox::function;

/// A name that is too long to be in a label of operations.
const LONG: &str = "longer-than-any-name-of-a-schedule-should-be-because-its-operations-have-it-in-a-label";

/// A function that answers what its input says, and misbehaves if that says so.
async fn server() -> FunctionServer {
    let calls = AtomicU64::new(0);
    FunctionServer::start_async(move |request| {
        let number = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            let input = request.input.as_ref().map(|input| input.json().unwrap().clone()).unwrap_or_default();
            match input.get("manner").and_then(Value::as_str) {
                Some("silent") => std::future::pending().await,
                Some("restless") => Ok(answer(&restless(number))),
                Some("looping") => Ok(answer(&looping(&request, number))),
                _ => Ok(answer(&input.get("response").cloned().unwrap_or_else(|| json!({})))),
            }
        }
    })
    .await
}

fn answer(response: &Value) -> RunFunctionResponse {
    from_json(response).unwrap()
}

/// Asks for something else each time.
fn restless(number: u64) -> Value {
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchName": format!("n{number}")});
    json!({"requirements": {"resources": {"r": selector}}})
}

/// Changes what it was called for.
fn looping(request: &RunFunctionRequest, number: u64) -> Value {
    let watched = &request.required_resources["ops.crossplane.io/watched-resource"].items[0];
    let metadata = &watched.resource.as_ref().unwrap().json().unwrap()["metadata"];
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "data": {"number": number.to_string()},
    });
    json!({"desired": {"resources": {"map": {"resource": map}}}})
}

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: ops.crossplane.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

fn pipeline(step: &str) -> String {
    format!("mode: Pipeline, retryLimit: 1, pipeline: [{{step: a, {step}}}]")
}

/// An operation with this step.
fn operation(name: &str, step: &str, words: &[&'static str]) -> Fault {
    other(&format!("operation/{name}"), object("Operation", name, &pipeline(step)), words)
}

fn calling(function: &str, input: &str) -> String {
    format!("functionRef: {{name: {function}}}, input: {input}")
}

/// A step whose function answers this.
fn answering(response: &str) -> String {
    calling("function-served", &format!("{{response: {response}}}"))
}

/// A step that wants this object.
fn wanting(resource: &str) -> String {
    answering(&format!("{{desired: {{resources: {{thing: {{resource: {resource}}}}}}}}}"))
}

/// A step that does not succeed.
fn failing() -> String {
    let input = "{apiVersion: validation.fn.ferroplane.io/v1beta1, kind: Validation, rules: [{rule: 'false', message: it does not hold}]}";
    calling("function-cel-validation", input)
}

/// A schedule or a watch.
fn making(kind: &str, name: &str, spec: &str, step: &str, words: &[&'static str]) -> Fault {
    let spec = format!("{spec}, operationTemplate: {{spec: {{{}}}}}", pipeline(step));
    other(&format!("{}/{name}", kind.to_lowercase()), object(kind, name, &spec), words)
}

#[expect(clippy::too_many_lines, reason = "a table with an entry for each fault")]
fn faults_of_operations(address: &str) -> Vec<Fault> {
    let development = |name: &str, target: &str| {
        function(
            name,
            &[
                ("render.crossplane.io/runtime", "Development"),
                ("render.crossplane.io/runtime-development-target", target),
            ],
        )
    };
    let functions = development("function-served", address) + &development("function-lost", "127.0.0.1:1");
    let targets = |kind: &str| {
        format!("{{targets: {{apiVersion: nope.io/v1, kind: {kind}}}, batches: [1], toVersion: v2}}")
    };
    let secret = "functionRef: {name: function-served}, credentials: [{name: cloud, source: Secret, secretRef: {namespace: default, name: nope}}]";
    let mut missing = operation(
        "missing",
        "functionRef: {name: function-missing}",
        &["Function function-missing", "step `a`"],
    )
    .code("FunctionNotFound");
    missing.manifest = functions + &missing.manifest;
    vec![
        missing,
        operation(
            "unable",
            "functionRef: {name: function-auto-ready}",
            &["Function function-auto-ready", "step `a`", "capability `operation`"],
        )
        .code("FunctionCapabilityMissing"),
        operation(
            "outdated",
            "functionRef: {name: function-rolling-upgrade, version: v9.9.9}",
            &["Function function-rolling-upgrade", "step `a`", "v9.9.9"],
        )
        .code("FunctionVersionNotFound"),
        operation(
            "careless",
            &calling("function-rolling-upgrade", "{}"),
            &["Operation careless", "step `a`", "targets: is required"],
        ),
        operation("penniless", secret, &["Secret default/nope", "step `a`"]).code("CredentialUnavailable"),
        operation(
            "forlorn",
            "functionRef: {name: function-lost}",
            &["Function function-lost", "step `a`", "cannot reach the function at"],
        )
        .code("FunctionUnreachable"),
        operation("denied", &failing(), &["Operation denied", "step `a`", "it does not hold"])
            .code("FunctionFatalResult"),
        operation(
            "curious",
            &calling("function-rolling-upgrade", &targets("Vpc")),
            &["Operation curious", "step `a`", "Vpc in nope.io/v1"],
        )
        .code("RequirementUnavailable"),
        operation(
            "homeless",
            &wanting("{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}"),
            &["Operation homeless", "step `a`", "kind ConfigMap is namespaced"],
        )
        .code("DesiredResourceInvalid"),
        operation(
            "exotic",
            &wanting("{apiVersion: nope.io/v1, kind: Queue, metadata: {name: q}}"),
            &["Operation exotic", "step `a`", "Queue"],
        ),
        operation(
            "displaced",
            &wanting("{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: nowhere}}"),
            &["Operation displaced", "step `a`", "nowhere"],
        ),
        operation(
            "huge",
            &wanting(
                "{apiVersion: cloud.test.io/v1, kind: Bucket, metadata: {name: huge, namespace: default}, spec: {size: 9}}",
            ),
            &["Operation huge", "step `a`", "less than or equal to 5"],
        )
        .code("DesiredResourceNotApplied"),
        operation(
            "indecisive",
            &calling("function-served", "{manner: restless}"),
            &["Function function-served", "step `a`", "changed its requirements"],
        )
        .code("FunctionRequirementsUnstable"),
        operation(
            "slow",
            &calling("function-served", "{manner: silent}"),
            &["Operation slow", "its pipeline runs"],
        ),
        other(
            "operation/hopeless",
            object("Operation", "hopeless", &pipeline(&failing()).replace("retryLimit: 1", "retryLimit: 0")),
            &["Operation hopeless", "field `spec.retryLimit`", "failure limit of 0 reached"],
        )
        .code("OperationAttemptsExhausted"),
        other(
            "operation/halted",
            object("Operation", "halted", &pipeline(&failing()))
                .replace("name: halted", "name: halted, annotations: {crossplane.io/paused: 'true'}"),
            &["Operation halted", "is paused by the annotation"],
        ),
        making(
            "CronOperation",
            "unreadable",
            "schedule: often",
            &failing(),
            &["CronOperation unreadable", "field `spec.schedule`", "expected exactly 5 fields"],
        )
        .code("ScheduleInvalid"),
        making(
            "CronOperation",
            "never",
            "schedule: 0 0 31 2 *",
            &failing(),
            &["CronOperation never", "field `spec.schedule`", "no time matches it"],
        )
        .code("ScheduleInvalid"),
        making(
            "CronOperation",
            "idle",
            "schedule: '@daily', suspend: true",
            &failing(),
            &["CronOperation idle", "field `spec.suspend`", "is suspended"],
        ),
        making(
            "CronOperation",
            LONG,
            "schedule: '@every 1s'",
            &failing(),
            &["CronOperation longer-", "field `spec.operationTemplate`", "cannot create Operation `longer-"],
        )
        .code("OperationNotCreated"),
        making(
            "CronOperation",
            "unlucky",
            "schedule: '@every 1s', concurrencyPolicy: Forbid",
            &failing(),
            &["Operation unlucky-", "step `a`", "it does not hold"],
        ),
        making(
            "WatchOperation",
            "blind",
            "watch: {apiVersion: nowhere.io/v1, kind: Thing}",
            &failing(),
            &["WatchOperation blind", "field `spec.watch`", "there is no such kind"],
        )
        .code("WatchNotStarted"),
        making(
            "WatchOperation",
            "clumsy",
            "watch: {apiVersion: v1, kind: Namespace}",
            &failing(),
            &["Operation clumsy-", "step `a`", "it does not hold"],
        ),
        making(
            "WatchOperation",
            "resting",
            "suspend: true, watch: {apiVersion: v1, kind: Namespace}",
            &failing(),
            &["WatchOperation resting", "field `spec.suspend`", "is suspended"],
        ),
        making(
            "WatchOperation",
            "dizzy",
            "watch: {apiVersion: v1, kind: ConfigMap, namespace: default, matchLabels: {dizzy: 'yes'}}",
            &calling("function-served", "{manner: looping}"),
            &["WatchOperation dizzy", "keep changing what triggered them", "default/dizzy"],
        )
        .code("WatchLoop")
        .then("kubectl create configmap dizzy && kubectl label configmap dizzy dizzy=yes"),
    ]
}

#[test]
fn injected_faults_of_operations_are_named_in_the_first_line() {
    let Some(plane) = plane() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(server());
    let faults = faults_of_operations(&server.address());
    // So many, with those of composite resources and packages, are what docs/why.md mentions.
    assert_eq!(super::faults().len() + super::more_faults().len() + faults.len(), 69);
    check(&plane, &faults);
    // One of its calls never ends.
    runtime.shutdown_background();
}
