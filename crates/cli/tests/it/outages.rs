//! Commands that follow an object while the API server ends and is started again.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use ferroplane_testkit::free_port;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::actionset::{PATIENT, created};
use crate::operations::checking;
use crate::plane::{Plane, ferroplane};

const FERROPLANE: &str = env!("CARGO_BIN_EXE_ferroplane");

/// A control plane at an address that the next one on the same directory can have, too.
fn start_at(port: u16, directory: TempDir) -> Plane {
    let address = format!("127.0.0.1:{port}");
    let arguments = ["up", "--listen", &address, "--kubeconfig", "kubeconfig", "--data-dir", "data"];
    let command = ferroplane(directory.path(), &arguments);
    Plane::run_by(directory, command)
}

/// Kill a control plane. Returns its directory.
fn kill(mut plane: Plane) -> TempDir {
    plane.signal(Signal::KILL);
    plane.end();
    plane.into_directory()
}

/// Start a command that runs while planes come and go, and writes what it says, and its exit code, to the file `said`.
fn start(plane: &Plane, arguments: &str) -> Child {
    let line = format!("{FERROPLANE} {arguments} > said 2>&1; echo \"code $?\" >> said");
    plane.shell(&line).spawn().unwrap()
}

/// Wait until the command has said this.
fn until_said(directory: &Path, words: &str) {
    let began = Instant::now();
    loop {
        let said = std::fs::read_to_string(directory.join("said")).unwrap_or_default();
        if said.contains(words) {
            return;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{words:?} is not in: {said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the command has said, once it has ended.
fn said(mut command: Child, directory: &Path) -> String {
    command.wait().unwrap();
    std::fs::read_to_string(directory.join("said")).unwrap()
}

/// An operation that succeeds once its annotation is removed.
fn paused() -> String {
    let operation = checking("paused", "true");
    operation.replace("name: paused", "name: paused, annotations: {crossplane.io/paused: 'true'}")
}

#[test]
fn operation_is_followed_across_a_restart_of_the_api_server() {
    let port = free_port();
    let plane = start_at(port, TempDir::new().unwrap()).with("paused.yaml", &paused());
    let command = start(&plane, "operation run paused.yaml");
    until_said(&plane.path(""), "Operation `paused` created");
    let directory = kill(plane);
    until_said(directory.path(), "warning: the API server does not answer: ");
    let plane = start_at(port, directory);
    until_said(&plane.path(""), "note: the API server answers again, after ");
    plane.says("kubectl annotate operation paused crossplane.io/paused-");
    let said = said(command, &plane.path(""));
    assert!(said.contains("Operation `paused` succeeded") && said.contains("code 0"), "{said}");
}

#[test]
fn action_set_is_followed_across_a_restart_of_the_api_server() {
    let port = free_port();
    let plane = start_at(port, TempDir::new().unwrap()).with("patient.yaml", PATIENT);
    plane.says("kubectl apply -f patient.yaml");
    let name = created(&plane.says(&format!("{FERROPLANE} actionset create -n default -a wait -b patient")));
    plane.says(&format!(
        "kubectl wait actionset/{name} -n default --for=jsonpath='{{.status.state}}'=running --timeout=60s"
    ));
    let command = start(&plane, &format!("actionset logs {name} -n default --follow"));
    // It has been read at least once when its events are printed.
    until_said(&plane.path(""), "StartedPhase");
    let directory = kill(plane);
    until_said(directory.path(), "warning: the API server does not answer: ");
    let plane = start_at(port, directory);
    until_said(&plane.path(""), "note: the API server answers again, after ");
    plane.says(&format!("{FERROPLANE} actionset cancel {name} -n default"));
    let said = said(command, &plane.path(""));
    assert!(said.contains("cancelled") && said.contains("code 3"), "{said}");
}

#[test]
fn operation_that_cannot_be_followed_any_longer_is_an_error_of_its_own() {
    let plane = start_at(free_port(), TempDir::new().unwrap()).with("paused.yaml", &paused());
    let command = start(&plane, "operation run paused.yaml --timeout 10s");
    until_said(&plane.path(""), "Operation `paused` created");
    let directory = kill(plane);
    let said = said(command, directory.path());
    assert!(said.contains("warning: the API server does not answer: "), "{said}");
    assert!(said.contains("error: cannot follow Operation `paused`, which may still run: "), "{said}");
    assert!(said.contains("code 1"), "{said}");
}

#[test]
fn server_that_never_answered_is_not_waited_for() {
    let port = free_port();
    let plane = start_at(port, TempDir::new().unwrap());
    let directory = kill(plane);
    let began = Instant::now();
    let line = ["actionset", "logs", "a", "-n", "default", "--follow", "--kubeconfig", "kubeconfig"];
    let output = ferroplane(directory.path(), &line).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot read ActionSet `a`") && !said.contains("trying again"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(25), "it waited for an outage to end");
}
