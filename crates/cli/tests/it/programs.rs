//! `ferroplane up --allow-commands`: programs that files name are run, and no others.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ferroplane_testkit::{FunctionServer, Versions};
use ferroplane_wire::from_json;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tonic::Status;

use crate::peers::peer;
use crate::plane::Plane;
use crate::sandbox::{Sandbox, composition, started};

const XRD: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: apps.example.org}
spec:
  group: example.org
  names: {kind: App, plural: apps}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}
";
const XR: &str = "
apiVersion: example.org/v1
kind: App
metadata: {name: app, namespace: default}
spec: {}
";
/// What the function composes is the text of this file, which is one of the program's own.
const TEXT: &str = "manifests/text.src";
const FLAGS: &[&str] = &["manifests", "--in-memory", "--watch", "--allow-commands"];

/// The program that the control plane starts. A test cannot find the binaries of another package, so this one runs itself.
#[test]
#[ignore = "it is the program that other tests start"]
fn program() {
    let Ok(address) = std::env::var("FUNCTION_ADDRESS") else { return };
    serve(&address);
}

#[tokio::main]
async fn serve(address: &str) {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let text = std::fs::read_to_string("text.src").unwrap();
    if text == "broken" {
        eprintln!("there is a mistake in text.src");
        std::process::exit(3);
    }
    if text == "waits" {
        // Never listens, so that the process that started it waits.
        std::fs::write("waits.tmp", std::process::id().to_string()).unwrap();
        std::fs::rename("waits.tmp", "waits.pid").unwrap();
        terminated.recv().await;
        return;
    }
    let line = format!("serves {text} as {}", std::process::id());
    let mut answer = json!({"desired": {"resources": {"map": {
        "resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text}}, "ready": "READY_TRUE",
    }}}});
    if text == "fatal" {
        eprintln!("expect the worst");
        answer = json!({"results": [{"severity": "SEVERITY_FATAL", "message": "it is so"}]});
    }
    if text == "error" {
        eprintln!("a stack trace");
        answer = Value::Null;
    }
    let respond = move |_| match &answer {
        Value::Null => Err(Status::unknown("it does not know why")),
        answer => Ok(from_json(answer).unwrap()),
    };
    let _server = FunctionServer::serve(address, Versions::Both, None, respond).await;
    println!("{line}");
    terminated.recv().await;
    println!("ends cleanly");
}

/// The command that runs [`program`].
fn command() -> String {
    let binary = std::env::current_exe().unwrap();
    let binary = binary.display();
    format!(
        "env FUNCTION_ADDRESS={{address}} '{binary}' --exact programs::program --ignored --nocapture text.src"
    )
}

#[test]
fn what_a_program_printed_is_shown_after_its_fatal_result() {
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "mine", "")]))
        .with("functions.yaml", &started("mine", &command()))
        .with("text.src", "fatal");
    let said = sandbox.render(&["--allow-commands"]).fails_with(3);
    assert!(said.contains("returned a fatal result: it is so; it said:\n"), "{said}");
    assert!(said.contains("expect the worst"), "{said}");
}

#[test]
fn what_a_program_printed_is_shown_after_its_error() {
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "mine", "")]))
        .with("functions.yaml", &started("mine", &command()))
        .with("text.src", "error");
    let said = sandbox.render(&["--allow-commands"]).fails_with(1);
    assert!(said.contains("failed with Unknown: it does not know why; it said:"), "{said}");
    assert!(said.contains("a stack trace"), "{said}");
}

#[test]
fn program_ends_with_a_render_that_is_killed() {
    for how in [Signal::TERM, Signal::KILL] {
        let sandbox = Sandbox::new()
            .with("composition.yaml", &composition(&[("one", "mine", "")]))
            .with("functions.yaml", &started("mine", &command()))
            .with("text.src", "waits");
        let arguments = ["render", "xr.yaml", "composition.yaml", "functions.yaml", "--allow-commands"];
        let mut render = sandbox.command(&arguments);
        let mut rendering = render.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let noted = sandbox.path("waits.pid");
        let process = until(|| std::fs::read_to_string(&noted).ok()?.parse().ok().and_then(Pid::from_raw));
        kill_process(Pid::from_child(&rendering), how).unwrap();
        rendering.wait().unwrap();
        until_it_is_gone(process);
    }
}

/// Waits until there is something.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "nothing came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    std::fs::create_dir(directory.path().join("manifests")).unwrap();
    write("manifests/xrd.yaml", XRD);
    write("manifests/composition.yaml", &composition(&[("compose", "mine", "")]));
    write("manifests/function.yaml", &started("mine", &command()));
    write("manifests/xr.yaml", XR);
    write(TEXT, "one");
    directory
}

/// Waits until the program serves this text, and says which process does.
fn until_it_serves(plane: &Plane, text: &str) -> Pid {
    let words = format!("serves {text} as ");
    let said = plane.until(&words);
    assert!(said.contains("mine"), "the name of the function is missing: {said}");
    let number = said.split(&words).nth(1).unwrap();
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

fn until_it_is_gone(process: Pid) {
    let began = Instant::now();
    while test_kill_process(process).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "{process:?} lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wait_for_text(plane: &Plane, text: &str) {
    let map = "configmap -l crossplane.io/composite=app";
    plane.says(&format!("kubectl wait {map} --for=jsonpath='{{.data.text}}'={text} --timeout=60s"));
}

fn healthy(plane: &Plane) -> String {
    plane.says(
        "kubectl get function mine -o jsonpath='{.status.conditions[?(@.type==\"Healthy\")].reason}: {.status.conditions[?(@.type==\"Healthy\")].message}'",
    )
}

#[test]
fn program_is_run_and_restarted_when_its_files_change_and_when_it_ends() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::start(directory(), FLAGS);
    until_it_serves(&plane, "one");
    plane.says("kubectl wait app/app --for=create --timeout=60s");
    plane.says("kubectl wait app/app --for=condition=Ready --timeout=60s");
    wait_for_text(&plane, "one");
    assert!(healthy(&plane).starts_with("CommandRunning: "), "{}", healthy(&plane));

    std::fs::write(plane.path(TEXT), "other").unwrap();
    plane.until("ends cleanly");
    let process = until_it_serves(&plane, "other");
    wait_for_text(&plane, "other");

    kill_process(process, Signal::KILL).unwrap();
    until_it_serves(&plane, "other");
    plane.says("kubectl wait function/mine --for=condition=Healthy --timeout=60s");

    std::fs::write(plane.path(TEXT), "broken").unwrap();
    plane.says("kubectl wait function/mine --for=condition=Healthy=false --timeout=60s");
    assert!(healthy(&plane).contains("there is a mistake in text.src"), "{}", healthy(&plane));
    plane.says("kubectl wait app/app --for=condition=Synced=false --timeout=60s");
    std::fs::write(plane.path(TEXT), "mended").unwrap();
    wait_for_text(&plane, "mended");
}

#[test]
fn program_ends_with_the_control_plane_even_if_that_is_killed() {
    for how in [Signal::TERM, Signal::KILL] {
        let mut plane = Plane::start(directory(), FLAGS);
        let process = until_it_serves(&plane, "one");
        plane.signal(how);
        plane.end();
        until_it_is_gone(process);
    }
}

#[test]
fn command_that_comes_through_the_api_is_not_run() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::start(directory(), FLAGS);
    until_it_serves(&plane, "one");
    plane.says("kubectl wait function/mine --for=condition=Healthy --timeout=60s");
    let annotation = format!("render.ferroplane.io/command='touch {}'", plane.path("evil").display());
    plane.says(&format!("kubectl annotate function mine --overwrite {annotation}"));
    plane.says("kubectl wait function/mine --for=condition=Healthy=false --timeout=60s");
    let said = healthy(&plane);
    assert!(said.starts_with("CommandNotRun: ") && said.contains("--allow-commands"), "{said}");
    plane.says("kubectl wait app/app --for=condition=Synced=false --timeout=60s");
    let told =
        plane.says("kubectl get app app -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'");
    assert!(told.contains("is not run"), "{told}");
    assert!(!Path::new(&plane.path("evil")).exists());
}

#[test]
fn command_is_not_run_unless_that_is_allowed() {
    let plane = Plane::start(directory(), &["manifests", "--in-memory"]);
    let said = plane.heard_until("applied: 4 created");
    let told =
        "warning: the command of function `mine` is not run; --allow-commands runs programs that files name";
    assert!(said.iter().any(|line| line == told), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("serves")), "{said:#?}");
}

/// A user who applies the manifests of another person applies their `AccessGrants`, too.
#[test]
fn grant_among_the_files_runs_nothing_without_a_container() {
    if peer("kubectl").is_none() {
        return;
    }
    // Nothing listens there: what is allowed fails when the image is pulled.
    let composition = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: app}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  functions: [{name: theirs, type: Chroot, chroot: {image: '127.0.0.1:1/theirs:v1'}}]
";
    let grant = "
apiVersion: ferroplane.io/v1alpha1
kind: AccessGrant
metadata: {name: theirs}
spec: {to: {namespaces: ['*']}, run: [{privileges: [Chroot], images: ['*']}]}
";
    let flag = "--allow-unisolated-functions";
    for (flags, is_allowed) in [(&[][..], false), (&[flag], true)] {
        let directory = TempDir::new().unwrap();
        std::fs::create_dir(directory.path().join("manifests")).unwrap();
        for (name, content) in [("xrd", XRD), ("composition", composition), ("grant", grant), ("xr", XR)] {
            std::fs::write(directory.path().join(format!("manifests/{name}.yaml")), content).unwrap();
        }
        let plane = Plane::start(directory, &[&["manifests", "--in-memory"], flags].concat());
        plane.until("applied: 4 created");
        let told = "kubectl get app app -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'";
        let said = plane.until_said(told, |said| said.contains("cannot run image `127.0.0.1:1/theirs"));
        assert_eq!(said.contains(flag), !is_allowed, "{said}");
    }
}
