//! Runs functions that are programs: starts a gRPC server, waits until it listens, calls it, stops it.

mod command;
mod output;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

pub use command::{Command, CommandError};

use crate::error::{CallError, seconds};
use crate::grpc::{Client, Options, Target};
use output::Output;

/// How long a program has to end by itself after it was asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long after its connection broke a program may still turn out to have ended.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How often to start over when somebody else took the port.
const PORTS_TRIED: u32 = 3;

/// A function that is served by a program we started. Ends with it.
#[derive(Debug)]
pub struct Program {
    client: Client,
    group: Group,
    ended: watch::Receiver<Option<ExitStatus>>,
    output: Output,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot run `{program}`")]
    Spawn { program: String, source: std::io::Error },

    #[error("`{program}` ended before it listened ({how}){said}")]
    Ended { program: String, how: String, said: String },

    #[error(
        "`{program}` did not listen on {address} within {}: make it take its address from `--address`, or put \
         `{{address}}` into the command where it belongs{said}",
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
        let mut tries = 1;
        loop {
            match Self::start_once(command, options.clone()).await {
                Err(StartError::Ended { said, .. })
                    if tries < PORTS_TRIED && said.to_lowercase().contains("address already in use") =>
                {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn start_once(command: &Command, options: Options) -> Result<Self, StartError> {
        let address = free_address().map_err(StartError::NoPort)?;
        let mut child = command
            .at(address)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: a Ctrl-C is for us, and we end the program with all it started.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| StartError::Spawn { program: command.program().to_owned(), source })?;
        let group = Group::of(&child);
        let output = Output::of(&mut child);
        let ended = watch_over(child);
        let mut program = Self { client: local_client(address, &options)?, group, ended, output };
        program.wait_until_it_listens(command, address, options.timeout).await?;
        Ok(program)
    }

    async fn wait_until_it_listens(
        &mut self,
        command: &Command,
        address: SocketAddr,
        patience: Duration,
    ) -> Result<(), StartError> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        let program = || command.program().to_owned();
        while TcpStream::connect(address).await.is_err() {
            if self.ended.borrow().is_some() {
                let (how, said) = (self.how_it_ended(), self.output.last_words().await);
                return Err(StartError::Ended { program: program(), how, said });
            }
            if Instant::now() >= deadline {
                let said = self.output.last_words().await;
                return Err(StartError::Silent { program: program(), address, waited: patience, said });
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Call the function.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let result = tokio::select! {
            result = self.client.call(request) => result,
            () = self.end() => return Err(self.epitaph().await),
        };
        // The connection breaks before the end of the process is known: wait for the better reason.
        let is_lost = matches!(result, Err(CallError::Lost { .. } | CallError::Unreachable { .. }));
        if is_lost && timeout(LAST_WORDS, self.end()).await.is_ok() {
            return Err(self.epitaph().await);
        }
        result
    }

    /// Wait until the program has ended.
    async fn end(&self) {
        let mut ended = self.ended.clone();
        // Whoever would tell us is gone only when the program is.
        let _ = ended.wait_for(Option::is_some).await;
    }

    async fn epitaph(&self) -> CallError {
        let (how, said) = (self.how_it_ended(), self.output.last_words().await);
        CallError::Ended { how, said }
    }

    fn how_it_ended(&self) -> String {
        self.ended.borrow().map_or_else(|| "for no known reason".to_owned(), |status| status.to_string())
    }

    /// Ask the program to end, and end it if it does not.
    pub async fn stop(self) {
        self.group.signal(Signal::TERM);
        if timeout(GRACE, self.end()).await.is_err() {
            self.group.signal(Signal::KILL);
            let _ = timeout(GRACE, self.end()).await;
        }
    }
}

/// The processes of a program. Dropping it ends them.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may be gone already, and that is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reap the child when it ends, and say so.
fn watch_over(mut child: Child) -> watch::Receiver<Option<ExitStatus>> {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        let status = child.wait().await.unwrap_or_default();
        let _ = sender.send(Some(status));
    });
    receiver
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn local_client(address: SocketAddr, options: &Options) -> Result<Client, StartError> {
    let target: Target = address.to_string().parse().expect("a socket address is a target");
    let options = Options { tls: None, ..options.clone() };
    Client::new(target, options).map_err(StartError::Client)
}
