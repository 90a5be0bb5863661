//! Functions that run as processes, where the machine runs no containers.
//!
//! The container runtimes are hidden from the control plane by mounts that only it sees, which takes root.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_image::Execution;
use ferroplane_image::build::Layer;
use rustix::process::Signal;
use tempfile::TempDir;

use super::images::TestImage;
use super::registry::TestRegistry;
use super::served::META;
use crate::logs::{PLATFORM, THING};
use crate::peers::peer;
use crate::plane::Plane;

/// The program of the server, by which its process is found.
const PROGRAM: &str = "server-without-container";
const PATIENCE: Duration = Duration::from_mins(1);
/// Hides the runtimes, and becomes what its arguments say.
const HIDE: &str = "for place in /usr/bin /usr/sbin /usr/local/bin; do for name in crun runc; do \
    if [ -e $place/$name ]; then mount --bind /dev/null $place/$name || exit 1; fi; done; done; exec \"$@\"";

/// A command where no container runtime is found.
fn without_runtimes(command: &[&str]) -> Command {
    let mut hidden = Command::new("unshare");
    hidden.args(["-m", "sh", "-c", HIDE, "sh"]).args(command);
    hidden.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    hidden
}

/// Whether runtimes can be hidden here. Says so if not.
pub(crate) fn can_hide_runtimes() -> bool {
    let hidden = without_runtimes(&["true"]).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    if !hidden {
        let _ = writeln!(std::io::stderr(), "skipped: container runtimes cannot be hidden without root");
    }
    hidden
}

/// A control plane that finds no container runtime.
pub(crate) fn start_without_runtimes(directory: TempDir, flags: &[&str]) -> Plane {
    let up =
        [env!("CARGO_BIN_EXE_ferroplane"), "up", "--listen", "127.0.0.1:0", "--kubeconfig", "kubeconfig"];
    let mut command = without_runtimes(&[&up[..], &["--data-dir", "data"], flags].concat());
    command.current_dir(directory.path()).env("HOME", directory.path());
    command.env("RECORDING_ADDRESS", "127.0.0.1:0");
    Plane::run_by(directory, command)
}

/// A package whose program is added by this.
fn package(add: impl FnOnce(&mut Layer)) -> TestImage {
    let mut program = Layer::new();
    add(&mut program);
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(META.as_bytes().to_vec(), "package.yaml", false).unwrap();
    let execution = Execution { entrypoint: Some(vec![format!("/{PROGRAM}")]), ..Execution::default() };
    TestImage::of(vec![program, manifests], execution)
}

fn install(plane: &Plane, name: &str, image: &str) {
    let function = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: {name}}}\nspec: {{package: '{image}'}}\n"
    );
    plane.told("kubectl apply -f -", &function);
}

/// Wait until the runtime of a Function's revision says this, and return all that it says.
fn until_said(plane: &Plane, function: &str, words: &str) -> String {
    let told = format!(
        "kubectl get functionrevisions -l pkg.crossplane.io/package={function} \
         -o jsonpath='{{.items[0].status.conditions[?(@.type==\"RuntimeHealthy\")].message}}'"
    );
    plane.says(&format!(
        "for try in $(seq 300); do {told} | grep -qF -e '{words}' && exit 0; sleep 0.2; done; {told}; exit 1"
    ));
    plane.says(&told)
}

/// The command lines of the processes of a program.
pub(super) fn running(program: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.starts_with(&format!("/{program} "))).collect()
}

/// Wait until no process of a program runs.
pub(super) fn until_ended(program: &str) {
    let began = Instant::now();
    while !running(program).is_empty() {
        assert!(began.elapsed() < PATIENCE, "{:?}", running(program));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn push(registry: &TestRegistry, server: &Path) -> [String; 2] {
    let executable = package(|layer| layer.add_file(server, PROGRAM).unwrap());
    let script = package(|layer| layer.add_bytes(b"#!/bin/sh\nexit 0\n".to_vec(), PROGRAM, true).unwrap());
    [registry.push(&executable, "acme/process:v1"), registry.push(&script, "acme/script:v1")]
}

#[test]
fn static_executable_runs_as_a_process_if_that_is_allowed_and_ends_with_a_killed_plane() {
    let (Some(auto_ready), Some(_)) = (peer("function-auto-ready"), peer("kubectl")) else { return };
    let Some(registry) = TestRegistry::start(false).filter(|_| can_hide_runtimes()) else { return };
    let [executable, script] = push(&registry, &auto_ready);

    let plane = start_without_runtimes(TempDir::new().unwrap(), &[]);
    install(&plane, "program", &executable);
    let said = until_said(&plane, "program", "--allow-unisolated-functions");
    assert!(said.starts_with("cannot run containers: neither `crun` nor `runc`"), "{said}");
    assert_eq!(running(PROGRAM), [""; 0]);

    let mut plane = start_without_runtimes(plane.stop(), &["--allow-unisolated-functions"]);
    plane.says("kubectl wait function/program --for=condition=Healthy --timeout=120s");
    let said = until_said(&plane, "program", "Runs as a process of this machine");
    assert!(said.contains("; not isolated: it has the network of this machine, and"), "{said}");
    assert!(said.contains("neither `crun` nor `runc`"), "{said}");
    let commands = running(PROGRAM);
    assert!(commands.len() == 1 && commands[0].contains("--address=127.0.0.1:"), "{commands:?}");
    assert!(!commands[0].contains("--insecure"), "{commands:?}");
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");

    install(&plane, "script", &script);
    let said = until_said(&plane, "script", "it is a script");
    assert!(said.starts_with(&format!("cannot run `/{PROGRAM}` of the image as a process")), "{said}");

    plane.signal(Signal::KILL);
    plane.end();
    until_ended(PROGRAM);
}
