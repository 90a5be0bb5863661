//! `ferroplane up --demo`: what a newcomer sees, and whether what it says is true.

use std::process::{Command, Stdio};

use ferroplane_testkit::free_ports;
use tempfile::TempDir;

use crate::containers::processes::{can_hide_runtimes, start_without_runtimes};
use crate::peers::peer;
use crate::plane::{Plane, ferroplane};
use crate::sandbox::Ran;

const DEMO: &[&str] = &["--data-dir", "data", "--demo"];
/// What is said last.
const LAST: &str = "The manifests are in examples/demo";
/// The versions of everything in the demo.
const VERSIONS: &str = "kubectl get xrd,composition,compositionrevision,crd,composite,managed,cronoperation -A \
                        -o jsonpath='{range .items[*]}{.kind}/{.metadata.name}={.metadata.resourceVersion} {end}'";

/// The commands among what was said.
fn commands(said: &[String]) -> Vec<&str> {
    let indented = said.iter().filter_map(|line| line.strip_prefix("    "));
    indented.filter(|line| line.starts_with("kubectl ") || line.starts_with("export ")).collect()
}

/// Runs the lines as who copies them into a terminal of their own.
fn follow(plane: &Plane, lines: &[&str]) -> String {
    plane.says(&format!("unset KUBECONFIG\nset -ex\n{}", lines.join("\n")))
}

fn start_at(port: u16, directory: TempDir) -> Plane {
    let address = format!("127.0.0.1:{port}");
    let arguments = ["up", "--listen", &address, "--kubeconfig", "kubeconfig"];
    let mut command = ferroplane(directory.path(), &arguments);
    command.args(DEMO);
    Plane::run_by(directory, command)
}

/// How often anything at all was written.
fn revision(plane: &Plane) -> String {
    let list = plane.says("kubectl get --raw '/api/v1/namespaces?limit=1'");
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[test]
fn every_line_that_is_printed_works() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::start(TempDir::new().unwrap(), DEMO);
    let said = plane.heard_until(LAST);
    assert!(said.iter().any(|line| line.contains("the demo is ready")), "{said:#?}");
    let tree = said.iter().filter(|line| line.contains("True    True")).count();
    assert_eq!(tree, 8, "{said:#?}");

    let lines = commands(&said);
    assert!(lines.len() >= 14, "{lines:#?}");
    let seen = follow(&plane, &lines);
    assert!(seen.contains("database.cloud.demo.ferroplane.io \"payments\" deleted"), "{seen}");
    plane.says(
        "kubectl wait database/orders --for=jsonpath='{.status.atProvider.storageGB}'=100 --timeout=60s",
    );
    assert_eq!(plane.says("kubectl get backends -o jsonpath='{.items[*].spec.size}'"), "medium medium");
    let outputs =
        plane.says("kubectl get operations -o jsonpath='{.items[*].status.pipeline[0].output.state}'");
    assert!(outputs.contains("Upgrading"), "{outputs}");
    assert_eq!(
        plane.says("kubectl get backend orders -o jsonpath={.status.endpoint}"),
        "orders.eu-north.db.demo:5432"
    );
}

#[test]
fn demo_is_still_there_after_a_restart_and_writes_nothing() {
    if peer("kubectl").is_none() {
        return;
    }
    // Where the API server is, is recorded on it: at another port, a start has something to write.
    let [port] = free_ports();
    let plane = start_at(port, TempDir::new().unwrap());
    plane.heard_until(LAST);
    plane.says("kubectl create configmap mine");
    // A start may write what is its own; the second one has nothing left to say.
    let plane = start_at(port, plane.stop());
    plane.heard_until(LAST);
    let before = (plane.says(VERSIONS), revision(&plane));
    let plane = start_at(port, plane.stop());
    let said = plane.heard_until(LAST);
    assert!(said.iter().any(|line| line.contains("nothing was written")), "{said:#?}");
    assert_eq!((plane.says(VERSIONS), revision(&plane)), before);
    plane.says("kubectl get configmap mine");
}

#[test]
fn demo_whose_cloud_is_not_simulated_says_so_and_can_be_removed() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::start(TempDir::new().unwrap(), DEMO);
    plane.heard_until(LAST);
    let plane = Plane::start(plane.stop(), &["--data-dir", "data"]);
    let said = plane.heard_until("# removes it");
    assert!(said.iter().any(|line| line.contains("its cloud is not simulated")), "{said:#?}");
    let removal = said.last().unwrap().trim();
    assert!(removal.starts_with("kubectl delete "), "{removal}");
    plane.says(removal);
    let left = plane.says("kubectl get cronoperation,xrd,composition,crd -l ferroplane.io/demo -o name");
    assert_eq!(left, "");
    plane.fails("kubectl get backends", "");
}

#[test]
fn what_was_deleted_of_the_demo_is_back_after_a_restart() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::start(TempDir::new().unwrap(), DEMO);
    plane.heard_until(LAST);
    plane.says("kubectl patch backend payments --type=merge -p '{\"spec\":{\"size\":\"medium\"}}'");
    plane.says("kubectl delete backend orders");
    let plane = Plane::start(plane.stop(), DEMO);
    let said = plane.heard_until(LAST);
    assert!(said.iter().any(|line| line.contains("missing objects were restored")), "{said:#?}");
    plane.says("kubectl wait backend --all --for=condition=Ready");
    assert_eq!(plane.says("kubectl get backend payments -o jsonpath={.spec.size}"), "medium");
}

#[test]
fn demo_without_controllers_makes_no_sense() {
    let directory = TempDir::new().unwrap();
    let mut command = ferroplane(directory.path(), &["up", "--demo", "--no-controllers", "--in-memory"]);
    let said = Ran::from(command.output().unwrap()).fails_with(2);
    assert!(said.contains("leave out --no-controllers"), "{said}");
}

#[test]
fn demo_needs_no_container_runtime() {
    if !can_hide_runtimes() {
        return;
    }
    let plane = start_without_runtimes(TempDir::new().unwrap(), &["--demo"]);
    let said = plane.heard_until(LAST);
    assert!(said.iter().any(|line| line.contains("the demo is ready")), "{said:#?}");
}

#[test]
fn demo_needs_no_network() {
    let alone = ["-rn", "sh", "-c"];
    let can = Command::new("unshare").args(alone).arg("ip link set lo up").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine lets nobody have a network of their own (unshare -rn, ip)");
        return;
    }
    let directory = TempDir::new().unwrap();
    let line = "ip link set lo up && test -z \"$(ip route)\" && exec \"$0\" up --demo --in-memory --listen 127.0.0.1:0";
    let mut command = Command::new("unshare");
    command.args(alone).arg(line).arg(ferroplane(directory.path(), &[]).get_program());
    command.current_dir(directory.path()).env("HOME", directory.path()).stdin(Stdio::null());
    let plane = Plane::run_by(directory, command);
    let said = plane.heard_until(LAST);
    assert!(said.iter().any(|line| line.contains("the demo is ready")), "{said:#?}");
}
