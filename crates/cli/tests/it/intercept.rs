//! `ferroplane intercept`: a process on this machine answers for a function of `up`, and what comes of it is shown.

use std::future::{Ready, ready};
use std::path::Path;
use std::time::{Duration, Instant};

use ferroplane_testkit::{FunctionServer, Pki, Process, free_port};
use ferroplane_wire::from_json;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::Status;

use crate::peers::{peer, write_certificates};
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

/// How long a file may take to be written on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a process does that composes these resources.
pub(crate) fn answering(
    resources: &Value,
) -> impl Fn(RunFunctionRequest) -> Ready<Result<RunFunctionResponse, Status>> + Send + Sync + use<> {
    let answer = json!({"meta": {}, "desired": {"resources": resources}});
    move |_| ready(Ok(from_json(&answer).unwrap()))
}

/// What a process does that makes everything blue.
fn blue() -> impl Fn(RunFunctionRequest) -> Ready<Result<RunFunctionResponse, Status>> + Send + Sync + 'static
{
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "blue"}});
    answering(&json!({"a": {"resource": object, "ready": "READY_TRUE"}}))
}

fn start_process(runtime: &Runtime) -> FunctionServer {
    runtime.block_on(FunctionServer::start_async(blue()))
}

/// Wait for a file that is written by a program that runs.
pub(crate) fn until_written(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < PATIENCE, "there is no {}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A plane with two composite resources, which are red.
fn start_plane() -> Plane {
    set_up(Plane::new())
}

fn set_up(plane: Plane) -> Plane {
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
fn intercept_for_real(plane: &Plane, to: &str, more: &[&str]) -> Process {
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
    command.args(more);
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
        let mut command = intercept_for_real(&plane, &to, &[]);
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

#[test]
fn process_is_called_over_mtls_where_the_plane_has_a_certificate_for_it() {
    let Some(_) = peer("kubectl") else { return };
    let runtime = Runtime::new().unwrap();
    let directory = TempDir::new().unwrap();
    write_certificates(&Pki::new(), &directory.path().join("client"));
    let flags = ["--data-dir", "data", "--tls-client-certs-dir", "client"];
    let plane = set_up(Plane::start(directory, &flags));
    let port = free_port();
    let mut command = intercept_for_real(&plane, &format!("localhost:{port}"), &["--tls-dir", "certs"]);
    let certificates = plane.path("certs");
    until_written(&certificates.join("ca.crt"));
    let address = format!("127.0.0.1:{port}");
    let server = runtime.block_on(FunctionServer::serve_from(&address, &certificates, blue()));
    until_color(&plane, "one", "blue");
    assert!(server.calls() > 0);
    command.signal(Signal::INT);
    assert!(command.wait().success());
    until_color(&plane, "one", "red");
}

#[test]
fn plane_without_a_certificate_refuses_mtls_and_names_the_flag() {
    let Some(_) = peer("kubectl") else { return };
    let plane = start_plane();
    let secure = "intercept function/function-dummy --xr acmebucket/one --to localhost:1 --tls-dir certs";
    let refused = plane.fails(&format!("{FERROPLANE} {secure}"), "");
    let words = "the control plane refuses: there is no client certificate to call it with: name a directory with \
                 --tls-client-certs-dir";
    assert!(refused.contains(words), "{refused}");
    assert_eq!(plane.says("kubectl get functionintercepts -o name"), "", "nothing of it is left");
}
