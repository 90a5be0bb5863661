//! `ferroplane operation`, and what `render` makes of operations.

use ferroplane_testkit::FunctionServer;
use ferroplane_wire::from_json;
use serde_json::{Value, json};

use crate::plane::Plane;
use crate::sandbox::{Sandbox, dummy, function};

const FERROPLANE: &str = env!("CARGO_BIN_EXE_ferroplane");

/// The spec of an operation whose function answers this.
fn spec(response: &str) -> String {
    format!(
        "{{mode: Pipeline, pipeline: [{{step: work, functionRef: {{name: function-dummy}}, input: {}}}]}}",
        dummy(response)
    )
}

fn manifest(kind: &str, spec: &str) -> String {
    format!("apiVersion: ops.crossplane.io/v1alpha1\nkind: {kind}\nmetadata: {{name: o}}\nspec: {spec}\n")
}

const WANTS: &str = "{output: {made: 1}, desired: {resources: {m: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: home}}}}}}";

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    format!("{}/{}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
}

#[test]
fn rendered_operation_shows_its_status_and_what_it_applies() {
    let sandbox = Sandbox::new().with("operation.yaml", &manifest("Operation", &spec(WANTS)));
    let documents = sandbox.run(&["render", "operation.yaml"]).documents();
    assert_eq!(documents.len(), 2, "{documents:#?}");
    assert_eq!(documents[0]["metadata"], json!({"name": "o"}));
    assert_eq!(documents[0].get("spec"), None);
    assert_eq!(condition(&documents[0], "Succeeded"), "True/PipelineSuccess");
    assert_eq!(documents[0]["status"]["pipeline"], json!([{"step": "work", "output": {"made": 1}}]));
    assert_eq!(documents[0]["status"]["appliedResourceRefs"][0]["name"], "m");
    assert_eq!(documents[1]["kind"], "ConfigMap");
    let full = sandbox.run(&["render", "operation.yaml", "-x"]).documents();
    assert_eq!(full[0]["spec"]["mode"], "Pipeline");
}

#[test]
fn rendered_operation_that_fails_says_so() {
    let fatal = spec("{results: [{severity: SEVERITY_FATAL, message: no}]}");
    let sandbox = Sandbox::new().with("operation.yaml", &manifest("Operation", &fatal));
    let ran = sandbox.run(&["render", "operation.yaml"]);
    assert!(ran.stdout.contains("failures: 1"), "{ran:?}");
    assert!(ran.fails_with(3).contains("Operation `o`"));
    let nowhere =
        "{desired: {resources: {m: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}}}}}";
    let sandbox = Sandbox::new().with("operation.yaml", &manifest("Operation", &spec(nowhere)));
    let said = sandbox.run(&["render", "operation.yaml"]).fails_with(1);
    assert!(said.contains("kind ConfigMap is namespaced"), "{said}");
}

#[test]
fn schedules_and_watches_are_rendered_as_the_operation_that_they_make() {
    let cron = format!("{{schedule: '@daily', operationTemplate: {{spec: {}}}}}", spec(WANTS));
    let watch = format!(
        "{{watch: {{apiVersion: v1, kind: Pod, matchLabels: {{a: b}}}}, operationTemplate: {{spec: {}}}}}",
        spec(WANTS)
    );
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: home, resourceVersion: '1', labels: {a: b}}\n";
    let sandbox = Sandbox::new()
        .with("cron.yaml", &manifest("CronOperation", &cron))
        .with("watch.yaml", &manifest("WatchOperation", &watch))
        .with("pod.yaml", pod)
        .with("other.yaml", &pod.replace("a: b", "a: c"));
    let documents = sandbox.run(&["render", "cron.yaml"]).documents();
    assert_eq!(documents[0]["metadata"]["name"], "o-1704067200");
    assert_eq!(condition(&documents[0], "Succeeded"), "True/PipelineSuccess");
    let documents = sandbox.run(&["render", "watch.yaml", "--watched-resource", "pod.yaml"]).documents();
    assert!(documents[0]["metadata"]["name"].as_str().unwrap().starts_with("o-"), "{documents:?}");
    assert_eq!(documents[1]["kind"], "ConfigMap");
    for (arguments, words) in [
        (&["watch.yaml"][..], "a WatchOperation needs --watched-resource"),
        (&["watch.yaml", "-w", "other.yaml"], "it does not have its labels"),
        (&["watch.yaml", "-w", "cron.yaml"], "but --watched-resource is CronOperation"),
        (&["cron.yaml", "-w", "pod.yaml"], "--watched-resource is for WatchOperations"),
    ] {
        let said = sandbox.run(&[&["render"], arguments].concat()).fails_with(1);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert!(sandbox.run(&["render", "pod.yaml"]).fails_with(2).contains("<COMPOSITION>"));
}

#[test]
fn coming_times_of_a_schedule_are_told_in_its_zone() {
    let spec = format!(
        "{{schedule: '30 2 * * *', timeZone: Europe/Berlin, suspend: true, operationTemplate: {{spec: {}}}}}",
        spec(WANTS)
    );
    let sandbox = Sandbox::new().with("cron.yaml", &manifest("CronOperation", &spec));
    let line =
        ["operation", "next", "--schedule", "30 2 * * *", "--time-zone", "Europe/Berlin", "--count", "2"];
    // Half past two does not exist on that day: clocks go from two to three.
    let said = sandbox.run(&[&line[..], &["--after", "2026-03-28T00:00:00Z"]].concat()).ok();
    let expected = [
        "Sat 2026-03-28 02:30:00 +01:00   2026-03-28T01:30:00Z   ",
        "Mon 2026-03-30 02:30:00 +02:00   2026-03-30T00:30:00Z   ",
    ];
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, expected) in said.lines().zip(expected) {
        // How long ago that was grows from day to day.
        assert!(line.starts_with(expected) && line.ends_with(" ago"), "{said}");
    }
    let said = sandbox.run(&["operation", "next", "-f", "cron.yaml"]).fails_with(3);
    assert!(said.contains("CronOperation `o` is suspended"), "{said}");
    let said = sandbox.run(&["operation", "next", "--schedule", "often"]).fails_with(1);
    assert!(said.contains("cannot read the schedule"), "{said}");
    let said = sandbox.run(&["operation", "next", "--schedule", "0 0 31 2 *"]).fails_with(1);
    assert!(said.contains("no time matches the schedule"), "{said}");
}

#[test]
fn mistakes_in_commands_about_operations_are_told() {
    let watch =
        format!("{{watch: {{apiVersion: v1, kind: Pod}}, operationTemplate: {{spec: {}}}}}", spec(WANTS));
    let sandbox = Sandbox::new().with("watch.yaml", &manifest("WatchOperation", &watch));
    for (line, code, words) in [
        (&["next"][..], 2, "<NAME|--file <FILE>|--schedule <CRONTAB>>"),
        (&["next", "--schedule", "@daily", "--count", "0"], 2, "0 is not in 1..=65535"),
        (&["next", "nightly", "--time-zone", "UTC"], 2, "cannot be used with"),
        (
            &["next", "--schedule", "@daily", "--time-zone", "Mars/Olympus"],
            1,
            "unknown time zone Mars/Olympus",
        ),
        (&["history", "nightly"], 2, "expected cronoperation/NAME or watchoperation/NAME"),
        (&["history", "operation/x"], 2, "expected cronoperation/NAME or watchoperation/NAME"),
        (&["run", "watch.yaml"], 1, "a WatchOperation runs when something changes"),
        (&["run", "nothing.yaml"], 1, "cannot read nothing.yaml"),
    ] {
        let said = sandbox.run(&[&["operation"], line].concat()).fails_with(code);
        assert!(said.contains(words), "{line:?}: {said}");
    }
}

/// An operation that succeeds if this holds. Built-in functions for operations are few.
pub(crate) fn checking(name: &str, rule: &str) -> String {
    let input = format!(
        "{{apiVersion: validation.fn.ferroplane.io/v1beta1, kind: Validation, rules: [{{name: r, rule: \"{rule}\", message: it does not hold}}]}}"
    );
    let step = format!("{{step: check, functionRef: {{name: function-cel-validation}}, input: {input}}}");
    format!(
        "apiVersion: ops.crossplane.io/v1alpha1\nkind: Operation\nmetadata: {{name: {name}}}\nspec: {{mode: Pipeline, retryLimit: 1, pipeline: [{step}]}}\n"
    )
}

#[test]
fn operations_are_run_listed_and_run_again() {
    let plane =
        Plane::new().with("good.yaml", &checking("good", "true")).with("bad.yaml", &checking("bad", "false"));
    let said = plane.says(&format!("{FERROPLANE} operation run good.yaml 2>&1"));
    assert!(said.contains("Operation `good` succeeded"), "{said}");
    let said = plane.fails(&format!("{FERROPLANE} operation run bad.yaml 2>&1; test $? = 3 && exit 7"), "");
    assert!(said.contains("Operation `bad` failed: failure limit of 1 reached"), "{said}");
    assert!(said.contains("it does not hold"), "{said}");
    let said = plane.fails(&format!("{FERROPLANE} operation run good.yaml 2>&1"), "");
    assert!(said.contains("Operation `good` exists already"), "{said}");
    let said = plane.says(&format!("{FERROPLANE} operation retry good 2>&1"));
    assert!(said.contains("Operation `good-retry-"), "{said}");
    let rows = plane.says(&format!("{FERROPLANE} operation history"));
    let results: Vec<_> =
        rows.lines().filter(|line| line.contains("Succeeded") || line.contains("Failed")).collect();
    assert_eq!(results.len(), 3, "{rows}");
    let said = plane.fails(&format!("{FERROPLANE} operation history cronoperation/none 2>&1"), "");
    assert!(said.contains("there is no CronOperation `none`"), "{said}");
    plane.says("echo '{apiVersion: ops.crossplane.io/v1alpha1, kind: CronOperation, metadata: {name: idle}, spec: {schedule: \"@yearly\", operationTemplate: {spec: {mode: Pipeline, pipeline: [{step: a, functionRef: {name: f}}]}}}}' | kubectl apply -f -");
    let said = plane.says(&format!("{FERROPLANE} operation history cronops/idle 2>&1"));
    assert!(said.contains("CronOperation `idle` has made no operations that are still kept"), "{said}");
    assert!(plane.says(&format!("{FERROPLANE} operation logs bad")).contains("it does not hold"));
    let said = plane.fails(&format!("{FERROPLANE} operation cancel good 2>&1"), "");
    assert!(said.contains("Operation `good` is done"), "{said}");
    let said = plane.fails(&format!("{FERROPLANE} operation logs nobody 2>&1"), "");
    assert!(said.contains("there is no Operation `nobody`"), "{said}");
}

/// An operation that is tried again and again.
fn persistent(name: &str) -> String {
    checking(name, "false").replace("retryLimit: 1", "retryLimit: 1000")
}

/// A schedule whose operations succeed.
fn scheduled(name: &str, schedule: &str) -> String {
    let operation = checking(name, "true");
    let (_, spec) = operation.split_once("spec: ").unwrap();
    format!(
        "apiVersion: ops.crossplane.io/v1alpha1\nkind: CronOperation\nmetadata: {{name: {name}}}\nspec: {{schedule: '{schedule}', timeZone: Europe/Berlin, operationTemplate: {{spec: {}}}}}\n",
        spec.trim()
    )
}

/// What a command says, and the code with which it exits.
fn ran(plane: &Plane, line: &str) -> String {
    plane.says(&format!("{FERROPLANE} operation {line}; echo \"code $?\""))
}

/// A command that waits until a file says this.
fn until_file_says(file: &str, words: &str) -> String {
    format!("timeout 60 sh -c 'until grep -q \"{words}\" {file}; do sleep 0.1; done'")
}

#[test]
fn operation_that_does_not_end_is_told_and_can_be_cancelled() {
    let paused = checking("paused", "true");
    let paused = paused.replace("name: paused", "name: paused, annotations: {crossplane.io/paused: 'true'}");
    let plane = Plane::new()
        .with("stuck.yaml", &persistent("stuck"))
        .with("waited-for.yaml", &persistent("waited-for"))
        .with("paused.yaml", &paused);
    let said = ran(&plane, "run stuck.yaml --timeout 1s");
    assert!(said.contains("Operation `stuck` still runs after 1s") && said.contains("code 3"), "{said}");
    let said = ran(&plane, "retry stuck");
    assert!(said.contains("Operation `stuck` still runs") && said.contains("code 1"), "{said}");
    let said = ran(&plane, "logs stuck");
    assert!(said.contains("warning: FunctionInvocation: ") && said.contains("it does not hold"), "{said}");
    assert!(plane.says(&format!("{FERROPLANE} operation history")).contains("Running"));
    let said = ran(&plane, "cancel stuck");
    assert!(said.contains("Operation `stuck` deleted") && said.contains("code 0"), "{said}");
    assert_eq!(plane.says("kubectl get operations -o name"), "");

    let said = ran(&plane, "run paused.yaml --timeout 1s");
    assert!(said.contains("Operation `paused` is paused by the annotation `crossplane.io/paused`"), "{said}");
    assert!(said.contains("code 3"), "{said}");

    // A caller that waits is notified that another user has deleted it.
    let wait = until_file_says("said", "it does not hold");
    let said = plane.says(&format!(
        "{FERROPLANE} operation run waited-for.yaml > said 2>&1 & pid=$!; {wait}; {FERROPLANE} operation cancel waited-for; wait $pid; echo \"code $?\"; cat said"
    ));
    assert!(said.contains("Operation `waited-for` was deleted before it was done"), "{said}");
    assert!(said.contains("code 3"), "{said}");
}

#[test]
fn whoever_interrupts_a_run_is_told_that_the_operation_goes_on() {
    let plane = Plane::new().with("stuck.yaml", &persistent("stuck"));
    let wait = until_file_says("said", "it does not hold");
    let said = plane.says(&format!(
        "{FERROPLANE} operation run stuck.yaml > said 2>&1 & pid=$!; {wait}; kill -TERM $pid; wait $pid; echo \"code $?\"; cat said"
    ));
    assert!(
        said.contains("Operation `stuck` continues to run; `ferroplane operation cancel stuck` stops it"),
        "{said}"
    );
    assert!(said.contains("code 143"), "{said}");
    assert_eq!(plane.says("kubectl get operations -o name").trim(), "operation.ops.crossplane.io/stuck");
}

/// An operation whose step returns an ActionSet of its own, which runs this action.
fn backing_up(name: &str, action: &str) -> String {
    let action_set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet",
        "metadata": {"generateName": format!("{name}-"), "namespace": "default"},
        "spec": {"actions": [{"name": action, "blueprint": "b"}]},
    });
    let input = json!({"response": {"desired": {"resources": {"it": {"resource": action_set}}}}});
    manifest(
        "Operation",
        &format!("{{mode: Pipeline, pipeline: [{{step: work, functionRef: {{name: function-served}}, input: {input}}}]}}"),
    )
    .replace("name: o}", &format!("name: {name}}}"))
}

#[test]
fn run_of_an_operation_waits_for_its_action_set_and_ends_as_it_does() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(FunctionServer::start(|request| {
        let input = request.input.as_ref().unwrap().json().unwrap();
        Ok(from_json(&input["response"]).unwrap())
    }));
    let target = ("render.crossplane.io/runtime-development-target", server.address());
    let manifest = function(
        "function-served",
        &[("render.crossplane.io/runtime", "Development"), (target.0, &target.1)],
    );
    let condition = json!({
        "condition": "{{ eq .data.open \"yes\" }}",
        "objectReference": {"apiVersion": "v1", "resource": "configmaps", "name": "gate", "namespace": "default"},
    });
    let wait = json!({"func": "WaitV2", "name": "gate", "args": {"timeout": "5m", "conditions": {"anyOf": [condition]}}});
    let lost = json!({"func": "KubeOps", "name": "drop", "args": {"operation": "get", "objectReference": {
        "apiVersion": "v1", "resource": "configmaps", "name": "nothing", "namespace": "default",
    }}});
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b", "namespace": "default"},
        "actions": {"good": {"phases": [wait]}, "bad": {"phases": [lost]}},
    });
    let plane = Plane::start(tempfile::TempDir::new().unwrap(), &["--in-memory"])
        .with("function.yaml", &manifest)
        .with("blueprint.yaml", &blueprint.to_string())
        .with("good.yaml", &backing_up("good", "good"))
        .with("bad.yaml", &backing_up("bad", "bad"));
    plane.says("kubectl apply -f function.yaml -f blueprint.yaml && kubectl create configmap gate --from-literal open=no");
    let said = ran(&plane, "run good.yaml --timeout 2s");
    assert!(said.contains("Waiting for ActionSet `default/good-"), "{said}");
    assert!(said.contains("Operation `good` still runs") && said.contains("code 3"), "{said}");
    let why = |name: &str| plane.says(&format!("{FERROPLANE} why operation/{name}; echo \"code $?\""));
    let told = why("good");
    assert!(told.starts_with("ActionSet default/good-") && told.contains("phase `gate` waits"), "{told}");
    plane.says("kubectl patch configmap gate --type=merge -p '{\"data\":{\"open\":\"yes\"}}'");
    plane.says("kubectl wait operation/good --for=condition=Succeeded=True --timeout=60s");
    let said = ran(&plane, "run bad.yaml");
    assert!(said.contains("Operation `bad` failed: ActionSet `default/bad-"), "{said}");
    assert!(said.contains("code 3"), "{said}");
    let told = why("bad");
    assert!(told.starts_with("ActionSet default/bad-") && told.contains("step `drop`"), "{told}");
    runtime.shutdown_background();
}

#[test]
fn schedule_is_run_now_listed_and_asked_for_its_next_times() {
    let plane = Plane::new()
        .with("nightly.yaml", &scheduled("nightly", "0 3 * * *"))
        .with("often.yaml", &scheduled("often", "@every 1s"))
        .with("good.yaml", &checking("good", "true"));
    let said = ran(&plane, "run nightly.yaml");
    assert!(said.contains("Operation `nightly-") && said.contains("code 0"), "{said}");
    plane.says("kubectl apply -f nightly.yaml -f often.yaml");
    // What a person ran is not one of its own.
    let said = ran(&plane, "history cronoperation/nightly");
    assert!(said.contains("CronOperation `nightly` has made no operations that are still kept"), "{said}");
    let next = format!("{FERROPLANE} operation next nightly --count 1 --after 2026-01-01T00:00:00Z");
    let said = plane.says(&next);
    assert!(said.starts_with("Thu 2026-01-01 03:00:00 +01:00   2026-01-01T02:00:00Z   "), "{said}");
    let said = ran(&plane, "next nobody");
    assert!(said.contains("there is no CronOperation `nobody`") && said.contains("code 1"), "{said}");

    plane
        .says("kubectl wait cronoperation/often --for=jsonpath='{.status.lastSuccessfulTime}' --timeout=60s");
    let rows = plane.says(&format!("{FERROPLANE} operation history cronoperation/often"));
    let mut rows = rows.lines();
    assert!(rows.next().unwrap().starts_with("NAME"));
    let made: Vec<_> = rows.collect();
    assert!(!made.is_empty() && made.iter().all(|row| row.contains("CronOperation/often")), "{made:?}");
    assert!(made.iter().any(|row| row.contains("Succeeded")), "{made:?}");

    // One of its operations may be under way, which is not ready.
    let tree = plane.says(&format!("{FERROPLANE} trace cronoperation/often || test $? = 3"));
    assert!(tree.contains("CronOperation/often") && tree.contains("─ Operation/often-"), "{tree}");

    let said = ran(&plane, "run good.yaml --no-wait");
    assert!(said.contains("Operation `good` created") && !said.contains("succeeded"), "{said}");
    plane.says("kubectl wait operation/good --for=condition=Succeeded --timeout=60s");
}
