//! Runs functions that are programs: starts a gRPC server, waits until it listens, calls it, stops it.

mod command;
mod group;
mod output;
mod port;
mod supervisor;

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::net::TcpStream;
use tokio::process::ChildStdin;
use tokio::time::{sleep, timeout};

pub use command::{Command, CommandError};
pub use output::LineSink;
pub use supervisor::{ProgramState, Reports, Supervisor};

use crate::error::{CallError, seconds};
use crate::grpc::{Client, Options, Target};
use crate::observer::Peer;
use group::Group;
use output::Output;
pub(crate) use port::Port;

/// How long a program has to end by itself after it was asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long after its connection broke a program may still turn out to have ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long it takes at most, as far as anybody cares, to read what a program has printed.
const PIPE: Duration = Duration::from_millis(50);
/// How often to start over when another process took the port.
const PORTS_TRIED: u32 = 3;

/// A function that is served by a program we started. Ends with it.
#[derive(Debug)]
pub struct Program {
    client: Client,
    group: Group,
    output: Output,
    port: Port,
    /// Keeps the process that runs the program from ending it.
    _standard_input: Option<ChildStdin>,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot run `{program}`")]
    Spawn { program: String, source: std::io::Error },

    #[error("`{program}` ended before it listened ({how}){said}")]
    Ended { program: String, how: String, said: String },

    #[error(
        "`{program}` did not listen on {address} within {}: make it take its address from `--address`, or \
         put `{{address}}` into the command where it belongs{said}",
        seconds(.waited)
    )]
    Silent { program: String, address: SocketAddr, waited: Duration, said: String },

    #[error("there is no free port")]
    NoPort(#[source] std::io::Error),

    #[error("cannot call the program")]
    Client(#[source] CallError),
}

impl Program {
    /// Start a program, and wait until it listens.
    pub async fn start(command: &Command, options: Options) -> Result<Self, StartError> {
        Self::start_noting(command, options, None).await
    }

    /// The same, and hand on every line that it prints.
    pub(crate) async fn start_noting(
        command: &Command,
        options: Options,
        lines: Option<&LineSink>,
    ) -> Result<Self, StartError> {
        let mut tries = 1;
        loop {
            match Self::start_once(command, options.clone(), lines).await {
                Err(StartError::Ended { said, .. })
                    if tries < PORTS_TRIED && said.to_lowercase().contains("address already in use") =>
                {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn start_once(
        command: &Command,
        options: Options,
        lines: Option<&LineSink>,
    ) -> Result<Self, StartError> {
        let cannot_spawn = |source| StartError::Spawn { program: command.program().to_owned(), source };
        if command.is_run_by_another() {
            command.find().map_err(cannot_spawn)?;
        }
        let port = Port::free().map_err(StartError::NoPort)?;
        let address = port.address();
        let client = local_client(address, &options)?;
        let mut child = command
            .at(address)
            .stdin(if command.is_run_by_another() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: a Ctrl-C is for us, and we end the program with all it started.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot_spawn)?;
        let output = Output::of(&mut child, lines);
        let standard_input = child.stdin.take();
        let program = Self { client, group: Group::of(child), output, port, _standard_input: standard_input };
        program.wait_until_it_listens(command, address, options.timeout).await?;
        Ok(program)
    }

    async fn wait_until_it_listens(
        &self,
        command: &Command,
        address: SocketAddr,
        patience: Duration,
    ) -> Result<(), StartError> {
        let program = command.program().to_owned();
        tokio::select! {
            // First of all: when the program has ended, another process may listen.
            biased;
            how = self.group.end() => {
                Err(StartError::Ended { program, how, said: self.output.last_words().await })
            }
            () = listening(address) => Ok(()),
            () = sleep(patience) => {
                let said = self.output.so_far();
                Err(StartError::Silent { program, address, waited: patience, said })
            }
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Wait until it has ended, and say how, and what it said last.
    pub(crate) async fn ended(&self) -> String {
        let how = self.group.end().await;
        format!("it ended ({how}){}", self.output.last_words().await)
    }

    pub(crate) fn peer(&self) -> Peer<'_> {
        self.client.peer()
    }

    /// What the program printed last, ready to be put after an error, or nothing.
    pub async fn said(&self) -> String {
        // What it printed before it answered is in the pipe, and not necessarily read yet.
        sleep(PIPE).await;
        self.output.so_far()
    }

    /// Call the function.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let result = tokio::select! {
            // First of all: an answer is one even if it was the last.
            biased;
            result = self.client.call(request) => result,
            how = self.group.end() => return Err(self.epitaph(how).await),
        };
        // The connection breaks before the end of the process is known: wait for the better reason.
        if let Err(CallError::Lost { .. } | CallError::Unreachable { .. }) = result
            && let Ok(how) = timeout(LAST_WORDS, self.group.end()).await
        {
            return Err(self.epitaph(how).await);
        }
        result
    }

    async fn epitaph(&self, how: String) -> CallError {
        CallError::Ended { how, said: self.output.last_words().await }
    }

    /// Ask the program to end, and end it if it does not.
    pub async fn stop(self) {
        self.group.terminate();
        if timeout(GRACE, self.group.end()).await.is_err() {
            self.group.kill();
            let _ = timeout(GRACE, self.group.end()).await;
        }
    }
}

/// Wait until something listens.
async fn listening(address: SocketAddr) {
    let mut pause = Duration::from_millis(1);
    while TcpStream::connect(address).await.is_err() {
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn local_client(address: SocketAddr, options: &Options) -> Result<Client, StartError> {
    let target: Target = address.to_string().parse().expect("a socket address is a target");
    // The connection never leaves the loopback interface, and the program has no certificate.
    let options = Options { tls: None, ..options.clone() };
    Client::new(target, options).map_err(StartError::Client)
}
