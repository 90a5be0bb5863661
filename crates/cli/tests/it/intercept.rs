//! `ferroplane intercept`: a process on this machine answers for a function of `up`, and what comes of it is shown.

use std::path::Path;

use ferroplane_testkit::{FunctionServer, Process};
use ferroplane_wire::from_json;
use rustix::process::Signal;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::peers::peer;
use crate::plane::Plane;
use crate::rollout::DEFINITION;

const FERROPLANE: &str = env!("CARGO_BIN_EXE_ferroplane");

const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: example}
spec:
  compositeTypeRef: {apiVersion: custom-api.example.org/v1alpha1, kind: AcmeBucket}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-dummy}
    input:
      apiVersion: dummy.fn.crossplane.io/v1beta1
      kind: Response
      response:
        desired:
          resources:
            a: {resource: {apiVersion: v1, kind: ConfigMap, data: {color: red}}, ready: READY_TRUE}
---
apiVersion: custom-api.example.org/v1alpha1
kind: AcmeBucket
metadata: {name: one, namespace: default}
spec: {}
---
apiVersion: custom-api.example.org/v1alpha1
kind: AcmeBucket
metadata: {name: other, namespace: default}
spec: {}
";

/// A process that makes everything blue.
fn start_process(runtime: &Runtime) -> FunctionServer {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "blue"}});
    let resources = json!({"a": {"resource": object, "ready": "READY_TRUE"}});
    let answer = json!({"meta": {}, "desired": {"resources": resources}});
    runtime.block_on(FunctionServer::start(move |_| Ok(from_json(&answer).unwrap())))
}

/// A plane with two composite resources, which are red.
fn start_plane() -> Plane {
    let plane = Plane::new();
    plane.told("kubectl apply -f -", DEFINITION);
    plane.says(
        "kubectl wait xrd/acmebuckets.custom-api.example.org --for=condition=Established --timeout=60s",
    );
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait acmebuckets --all --for=condition=Ready --timeout=60s");
    plane
}

fn color_of(name: &str) -> String {
    format!("kubectl get configmaps -l crossplane.io/composite={name} -o jsonpath={{.items[*].data.color}}")
}

fn until_color(plane: &Plane, name: &str, color: &str) {
    let said = color_of(name);
    plane.says(&format!("timeout 60 sh -c 'until [ \"$({said})\" = {color} ]; do sleep 0.2; done'"));
}

/// Have the process answer for real, until the command ends.
fn intercept_for_real(plane: &Plane, to: &str) -> Process {
    let mut command = plane.client(Path::new(FERROPLANE));
    command.args([
        "intercept",
        "function/function-dummy",
        "--xr",
        "acmebucket/one",
        "--to",
        to,
        "--for-real",
    ]);
    Process::spawn(command)
}

#[test]
fn process_in_the_shadow_is_compared_and_changes_nothing() {
    let Some(_) = peer("kubectl") else { return };
    let runtime = Runtime::new().unwrap();
    let (process, plane) = (start_process(&runtime), start_plane());
    let to = process.address();
    let said = plane.says(&format!(
        "{FERROPLANE} intercept function/function-dummy --xr acmebucket/one --to {to} --once; test $? = 3"
    ));
    assert!(said.contains("AcmeBucket/one in default: Changed"), "{said}");
    assert!(said.contains("data.color: \"red\" → \"blue\""), "{said}");
    assert_eq!(plane.says(&color_of("one")), "red");
    assert_eq!(plane.says("kubectl get functionintercepts -o name"), "", "nothing of it is left");
    let refused = plane.fails(
        &format!("{FERROPLANE} intercept function/function-dummy --xr acmebucket/none --to {to} --once"),
        "",
    );
    assert!(refused.contains("there is no AcmeBucket `none`"), "{refused}");
}

#[test]
fn labels_select_the_composite_resources_whose_calls_are_sent() {
    let Some(_) = peer("kubectl") else { return };
    let runtime = Runtime::new().unwrap();
    let (process, plane) = (start_process(&runtime), start_plane());
    let to = process.address();
    let selected = format!(
        "{FERROPLANE} intercept function/function-dummy --xr acmebucket --selector tier=canary --to {to} --once"
    );
    let refused = plane.fails(&selected, "");
    assert!(refused.contains("no AcmeBucket has these labels"), "{refused}");
    plane.says("kubectl label acmebucket one tier=canary");
    plane.says("kubectl label acmebucket other tier=gold");
    let said = plane.says(&format!("{selected}; test $? = 3"));
    assert!(said.contains("AcmeBucket/one in default: Changed"), "{said}");
    assert!(!said.contains("AcmeBucket/other"), "{said}");
    // For real, only the calls of those are sent.
    let mut command = plane.client(Path::new(FERROPLANE));
    let arguments = ["--xr", "acmebucket", "--selector", "tier=gold", "--to", &to, "--for-real"];
    command.args(["intercept", "function/function-dummy"]).args(arguments);
    let mut command = Process::spawn(command);
    until_color(&plane, "other", "blue");
    assert_eq!(plane.says(&color_of("one")), "red");
    command.signal(Signal::INT);
    assert!(command.wait().success());
    until_color(&plane, "other", "red");
}

#[test]
fn process_counts_for_real_until_the_command_ends_or_is_killed() {
    let Some(_) = peer("kubectl") else { return };
    let runtime = Runtime::new().unwrap();
    let (process, plane) = (start_process(&runtime), start_plane());
    let to = process.address();
    for signal in [Signal::INT, Signal::KILL] {
        let mut command = intercept_for_real(&plane, &to);
        until_color(&plane, "one", "blue");
        let ran = "kubectl get acmebucket one -o jsonpath={.status.ferroplane.functions[0].revision}";
        let ran = plane.says(ran);
        assert!(ran.starts_with("function-dummy@intercept/"), "{ran}");
        assert_eq!(plane.says(&color_of("other")), "red", "nobody else's calls are sent");
        let line = plane.until("intercepted calls of a function");
        assert!(["function-dummy", &*to, "ForReal", "one"].iter().all(|word| line.contains(word)), "{line}");
        command.signal(signal);
        let status = command.wait();
        assert_eq!(status.success(), signal == Signal::INT, "{status}");
        until_color(&plane, "one", "red");
    }
    // Who made them is in the audit log of the API server.
    let is_logged = "grep -q functionintercepts data/audit.log";
    plane.says(&format!("timeout 60 sh -c 'until {is_logged}; do sleep 0.1; done'"));
}
