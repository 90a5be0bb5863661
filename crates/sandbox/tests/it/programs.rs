//! Programs that serve nobody: kept running, and led to what they may reach and to nothing else.

use std::fs;
use std::os::unix::fs::chown;
use std::time::Duration;

use ferroplane_sandbox::{
    Error, Forward, Grants, Limits, LineSink, Serve, ServerState, SharedDirectory, file_owner,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Lines, call, eventually, public_directory, sandbox, sandboxes, shell};

/// Where the program finds what it may reach.
const PORT: u16 = 6443;

fn program(script: &str) -> Serve {
    Serve {
        container: shell(script),
        limits: Limits::default(),
        grants: Grants::default(),
        port: None,
        patience: Duration::from_secs(20),
        forwards: Vec::new(),
        log: LineSink::nowhere(),
    }
}

/// Says hello to whoever is behind a port, and prints the answer.
fn greet(port: u16) -> String {
    format!("echo hello | /bin/busybox nc -w 5 127.0.0.1 {port}")
}

/// The same until there is an answer: on a busy machine, a program may run before it is led anywhere.
fn greet_until_answered(port: u16) -> String {
    format!("until {}; do sleep 0.1; done", greet(port))
}

/// Answers the next one who says hello.
async fn answer(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().await.expect("connection");
    let mut said = [0; 6];
    stream.read_exact(&mut said).await.expect("hello");
    assert_eq!(&said, b"hello\n");
    stream.write_all(b"welcome\n").await.expect("answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_a_network_reaches_what_it_is_led_to_and_nothing_else() {
    for sandbox in sandboxes().await {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
        let hidden = TcpListener::bind("127.0.0.1:0").await.expect("hidden");
        let (to, closed) = (listener.local_addr().expect("address"), hidden.local_addr().expect("address"));
        let lines = Lines::default();
        let script =
            format!("{}; {} || echo nobody; sleep 600", greet_until_answered(PORT), greet(closed.port()));
        let serve =
            Serve { forwards: vec![Forward { port: PORT, to }], log: lines.sink(), ..program(&script) };
        let (started, ()) = tokio::join!(sandbox.runtime.serve(serve), answer(&listener));
        let server = started.expect("program");
        assert_eq!(server.state(), ServerState::Serving);
        tokio::task::block_in_place(|| {
            eventually("it was led there alone", || lines.all().contains(&"nobody".to_owned()));
        });
        assert!(lines.all().contains(&"welcome".to_owned()), "{:?}", lines.all());
        assert!(server.connect().await.is_err(), "it serves nobody");
        server.stop().await;
        sandbox.runtime.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_started_again_is_led_there_again() {
    let Some(sandbox) = sandbox().await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let to = listener.local_addr().expect("address");
    let serve = Serve {
        forwards: vec![Forward { port: PORT, to }],
        ..program(&format!("{}; sleep 600", greet_until_answered(PORT)))
    };
    let (server, ()) = tokio::join!(sandbox.runtime.serve(serve), answer(&listener));
    let server = server.expect("program");
    server.restart();
    answer(&listener).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_at_once_is_an_error_and_one_that_ends_later_is_started_again() {
    let Some(sandbox) = sandbox().await else { return };
    let error = sandbox.runtime.serve(program("exit 7")).await.expect_err("it ends");
    assert_eq!(error.to_string(), "the program ended within 1 s (exit code 7)");
    assert!(matches!(error, Error::EndedAtOnce { .. }));
    let mut server = sandbox.runtime.serve(program("sleep 2; exit 3")).await.expect("program");
    let state = server.changed(&ServerState::Serving).await;
    assert_eq!(state, ServerState::Waiting { why: "exit code 3".to_owned() });
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_directory_is_read_as_it_changes_and_cannot_be_written() {
    for sandbox in sandboxes().await {
        let directory = public_directory();
        let token = directory.path().join("token");
        let write = |text: &str| {
            // As a user who renews a token does it.
            let other = directory.path().join("other");
            fs::write(&other, text).expect("file");
            if let Some(owner) = file_owner() {
                chown(&other, Some(owner), Some(owner)).expect("owner");
            }
            fs::rename(&other, &token).expect("rename");
        };
        write("one");
        let destination = "/var/run/secrets/of/ours".to_owned();
        let lines = Lines::default();
        let script = format!(
            "cd {destination}; touch x 2>/dev/null || echo refused; cat token; echo; \
             while grep -q one token; do sleep 0.01; done; cat token; echo; sleep 600"
        );
        let mut serve = Serve { log: lines.sink(), ..program(&script) };
        serve.container.directories =
            vec![SharedDirectory { source: directory.path().to_owned(), destination, is_writable: false }];
        let server = sandbox.runtime.serve(serve).await.expect("program");
        write("two");
        tokio::task::block_in_place(|| {
            eventually("it sees the change", || lines.all() == ["refused", "one", "two"]);
        });
        server.stop().await;
        sandbox.runtime.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_writes_to_a_directory_it_shares_is_seen_by_the_next_one() {
    for sandbox in sandboxes().await {
        let directory = public_directory();
        if let Some(owner) = file_owner() {
            chown(directory.path(), Some(owner), Some(owner)).expect("owner");
        }
        let share = || {
            let (source, destination) = (directory.path().to_owned(), "/tmp".to_owned());
            vec![SharedDirectory { source, destination, is_writable: true }]
        };
        let mut first = shell("echo one > /tmp/file");
        first.directories = share();
        assert_eq!(sandbox.call(call(&first)).await.expect("first").exit_code, 0);
        let mut second = shell("cat /tmp/file");
        second.directories = share();
        assert_eq!(sandbox.call(call(&second)).await.expect("second").stdout, b"one\n");
        sandbox.runtime.close().await;
    }
}
