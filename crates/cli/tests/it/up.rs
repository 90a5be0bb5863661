//! `ferroplane up` as a process: how it starts, ends, starts again, and what it refuses.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::{Plane, ferroplane};
use crate::sandbox::Ran;

const DATA: &[&str] = &["--data-dir", "data"];

/// A start that does not succeed: what it says.
fn refused(directory: &TempDir, flags: &[&str]) -> String {
    let mut command = ferroplane(directory.path(), &["up"]);
    let ran = Ran::from(command.args(flags).output().unwrap());
    assert_ne!(ran.code, Some(0), "{ran:#?}");
    ran.stderr
}

#[test]
fn everything_is_there_after_a_restart_and_watches_go_on() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    plane.says("kubectl create cm kept --from-literal=a=b");
    let version = plane.says("kubectl get cm kept -o jsonpath={.metadata.resourceVersion}");
    plane.says("kubectl create cm later");
    let plane = Plane::start(plane.stop(), DATA);
    assert_eq!(plane.says("kubectl get cm kept -o jsonpath={.data.a}"), "b");
    let since =
        format!("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let seen = plane.says(&format!("kubectl get --raw '{since}'"));
    assert!(seen.starts_with("{\"type\":\"ADDED\"") && seen.contains("\"name\":\"later\""), "{seen}");
    assert!(!seen.contains("\"name\":\"kept\""), "{seen}");
}

#[test]
fn plane_that_is_to_outlive_its_terminal_does() {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_ferroplane")).args(["up", "--listen", "127.0.0.1:0", "--in-memory"]);
    command.args(["--kubeconfig", "kubeconfig"]).current_dir(directory.path()).env("HOME", directory.path());
    command.env("RECORDING_ADDRESS", "127.0.0.1:0").stdin(Stdio::null());
    let plane = Plane::run_by(directory, command);
    plane.signal(Signal::HUP);
    // Longer than a plane takes that was told to end.
    for _ in 0..5 {
        let mut trace = plane.client(std::path::Path::new(env!("CARGO_BIN_EXE_ferroplane")));
        let ran = Ran::from(trace.args(["trace", "namespace/default"]).output().unwrap());
        assert_ne!(ran.code, Some(1), "{ran:?}");
    }
    plane.stop();
}

#[test]
fn copied_kubeconfig_is_refused_once_it_is_revoked() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    plane.says("cp kubeconfig stolen");
    plane.says("kubectl --kubeconfig=stolen get namespaces");
    let directory = plane.path("");
    let revoke = ["certificates", "revoke", "--data-dir", "data"];
    let said = Ran::from(ferroplane(&directory, &revoke).output().unwrap());
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert!(
        said.stderr.starts_with("note: revoked all client certificates that were issued until 2"),
        "{said:#?}"
    );
    plane.until("renewed the certificate in the kubeconfig");
    let is_refused = |plane: &Plane| {
        let refused = plane.fails("kubectl --kubeconfig=stolen get namespaces", "");
        assert!(refused.contains("You must be logged in to the server"), "{refused}");
        plane.says("kubectl get namespaces");
    };
    is_refused(&plane);
    // The address may be another one, but the certificate is what it was.
    let plane = Plane::start(plane.stop(), DATA);
    let server = "$(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}')";
    plane.says(&format!("kubectl --kubeconfig=stolen config set-cluster ferroplane --server={server}"));
    is_refused(&plane);

    let nowhere =
        Ran::from(ferroplane(&directory, &["certificates", "revoke", "--data-dir", "x"]).output().unwrap());
    assert_eq!(nowhere.code, Some(1), "{nowhere:#?}");
    assert!(
        nowhere.stderr.contains("cannot revoke certificates: there are none in `x/certificates`"),
        "{nowhere:#?}"
    );
}

#[test]
fn data_directory_of_everybody_is_refused() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("planted"), "").unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
    let said = refused(&directory, DATA);
    assert!(said.contains("others can write to it (mode 0777)") && said.contains("`chmod 700`"), "{said}");
}

#[test]
fn a_backup_of_a_running_plane_can_be_restored_elsewhere() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    plane.says("kubectl create cm saved --from-literal=a=b");
    let directory = plane.path("");
    assert!(ferroplane(&directory, &["backup", "copy", "--data-dir", "data"]).status().unwrap().success());
    plane.says("kubectl create cm after");
    assert!(ferroplane(&directory, &["restore", "copy", "--data-dir", "other"]).status().unwrap().success());
    let running = Ran::from(
        ferroplane(&directory, &["restore", "copy", "--data-dir", "data", "--force"]).output().unwrap(),
    );
    assert_ne!(running.code, Some(0), "{running:#?}");
    let plane = Plane::start(plane.stop(), &["--data-dir", "other"]);
    assert_eq!(plane.says("kubectl get cm saved -o jsonpath={.data.a}"), "b");
    assert!(plane.fails("kubectl get cm after", "").contains("not found"));
}

#[test]
fn backup_goes_through_a_pipe() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    plane.says("kubectl create cm saved");
    let binary = env!("CARGO_BIN_EXE_ferroplane");
    plane.says(&format!("{binary} backup - --data-dir data | {binary} restore - --data-dir other"));
    assert!(!plane.path("-").exists());
    let plane = Plane::start(plane.stop(), &["--data-dir", "other"]);
    plane.says("kubectl get cm saved");
    let said = plane.fails(&format!("{binary} backup file --data-dir nodir"), "");
    assert_eq!(said, "error: cannot back up `nodir`: there is no store\n");
}

#[test]
fn address_is_taken_as_people_write_it() {
    for address in ["localhost:0", "0"] {
        let directory = TempDir::new().unwrap();
        let command = ferroplane(directory.path(), &["up", "--in-memory", "--listen", address]);
        Plane::run_by(directory, command).stop();
    }
    let said = refused(&TempDir::new().unwrap(), &["--in-memory", "--listen", "nonsense"]);
    assert!(said.contains("expected an address such as 127.0.0.1:6443"), "{said}");
}

#[test]
fn file_that_does_not_exist_is_said_before_anything_else() {
    for flags in [&["nofile.yaml"][..], &["nofile.yaml", "--watch"]] {
        let flags = [&["--in-memory", "--listen", "127.0.0.1:0"], flags].concat();
        let said = refused(&TempDir::new().unwrap(), &flags);
        assert!(said.starts_with("error: cannot read `nofile.yaml`: "), "{said}");
    }
}

#[test]
fn standard_error_is_text_or_json_but_not_both() {
    let mut plane = Plane::start(TempDir::new().unwrap(), &["--in-memory", "--log-format", "json"]);
    plane.signal(Signal::TERM);
    plane.end();
    for line in plane.heard_to_the_end() {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
    let mut plane = Plane::start(TempDir::new().unwrap(), &["--in-memory", "--log-level", "debug"]);
    plane.signal(Signal::TERM);
    plane.end();
    let said = plane.heard_to_the_end();
    assert!(!said.iter().any(|line| line.starts_with('{')), "{said:#?}");
}

#[test]
fn a_second_process_and_a_busy_port_are_refused() {
    let plane = Plane::new();
    let directory = TempDir::new().unwrap();
    let data = plane.path("data");
    let said = refused(&directory, &["--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert!(said.contains("cannot open the store"), "{said}");
    assert!(said.contains("process"), "{said}");

    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let said = refused(&directory, &["--listen", &address, "--data-dir", "data"]);
    assert!(said.contains("choose another address with --listen"), "{said}");
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("data"), "a file").unwrap();
    let said = refused(&directory, &["--listen", "127.0.0.1:0", "--data-dir", "data"]);
    assert!(said.contains("cannot open the store"), "{said}");
}

#[test]
fn the_kubeconfig_is_private() {
    let plane = Plane::new();
    let mode = std::fs::metadata(plane.path("kubeconfig")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::metadata(plane.path("data")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_is_in_memory_leaves_no_trace() {
    let plane = Plane::start(TempDir::new().unwrap(), &["--in-memory"]);
    if peer("kubectl").is_some() {
        plane.says("kubectl create cm forgotten");
    }
    let directory = plane.stop();
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    let ours: Vec<_> = left.iter().filter(|name| *name != ".kube" && *name != "kubeconfig").collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn an_open_watch_does_not_hold_up_the_end() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    let watch = plane.shell("exec kubectl get ns -w -o name").stdout(Stdio::piped()).spawn();
    let mut watch = watch.unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("namespace/"));
    let began = Instant::now();
    drop(plane.stop());
    // The most that is given to requests that do not end by themselves is longer.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    watch.wait().unwrap();
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let mut plane = Plane::new();
    plane.signal(Signal::INT);
    plane.until("stopping; press Ctrl-C again to stop at once");
    // It may have ended by itself already.
    let _ = rustix::process::kill_process(plane.id(), Signal::INT);
    plane.end();
}

#[test]
fn it_takes_as_many_connections_as_the_system_allows() {
    let directory = TempDir::new().unwrap();
    let program = ferroplane(directory.path(), &[]);
    let mut few = Command::new("sh");
    let line = "ulimit -Sn 128; exec \"$0\" up --listen 127.0.0.1:0 --in-memory --kubeconfig kubeconfig";
    few.args(["-c", line]).arg(program.get_program()).current_dir(directory.path()).stdin(Stdio::null());
    let plane = Plane::run_by(directory, few);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", plane.id().as_raw_nonzero())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<_> = files.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{files}");
}
