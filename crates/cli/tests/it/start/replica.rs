//! A replica that runs as a process of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use ferroplane_testkit::{Process, free_ports};
use rustix::process::Signal;
use serde_json::Value;

use super::ground::Ground;
use crate::plane::ferroplane;
use crate::sandbox::Ran;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct Replica {
    process: Process,
    ports: [u16; 3],
}

fn command(ground: &Ground, [health, metrics, hooks]: [u16; 3], flags: &[&str]) -> Command {
    let mut command = ferroplane(&ground.path(""), &["start", "--log-format", "json"]);
    if !flags.contains(&"--kubeconfig") {
        command.arg("--kubeconfig").arg(ground.kubeconfig());
    }
    for (flag, port) in [("health", health), ("metrics", metrics), ("webhook", hooks)] {
        command.args([format!("--{flag}-address"), format!("127.0.0.1:{port}")]);
    }
    if !flags.contains(&"--webhook-url") {
        // There is one webhook, whoever answers.
        command.args(["--webhook-url", "https://localhost:19443"]);
    }
    command.args(flags).env_remove("POD_NAMESPACE").env_remove("KUBECONFIG");
    command
}

/// What a start says that does not continue.
pub(super) fn refused(ground: &Ground, flags: &[&str]) -> String {
    let ran = Ran::from(command(ground, free_ports(), flags).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    ran.stderr
}

/// What a dry run says, and how it ends.
pub(super) fn dry_run(ground: &Ground) -> (Option<i32>, String) {
    dry_run_with(ground, &[])
}

/// The same with these flags.
pub(super) fn dry_run_with(ground: &Ground, flags: &[&str]) -> (Option<i32>, String) {
    let flags = [&["--dry-run"], flags].concat();
    let ran = Ran::from(command(ground, free_ports(), &flags).output().unwrap());
    (ran.code, ran.stdout + &ran.stderr)
}

impl Replica {
    /// One that is ready.
    pub(super) fn start(ground: &Ground, flags: &[&str]) -> Self {
        let replica = Self::begin(ground, flags);
        replica.until("replica is ready");
        replica
    }

    /// One that has just been started.
    pub(super) fn begin(ground: &Ground, flags: &[&str]) -> Self {
        Self::begin_on(ground, free_ports(), flags)
    }

    /// The same on these ports: health, metrics, webhooks.
    pub(super) fn begin_on(ground: &Ground, ports: [u16; 3], flags: &[&str]) -> Self {
        Self { process: Process::spawn(command(ground, ports, flags)), ports }
    }

    /// Waits until it says just this.
    pub(super) fn until(&self, message: &str) -> Value {
        self.heard_until(message).last().map(|line| fields(line)).unwrap_or_default()
    }

    /// The same. Returns the lines that were not read before.
    pub(super) fn heard_until(&self, message: &str) -> Vec<String> {
        self.process.lines_until(message, |line| fields(line)["message"] == message)
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for its end.
    pub(super) fn end(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Tells it to end, and waits until it has, well.
    pub(super) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.end();
        assert!(status.success(), "{status}: {:#?}", self.process.unread_lines());
    }

    /// The same. Returns the lines that were not read before.
    pub(super) fn stop_hearing(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        let lines = self.process.lines_to_the_end();
        let status = self.end();
        assert!(status.success(), "{status}: {lines:#?}");
        lines
    }

    pub(super) fn page(&self, path: &str) -> (u16, String) {
        get(self.ports[0], path)
    }

    pub(super) fn metrics(&self) -> (u16, String) {
        get(self.ports[1], "/metrics")
    }
}

/// The fields of a line of the log.
fn fields(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

fn get(port: u16, path: &str) -> (u16, String) {
    let (code, content) = fetch(port, path);
    (code, String::from_utf8(content).unwrap())
}

/// What there is at a path of a port.
pub(super) fn fetch(port: u16, path: &str) -> (u16, Vec<u8>) {
    fetch_as("localhost", port, path)
}

/// The same, by somebody who shows a token.
pub(super) fn fetch_with(token: &str, port: u16, path: &str) -> (u16, Vec<u8>) {
    request(port, path, &format!("host: localhost\r\nauthorization: Bearer {token}"))
}

/// What somebody is answered who shows a token and posts something.
pub(super) fn post_with(token: &str, port: u16, path: &str, body: &str) -> (u16, Vec<u8>) {
    let headers = format!(
        "host: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}",
        body.len()
    );
    exchange("POST", port, path, &headers, body)
}

/// The same, by a client that calls the server by another name.
pub(super) fn fetch_as(host: &str, port: u16, path: &str) -> (u16, Vec<u8>) {
    request(port, path, &format!("host: {host}"))
}

fn request(port: u16, path: &str, headers: &str) -> (u16, Vec<u8>) {
    exchange("GET", port, path, headers, "")
}

fn exchange(method: &str, port: u16, path: &str, headers: &str, body: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let content = answer.split_off(end + 4);
    let code = String::from_utf8(answer).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    (code, content)
}
