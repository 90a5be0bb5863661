//! `ferroplane internal adapter`: a program that is not a server is called as a function server is, with mutual TLS.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ferroplane_runner::CallError;
use ferroplane_runner::grpc::{Client, Options, Tls};
use ferroplane_testkit::{Leaf, Pki, Process, free_port};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{from_json, to_json};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sandbox::Sandbox;

/// Leaves a process behind whose id is in the file `left`.
const LEAVE: &str =
    "setsid sh -c 'echo $$ > left; exec sleep 600' >/dev/null 2>&1 & until [ -s left ]; do sleep 0.05; done";

/// An adapter, and a caller with a certificate of its authority.
struct Adapter {
    process: Process,
    client: Arc<Client>,
    port: u16,
    pki: Pki,
    /// The program runs in it.
    directory: TempDir,
}

impl Adapter {
    /// Serve a script.
    fn start(script: &str, flags: &[&str]) -> Self {
        let (directory, pki, port) = (TempDir::new().unwrap(), Pki::new(), free_port());
        let Leaf { certificate, key } = pki.issue(&["localhost"]);
        for (name, content) in [("ca.crt", pki.ca()), ("tls.crt", certificate), ("tls.key", key)] {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroplane"));
        command
            .args(["internal", "adapter", "--protocol", "RunFunction"])
            .args(["--address", &format!("127.0.0.1:{port}")])
            .args(flags)
            .args(["--", "/bin/sh", "-c", script])
            .env("TLS_SERVER_CERTS_DIR", directory.path())
            .env("FUNCTION_NAME", "own")
            .current_dir(directory.path())
            .stdin(Stdio::null());
        let process = Process::spawn(command);
        process.lines_until("that it serves", |line| line.contains("serving the program"));
        let client = Arc::new(client(port, &pki.ca(), pki.issue(&["plane"])));
        Self { process, client, port, pki, directory }
    }

    async fn call(&self) -> Result<RunFunctionResponse, CallError> {
        self.client.call(&request()).await
    }

    async fn failure(&self) -> String {
        self.call().await.unwrap_err().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn client(port: u16, authority: &str, identity: Leaf) -> Client {
    let Leaf { certificate, key } = identity;
    let tls = Tls { ca: authority.into(), certificate: certificate.into(), key: key.into() };
    let options = Options { tls: Some(tls), ..Options::default() };
    Client::new(format!("localhost:{port}").parse().unwrap(), options).unwrap()
}

fn composite() -> Value {
    json!({"resource": {"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "app", "namespace": "shop"}}})
}

fn request() -> RunFunctionRequest {
    let state = json!({"composite": composite()});
    from_json(&json!({"meta": {"tag": "t"}, "observed": state, "desired": state})).unwrap()
}

/// The process whose id is in a file, once the file is written.
async fn process_in(file: &Path) -> Pid {
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(id) = text.strip_suffix('\n') {
            return Pid::from_raw(id.trim().parse().unwrap()).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Wait until a process is gone.
async fn gone(id: Pid) {
    let is_gone = async {
        while test_kill_process(id).is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), is_gone).await.expect("the process still runs");
}

#[tokio::test]
async fn program_answers_and_its_lines_are_logged_with_the_composite_resource() {
    let adapter = Adapter::start("echo hello >&2; exec cat", &[]);
    let answer = adapter.call().await.unwrap();
    assert_eq!(to_json(&answer).unwrap()["desired"], json!({"composite": composite()}));
    let lines = adapter.process.lines_until("a line of the program", |line| line.contains("hello"));
    let line = lines.last().unwrap();
    assert!(line.contains("App/shop/app") && line.contains("own"), "{line}");
}

#[tokio::test]
async fn program_that_fails_is_explained_as_anywhere_else() {
    let adapter = Adapter::start("cat >/dev/null; echo broken >&2; exit 3", &[]);
    let words = adapter.failure().await;
    assert!(words.ends_with("the function's program ended (exit code 3); it said:\nbroken"), "{words}");
    let adapter = Adapter::start("echo nonsense", &[]);
    let words = adapter.failure().await;
    assert!(words.contains("cannot use the response of image `own`"), "{words}");
    let adapter = Adapter::start("exec /none", &[]);
    assert!(adapter.failure().await.contains("/none"));
}

#[tokio::test]
async fn program_that_hangs_ends_with_everything_that_it_has_hidden() {
    // It leaves the process group and the session of the program, and its parent ends.
    let hide = "(setsid sh -c 'echo $$ > hidden; exec sleep 600' >/dev/null 2>&1 &); exec sleep 600";
    let adapter = Adapter::start(hide, &["--timeout", "5s"]);
    let words = adapter.failure().await;
    assert!(words.ends_with("the function at own did not answer within 5s"), "{words}");
    gone(process_in(&adapter.path("hidden")).await).await;
}

#[tokio::test]
async fn program_that_has_answered_leaves_nothing_behind() {
    let leave = "setsid sh -c 'echo $$ > left; exec sleep 600' & until [ -s left ]; do :; done; exec cat";
    let adapter = Adapter::start(leave, &[]);
    adapter.call().await.unwrap();
    gone(process_in(&adapter.path("left")).await).await;
}

#[tokio::test]
async fn program_that_kills_the_process_above_it_leaves_nothing_behind() {
    let adapter = Adapter::start(&format!("{LEAVE}; kill -9 $PPID"), &[]);
    adapter.failure().await;
    gone(process_in(&adapter.path("left")).await).await;
}

#[tokio::test]
async fn calls_go_on_while_what_another_one_left_behind_is_ended() {
    let first = format!("{LEAVE}; until [ -e second ]; do sleep 0.05; done; kill -9 $PPID");
    let waits = "until [ -s left ]; do sleep 0.05; done; while [ -d /proc/$(cat left) ]; do sleep 0.05; done";
    let second = format!(": > second; {waits}; exec cat");
    let script = format!("if mkdir first 2>/dev/null; then {first}; else {second}; fi");
    let adapter = Adapter::start(&script, &["--concurrency", "2"]);
    let (one, two) = tokio::join!(adapter.call(), adapter.call());
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
}

#[tokio::test]
async fn program_that_writes_without_end_is_stopped() {
    let adapter = Adapter::start("exec yes", &[]);
    let words = adapter.failure().await;
    assert!(words.ends_with("is larger than the 16777216 bytes that are accepted"), "{words}");
}

#[tokio::test]
async fn program_ends_when_its_caller_has_gone() {
    let adapter = Adapter::start("echo $$ > id; exec sleep 600", &["--timeout", "10m"]);
    let client = adapter.client.clone();
    let calling = tokio::spawn(async move { client.call(&request()).await.is_ok() });
    let id = process_in(&adapter.path("id")).await;
    calling.abort();
    gone(id).await;
}

#[tokio::test]
async fn no_more_programs_run_at_once_than_may() {
    let alone = "mkdir alone || exit 9; sleep 0.05; rmdir alone; exec cat";
    let adapter = Adapter::start(alone, &["--concurrency", "1"]);
    let (one, two, three) = tokio::join!(adapter.call(), adapter.call(), adapter.call());
    for answer in [one, two, three] {
        answer.unwrap();
    }
}

#[tokio::test]
async fn callers_without_a_certificate_of_the_authority_are_refused() {
    let adapter = Adapter::start("exec cat", &[]);
    let other = client(adapter.port, &adapter.pki.ca(), Pki::new().issue(&["plane"]));
    let error = other.call(&request()).await.unwrap_err();
    assert!(matches!(error, CallError::Tls { .. }), "{error:?}");
    adapter.call().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn adapter_that_is_terminated_answers_the_calls_that_it_has() {
    let script = "echo begun >&2; until [ -e go ]; do sleep 0.05; done; exec cat";
    let mut adapter = Adapter::start(script, &[]);
    let client = adapter.client.clone();
    let calling = tokio::spawn(async move { client.call(&request()).await });
    adapter.process.lines_until("a line of the program", |line| line.contains("begun"));
    adapter.process.signal(Signal::TERM);
    // Only now does the program go on.
    std::fs::write(adapter.path("go"), "").unwrap();
    calling.await.unwrap().unwrap();
    assert!(adapter.process.wait().success());
}

#[test]
fn binary_copies_itself_to_where_a_pod_runs_it() {
    let sandbox = Sandbox::new().with("volume/ferroplane.new", "left by a container that was killed");
    sandbox.run(&["internal", "copy-to", "volume"]).ok();
    let output = Command::new(sandbox.path("volume/ferroplane")).arg("version").output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"ferroplane "), "{output:?}");
    assert!(!sandbox.path("volume/ferroplane.new").exists());
}
