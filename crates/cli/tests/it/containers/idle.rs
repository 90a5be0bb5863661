//! Functions that are started when they are called, and stopped when nothing calls them any more.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::images::machine;
use super::registry::TestRegistry;
use crate::logs::{PLATFORM, THING, package};
use crate::peers::peer;
use crate::plane::Plane;

/// The program of the server, by which its process is found.
const PROGRAM: &str = "server-that-may-be-idle";
const PATIENCE: Duration = Duration::from_mins(2);

/// Whether the server runs. Processes of containers are seen from outside.
fn runs() -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands.any(|command| String::from_utf8_lossy(&command).starts_with(&format!("/{PROGRAM}\0")))
}

fn wait_until_it_runs(expected: bool) {
    let began = Instant::now();
    while runs() != expected {
        assert!(began.elapsed() < PATIENCE, "it runs: {}", !expected);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn server_with_an_idle_timeout_runs_only_while_it_is_called() {
    let (Some(machine), Some(_)) = (machine(), peer("kubectl")) else { return };
    let (Some(auto_ready), Some(registry)) = (peer("function-auto-ready"), TestRegistry::start(false)) else {
        return;
    };
    let mut layer = machine.layer();
    layer.add_file(&auto_ready, PROGRAM).unwrap();
    let image = package(layer, &format!("echo starts; exec /{PROGRAM} \"$@\""), "");
    let image = registry.push(&image, "acme/idle:v1");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    let function = |idle: &str| {
        format!(
            "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: program, annotations: {{ferroplane.io/idle-timeout: {idle}}}}}\n\
             spec: {{package: '{image}'}}\n"
        )
    };
    let told = "kubectl get functionrevisions -o jsonpath='{.items[0].status.conditions[?(@.type==\"RuntimeHealthy\")].message}'";
    plane.told("kubectl apply -f -", &function("soon"));
    plane.says("kubectl wait function/program --for=condition=Healthy=false --timeout=120s");
    plane.says(&format!("for try in $(seq 300); do {told} | grep -qF 'expected a duration such as 10m' && exit 0; sleep 0.2; done; {told}; exit 1"));
    plane.told("kubectl apply -f -", &function("1s"));
    plane.says("kubectl wait function/program --for=condition=Healthy --timeout=120s");
    let message = plane.says(told);
    assert!(message.ends_with("when it is called, until it has not been called for 1s"), "{message}");
    assert!(!runs());

    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    let starts = format!("{} logs function/program | grep -c starts", env!("CARGO_BIN_EXE_ferroplane"));
    assert_eq!(plane.says(&starts).trim(), "1");
    wait_until_it_runs(false);
    plane.says("kubectl annotate thing/a look=again");
    plane.says(&format!("for try in $(seq 300); do test $({starts}) = 2 && exit 0; sleep 0.2; done; exit 1"));
    wait_until_it_runs(false);
    plane.stop();
}
