//! The program that tests start.
//!
//! A test cannot find the binaries of another package, so the test binary runs itself: what looks like one
//! more test is the program, and does what `ROLE` says. Without a role there is nothing to do.

use std::future::pending;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use ferroplane_testkit::{FunctionServer, Versions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::says;

#[test]
#[ignore = "it is the program that other tests start"]
fn main() {
    let Ok(role) = std::env::var("ROLE") else { return };
    let lifeline = std::env::var("LIFELINE").ok().map(|address| TcpStream::connect(address).unwrap());
    match role.as_str() {
        "fails" => fail("the configuration is missing"),
        "chatters" => chatter(),
        "fails-once" if std::fs::create_dir(variable("MARKER")).is_ok() => {
            fail("listen: Address already in use");
        }
        "sleeps" => std::thread::park(),
        "has-a-child" => start_child(lifeline.unwrap()),
        "dies-slowly" => die_slowly(),
        _ => serve(&role, lifeline.as_ref()),
    }
}

fn fail(words: &str) {
    eprintln!("{words}");
    exit(3);
}

fn chatter() {
    for _ in 0..100_000 {
        println!("blah blah blah");
    }
    fail("that is all");
}

/// The child holds the lifeline, and only the child.
fn start_child(lifeline: TcpStream) {
    let mut child = Command::new("sh")
        .args(["-c", "echo alive >&0; exec sleep 600"])
        .stdin(Stdio::from(OwnedFd::from(lifeline)))
        .spawn()
        .unwrap();
    serve("crashes", None);
    child.wait().unwrap();
}

/// First the connection breaks, and some time later the process ends.
#[tokio::main]
async fn die_slowly() {
    let (call, mut is_called) = mpsc::unbounded_channel();
    let server = FunctionServer::serve_async(&variable("ADDRESS"), Versions::Both, None, move |_| {
        call.send(()).unwrap();
        pending()
    })
    .await;
    is_called.recv().await;
    server.stop().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    fail("out of cheese");
}

#[tokio::main]
async fn serve(role: &str, lifeline: Option<&TcpStream>) {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let crashes = role == "crashes";
    let arguments = std::env::var("ARGUMENTS").unwrap_or_default();
    let _server = FunctionServer::serve(&variable("ADDRESS"), Versions::Both, None, move |_| {
        if crashes {
            fail("out of cheese");
        }
        Ok(says(arguments.clone()))
    })
    .await;
    tell(lifeline, "alive");
    loop {
        terminated.recv().await;
        tell(lifeline, "asked to end");
        if role != "does-not-end" {
            exit(0);
        }
    }
}

fn tell(lifeline: Option<&TcpStream>, words: &str) {
    if let Some(mut lifeline) = lifeline {
        writeln!(lifeline, "{words}").unwrap();
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}
