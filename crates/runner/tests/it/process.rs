//! Runs functions that are programs.

use std::path::Path;
use std::time::Duration;

use ferroplane_runner::grpc::Options;
use ferroplane_runner::{CallError, Command, Directory, Program, Runner, StartError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::{asks, said};

/// The command that runs [`crate::program`], with more variables if needed.
fn command(role: &str, variables: &str) -> String {
    let binary = std::env::current_exe().unwrap();
    let binary = binary.to_str().unwrap();
    format!("env ROLE={role} {variables} '{binary}' --exact program::main --ignored --nocapture")
}

async fn start_command(text: &str, options: Options) -> Result<Program, StartError> {
    Program::start(&Command::parse(text, "/").unwrap(), options).await
}

async fn start(role: &str) -> Result<Program, StartError> {
    start_command(&command(role, "ADDRESS={address}"), Options::default()).await
}

/// Open as long as a process that has the other end lives.
struct Lifeline(TcpListener);

impl Lifeline {
    async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// The command of a program that gets the other end.
    fn command(&self, role: &str) -> String {
        command(role, &format!("ADDRESS={{address}} LIFELINE={}", self.0.local_addr().unwrap()))
    }

    async fn start(&self, role: &str) -> Program {
        start_command(&self.command(role), Options::default()).await.unwrap()
    }

    /// Wait until somebody has said that it is alive.
    async fn alive(&self) -> BufReader<TcpStream> {
        let mut lifeline = BufReader::new(self.0.accept().await.unwrap().0);
        let mut line = String::new();
        lifeline.read_line(&mut line).await.unwrap();
        assert_eq!(line, "alive\n");
        lifeline
    }
}

/// What was said until the end.
async fn last_words(mut lifeline: BufReader<TcpStream>) -> String {
    let mut words = String::new();
    let reading = lifeline.read_to_string(&mut words);
    tokio::time::timeout(Duration::from_secs(30), reading).await.expect("it is still alive").unwrap();
    words
}

#[tokio::test]
async fn program_is_told_where_to_listen() {
    let run = command("serves", r#"ADDRESS="${2#--address=}" ARGUMENTS="$*""#);
    let texts = [
        (command("serves", "ADDRESS={address} ARGUMENTS={address}"), "127.0.0.1:"),
        (command("serves", "ADDRESS={host}:{port} ARGUMENTS={host}:{port}"), "127.0.0.1:"),
        // Without a place for it, the address comes as functions expect it.
        (format!("sh -c {} function", shlex::try_quote(&run).unwrap()), "--insecure --address=127.0.0.1:"),
    ];
    for (text, expected) in texts {
        let program = start_command(&text, Options::default()).await.unwrap();
        let response = program.call(&asks("hello")).await.unwrap();
        assert!(said(&response).starts_with(expected), "{text}: {response:?}");
        program.stop().await;
    }
}

#[tokio::test]
async fn program_is_found_in_the_directory_of_the_command() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/usr/bin/env", directory.path().join("function")).unwrap();
    let text = command("serves", "ADDRESS={address}").replacen("env", "./function", 1);
    let command = Command::parse(&text, directory.path()).unwrap();
    let program = Program::start(&command, Options::default()).await.unwrap();
    program.call(&asks("hello")).await.unwrap();
}

#[tokio::test]
async fn program_that_does_not_exist_is_refused() {
    for name in ["./no-such-program", "no-such-program"] {
        let error = start_command(name, Options::default()).await.unwrap_err();
        assert!(matches!(error, StartError::Spawn { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("cannot run `{name}`"));
    }
}

#[tokio::test]
async fn program_that_ends_at_once_is_quoted() {
    let error = start("fails").await.unwrap_err();
    assert!(matches!(error, StartError::Ended { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("`env` ended before it listened (exit status: 3); it said:\n"), "{text}");
    assert!(text.ends_with("the configuration is missing"), "{text}");
}

#[tokio::test]
async fn only_the_last_words_of_a_program_are_kept() {
    let text = start("chatters").await.unwrap_err().to_string();
    assert!(text.ends_with("that is all"), "{text}");
    assert!(text.len() < 10_000, "{} bytes", text.len());
}

#[tokio::test]
async fn program_that_does_not_listen_is_given_up_on() {
    let options = Options { timeout: Duration::from_millis(500), ..Options::default() };
    let error = start_command(&command("sleeps", "ADDRESS={address}"), options).await.unwrap_err();
    assert!(matches!(error, StartError::Silent { .. }), "{error:?}");
    let text = error.to_string();
    let advice =
        "within 0.5s: make it take its address from `--address`, or put `{address}` into the command";
    assert!(text.starts_with("`env` did not listen on 127.0.0.1:") && text.contains(advice), "{text}");
}

#[tokio::test]
async fn start_that_nobody_waits_for_leaves_nothing_behind() {
    let lifeline = Lifeline::new().await;
    let command = lifeline.command("sleeps");
    let (stream, _) = tokio::select! {
        result = start_command(&command, Options::default()) => panic!("{result:?}"),
        accepted = lifeline.0.accept() => accepted.unwrap(),
    };
    assert_eq!(last_words(BufReader::new(stream)).await, "");
}

#[tokio::test]
async fn program_whose_port_was_taken_gets_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("tried").display().to_string();
    let text = command("fails-once", &format!("ADDRESS={{address}} MARKER={marker}"));
    let program = start_command(&text, Options::default()).await.unwrap();
    assert!(Path::new(&marker).exists());
    program.call(&asks("hello")).await.unwrap();
}

#[tokio::test]
async fn program_that_crashes_is_quoted() {
    for role in ["crashes", "dies-slowly"] {
        let program = start(role).await.unwrap();
        // And again, for those who come late.
        for _ in 0..2 {
            let error = program.call(&asks("hello")).await.unwrap_err();
            assert!(matches!(error, CallError::Ended { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.starts_with("the function's program ended (exit status: 3); it said:\n"), "{text}");
            assert!(text.ends_with("out of cheese"), "{text}");
        }
    }
}

#[tokio::test]
async fn program_is_asked_to_end() {
    let lifeline = Lifeline::new().await;
    let program = lifeline.start("serves").await;
    let end = lifeline.alive().await;
    program.stop().await;
    assert_eq!(last_words(end).await, "asked to end\n");
}

#[tokio::test]
async fn program_that_does_not_end_is_ended() {
    let lifeline = Lifeline::new().await;
    let program = lifeline.start("does-not-end").await;
    let end = lifeline.alive().await;
    program.stop().await;
    assert_eq!(last_words(end).await, "asked to end\n");
}

#[tokio::test]
async fn programs_of_a_directory_are_stopped_together() {
    let lifelines = [Lifeline::new().await, Lifeline::new().await];
    let mut directory = Directory::default();
    let mut ends = Vec::new();
    for (number, lifeline) in lifelines.iter().enumerate() {
        directory.insert(number.to_string(), Runner::Program(lifeline.start("serves").await));
        ends.push(lifeline.alive().await);
    }
    directory.stop().await;
    for end in ends {
        assert_eq!(last_words(end).await, "asked to end\n");
    }
}

#[tokio::test]
async fn program_that_is_dropped_ends() {
    let lifeline = Lifeline::new().await;
    let program = lifeline.start("serves").await;
    let end = lifeline.alive().await;
    drop(program);
    assert_eq!(last_words(end).await, "");
}

#[test]
fn program_ends_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lifeline = other.block_on(Lifeline::new());
    let program = runtime.block_on(start_command(&lifeline.command("serves"), Options::default())).unwrap();
    let end = other.block_on(lifeline.alive());
    drop(runtime);
    assert_eq!(other.block_on(last_words(end)), "");
    let error = other.block_on(program.call(&asks("hello"))).unwrap_err();
    assert!(matches!(error, CallError::Ended { .. }), "{error:?}");
}

#[tokio::test]
async fn children_of_a_program_end_with_it() {
    let lifeline = Lifeline::new().await;
    let program = lifeline.start("has-a-child").await;
    let end = lifeline.alive().await;
    program.stop().await;
    assert_eq!(last_words(end).await, "");
}

#[tokio::test]
async fn children_of_a_program_that_is_dropped_end_with_it() {
    let lifeline = Lifeline::new().await;
    let program = lifeline.start("has-a-child").await;
    let end = lifeline.alive().await;
    drop(program);
    assert_eq!(last_words(end).await, "");
}

#[tokio::test]
async fn children_of_a_program_that_crashes_end_with_it() {
    let lifeline = Lifeline::new().await;
    let program = lifeline.start("has-a-child").await;
    let end = lifeline.alive().await;
    program.call(&asks("hello")).await.unwrap_err();
    assert_eq!(last_words(end).await, "");
}
