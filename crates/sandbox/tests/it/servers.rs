//! Servers: kept running, reached from outside, and without a network of their own.

use std::time::Duration;

use ferroplane_sandbox::{Error, Grants, Limits, LineSink, Serve, ServerState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Lines, attack, eventually, processes_with, sandbox, sandboxes, shell};

const PORT: u16 = 9443;

fn serve(arguments: &[&str]) -> Serve {
    Serve {
        container: attack(arguments),
        limits: Limits::default(),
        grants: Grants::default(),
        port: Some(PORT),
        forwards: Vec::new(),
        patience: Duration::from_secs(20),
        log: LineSink::nowhere(),
    }
}

async fn echo(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.expect("write");
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await.expect("read");
    String::from_utf8(answer).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reached_through_its_own_namespace() {
    for sandbox in sandboxes().await {
        let server = sandbox.runtime.serve(serve(&["serve", "9443"])).await.expect("server");
        let mut streams = [server.connect().await.expect("one"), server.connect().await.expect("two")];
        for (number, stream) in streams.iter_mut().enumerate() {
            assert_eq!(echo(stream, &format!("hello {number}")).await, format!("hello {number}"));
        }
        assert!(TcpStream::connect(("127.0.0.1", PORT)).await.is_err(), "nobody else reaches it");
        // Two servers can have the same port, since each has its own network.
        let second = sandbox.runtime.serve(serve(&["serve", "9443"])).await.expect("second server");
        assert_eq!(echo(&mut second.connect().await.expect("connection"), "hello").await, "hello");
        second.stop().await;
        server.stop().await;
        sandbox.runtime.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_is_started_again() {
    let Some(sandbox) = sandbox().await else { return };
    let mut server = sandbox.runtime.serve(serve(&["serve", "9443"])).await.expect("server");
    let mut stream = server.connect().await.expect("connection");
    stream.write_all(b"die").await.expect("write");
    let state = server.changed(&ServerState::Serving).await;
    assert_eq!(state, ServerState::Waiting { why: "exit code 3".to_owned() });
    while server.state() != ServerState::Serving {
        let state = server.state();
        server.changed(&state).await;
    }
    assert_eq!(echo(&mut server.connect().await.expect("connection"), "hello").await, "hello");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_listen_is_an_error() {
    let Some(sandbox) = sandbox().await else { return };
    let silent = Serve { patience: Duration::from_millis(300), ..serve(&["sleep", "marker-4714"]) };
    let error = sandbox.runtime.serve(silent).await.expect_err("it does not listen");
    assert!(matches!(error, Error::Silent { port: PORT, .. }), "{error:?}");
    tokio::task::block_in_place(|| eventually("it is gone", || processes_with("marker-4714").is_empty()));

    let lines = Lines::default();
    let mut ends = serve(&[]);
    ends.container = shell("echo why; echo because >&2; exit 7");
    ends.log = lines.sink();
    let error = sandbox.runtime.serve(ends).await.expect_err("it ends");
    assert!(matches!(&error, Error::EndedEarly { how, .. } if how == "exit code 7"), "{error:?}");
    tokio::task::block_in_place(|| {
        eventually("its lines arrive", || {
            let mut lines = lines.all();
            lines.sort();
            lines == ["because", "why"]
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_this_machine_is_not_taken_for_that_of_a_container() {
    for sandbox in sandboxes().await {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listener");
        let port = listener.local_addr().expect("address").port();
        let silent = Serve { port: Some(port), patience: Duration::from_millis(500), ..serve(&["sleep"]) };
        let error = sandbox.runtime.serve(silent).await.expect_err("it does not listen");
        assert!(matches!(error, Error::Silent { .. }), "{error:?}");
        listener.set_nonblocking(true).expect("mode");
        assert!(listener.accept().is_err(), "nobody came");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_dropped_or_stopped_is_gone() {
    let Some(sandbox) = sandbox().await else { return };
    let server = sandbox.runtime.serve(serve(&["serve", "9443", "marker-4715"])).await.expect("server");
    assert!(!processes_with("marker-4715").is_empty());
    server.stop().await;
    assert!(processes_with("marker-4715").is_empty());
    let server = sandbox.runtime.serve(serve(&["serve", "9443", "marker-4715"])).await.expect("server");
    drop(server);
    tokio::task::block_in_place(|| eventually("it is gone", || processes_with("marker-4715").is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_uses_memory_is_stopped_and_started_again() {
    let Some(sandbox) = sandbox().await else { return };
    let mut greedy = serve(&[]);
    greedy.limits.memory = 48 << 20;
    greedy.container = shell("/bin/attack serve 9443 & sleep 1; exec /bin/attack memory");
    let mut server = sandbox.runtime.serve(greedy).await.expect("server");
    let state = server.changed(&ServerState::Serving).await;
    let ServerState::Waiting { why } = state else { panic!("{state:?}") };
    assert!(why.contains("memory"), "{why}");
    server.stop().await;
}
