//! A program that is kept running: started again with growing pauses when it ends. A server in a container is reached by connections into
//! its namespace, and one that is a process at its address.

mod forward;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Runtime;
use super::call::{LAST_LINES, exit_code};
use super::connection::Host;
use super::process::{Processes, RunningProcess, ServeProcess, signal_process};
use super::start::{Start, Started};
use crate::container::Container;
use crate::error::Error;
use crate::limits::{Grants, Limits};
use crate::lines::{self, Budget, LineSink};
use crate::protocol::{Ended, Request};

pub use forward::Forward;

/// How often to ask whether the program listens.
pub(super) const KNOCK: Duration = Duration::from_millis(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A program that served for this long is trusted again.
const TRUSTED_AFTER: Duration = Duration::from_mins(1);
/// How often a server may write its share of lines.
pub(super) const LOG_PERIOD: Duration = Duration::from_mins(1);
/// How long a program that listens nowhere has to run before it counts as one that runs.
const SETTLED: Duration = Duration::from_secs(1);
/// How long a program has to end by itself.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What to keep running.
#[derive(Debug, Clone)]
pub struct Serve {
    pub container: Container,
    pub limits: Limits,
    pub grants: Grants,
    /// The port on which the program listens. One that listens on none serves if it has not ended soon after its start.
    pub port: Option<u16>,
    /// How long it may take until it does.
    pub patience: Duration,
    /// What the program reaches though it has no network.
    pub forwards: Vec<Forward>,
    /// Takes what the program writes to standard output and error.
    pub log: LineSink,
}

/// A server that is kept running. Dropping it ends the program.
#[derive(Debug)]
pub struct Server {
    port: Option<u16>,
    state: watch::Receiver<Current>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

/// Makes connections to a server for as long as it is kept running. Keeping this does not keep the server running.
#[derive(Debug, Clone)]
pub struct Connector {
    port: Option<u16>,
    state: watch::Receiver<Current>,
}

/// Whether the program can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    Starting,
    Serving,
    /// It ended or did not listen, and is started again after a pause.
    Waiting {
        why: String,
    },
    Stopped,
}

#[derive(Debug, Clone)]
struct Current {
    state: ServerState,
    at: Option<Place>,
}

/// Where a program runs. Keeping this does not keep it running.
#[derive(Debug, Clone)]
enum Place {
    Container { host: Host, id: u64, runtime: Runtime },
    Process { address: SocketAddr, socket: Weak<UnixStream> },
}

/// Starts a program, again and again.
#[derive(Debug)]
pub(super) enum Launcher {
    Container(Runtime, Box<Serve>),
    Process(Processes, Box<ServeProcess>),
}

/// A program that runs. Dropping it ends the program.
#[derive(Debug)]
enum Running {
    Container(Box<Started>, Runtime),
    Process(Box<RunningProcess>),
}

impl Launcher {
    /// Starts the program, and returns when it listens. From then on it is started again whenever it ends.
    pub(super) async fn serve(self) -> Result<Server, Error> {
        let started = self.start().await?;
        let current = Current { state: ServerState::Serving, at: Some(started.place()) };
        let (states, state) = watch::channel(current);
        let (stop, stopped) = watch::channel(false);
        let port = match &self {
            Self::Container(_, serve) => serve.port,
            Self::Process(_, serve) => Some(serve.address.port()),
        };
        let supervisor = Supervisor { launcher: self, states, stopped };
        Ok(Server { port, state, stop, task: Some(tokio::spawn(supervisor.run(started))) })
    }

    async fn start(&self) -> Result<Running, Error> {
        Ok(match self {
            Self::Container(runtime, serve) => {
                Running::Container(Box::new(runtime.start_serving(serve).await?), runtime.clone())
            }
            Self::Process(processes, serve) => {
                Running::Process(Box::new(processes.start_serving(serve).await?))
            }
        })
    }
}

impl Running {
    fn place(&self) -> Place {
        match self {
            Self::Container(started, runtime) => {
                Place::Container { host: started.host.clone(), id: started.id, runtime: runtime.clone() }
            }
            Self::Process(process) => Place::Process { address: process.address, socket: process.socket() },
        }
    }

    /// Waits until the program and everything that it started are gone.
    async fn end(&mut self) -> Result<Ended, Error> {
        match self {
            Self::Container(started, _) => started.end().await,
            Self::Process(process) => process.end().await,
        }
    }

    /// Asks the program to end.
    fn terminate(&self) {
        match self {
            Self::Container(started, _) => {
                started.host.send(Request::Terminate { id: started.id }, Vec::new());
            }
            Self::Process(process) => signal_process(&process.socket(), &Request::Terminate { id: 0 }),
        }
    }

    fn kill(&self) {
        match self {
            Self::Container(started, _) => started.kill(),
            Self::Process(process) => signal_process(&process.socket(), &Request::Kill { id: 0 }),
        }
    }
}

/// How a program ended before it served. What it said last says why, and is waited for.
pub(super) async fn early_end(
    ended: Result<Ended, Error>,
    logs: [JoinHandle<io::Result<()>>; 2],
) -> Result<String, Error> {
    for log in logs {
        let _ = timeout(LAST_LINES, log).await;
    }
    exit_code(ended?).map(|code| format!("exit code {code}"))
}

impl Runtime {
    /// Starts a server, and returns when it listens. From then on it is started again whenever it ends.
    pub async fn serve(&self, serve: Serve) -> Result<Server, Error> {
        Launcher::Container(self.clone(), Box::new(serve)).serve().await
    }

    /// Starts the program, and waits until it listens.
    async fn start_serving(&self, serve: &Serve) -> Result<Started, Error> {
        let start = Start {
            container: &serve.container,
            input: &[],
            limits: &serve.limits,
            grants: serve.grants,
            is_server: true,
        };
        let (mut started, pipes) = self.start(start).await?;
        let budget = Budget { bytes: serve.limits.log, renewed_after: Some(LOG_PERIOD) };
        let hand_on = |pipe| tokio::spawn(lines::hand_on(pipe, budget, serve.log.clone()));
        let logs = [pipes.output, pipes.log].map(hand_on);
        started.forwards = self.forward(serve, &started);
        let (host, id) = (started.host.clone(), started.id);
        tokio::select! {
            ended = started.end() => {
                let how = early_end(ended, logs).await?;
                Err(match serve.port {
                    Some(port) => Error::EndedEarly { port, how },
                    None => Error::EndedAtOnce { seconds: SETTLED.as_secs(), how },
                })
            }
            ready = self.wait_until_ready(serve, host, id) => ready,
        }?;
        Ok(started)
    }

    async fn wait_until_ready(&self, serve: &Serve, host: Host, id: u64) -> Result<(), Error> {
        let Some(port) = serve.port else {
            sleep(SETTLED).await;
            return Ok(());
        };
        let seconds = serve.patience.as_secs();
        timeout(serve.patience, self.wait_for(port, host, id))
            .await
            .map_err(|_| Error::Silent { port, seconds })
    }

    async fn wait_for(&self, port: u16, host: Host, id: u64) {
        while self.connect(&host, id, port).await.is_err() {
            sleep(KNOCK).await;
        }
    }

    async fn connect(&self, host: &Host, id: u64, port: u16) -> Result<OwnedFd, Error> {
        let request = self.number();
        let answer = host.await_connection(request);
        host.send(Request::Connect { id, request, port }, Vec::new());
        let answer = answer.await.map_err(|_| Error::HostEnded)?;
        answer.map_err(|message| Error::Connect { port, message })
    }
}

impl Server {
    /// A new connection to the program, directly to its port.
    pub async fn connect(&self) -> Result<TcpStream, Error> {
        self.connector().connect().await
    }

    /// Makes connections and restarts the program, for callers that do not own the server.
    pub fn connector(&self) -> Connector {
        Connector { port: self.port, state: self.state.clone() }
    }

    /// Ends the program as it runs now. It is started again, as after any end.
    pub fn restart(&self) {
        self.connector().restart();
    }

    pub fn state(&self) -> ServerState {
        self.state.borrow().state.clone()
    }

    /// Waits until the program is in another state than this.
    pub async fn changed(&mut self, from: &ServerState) -> ServerState {
        let changed = self.state.wait_for(|current| current.state != *from).await;
        changed.map_or(ServerState::Stopped, |current| current.state.clone())
    }

    /// Ends the program, and returns when it is gone.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Connector {
    /// Ends the program as it runs now. It is started again, as after any end.
    pub fn restart(&self) {
        let at = self.state.borrow().at.clone();
        match at {
            Some(Place::Container { host, id, .. }) => host.send(Request::Kill { id }, Vec::new()),
            Some(Place::Process { socket, .. }) => signal_process(&socket, &Request::Kill { id: 0 }),
            None => {}
        }
    }

    /// Whether the program serves, as far as is known.
    pub fn is_serving(&self) -> bool {
        self.state.borrow().state == ServerState::Serving
    }

    /// Waits until the program does not serve, and says in which state it is instead.
    pub async fn not_serving(&self) -> ServerState {
        let mut state = self.state.clone();
        let changed = state.wait_for(|current| current.state != ServerState::Serving).await;
        changed.map_or(ServerState::Stopped, |current| current.state.clone())
    }

    /// A new connection to the program, directly to its port.
    pub async fn connect(&self) -> Result<TcpStream, Error> {
        let at = self.state.borrow().at.clone();
        let port = self.port.unwrap_or_default();
        let cannot_connect = |message: String| Error::Connect { port, message };
        let (host, id, runtime) = match at.filter(|_| self.port.is_some()) {
            Some(Place::Container { host, id, runtime }) => (host, id, runtime),
            Some(Place::Process { address, .. }) => {
                let stream = TcpStream::connect(address).await;
                return stream.map_err(|error| cannot_connect(error.to_string()));
            }
            None => return Err(cannot_connect("the program does not serve".to_owned())),
        };
        let socket = runtime.connect(&host, id, port).await?;
        let stream = std::net::TcpStream::from(socket);
        stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)).map_err(Error::Pass)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// The pauses before a program is started again: each is twice as long as the one before, up to a limit.
#[derive(Debug)]
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// A program that served for long may have ended for a new reason: the next pause is the first one again.
    fn served_for(&mut self, time: Duration) {
        if time > TRUSTED_AFTER {
            *self = Self::default();
        }
    }

    fn take(&mut self) -> Duration {
        let next = (self.0 * 2).min(LONGEST_PAUSE);
        std::mem::replace(&mut self.0, next)
    }
}

struct Supervisor {
    launcher: Launcher,
    states: watch::Sender<Current>,
    stopped: watch::Receiver<bool>,
}

impl Supervisor {
    async fn run(self, first: Running) {
        let (mut started, mut pauses) = (first, Pauses::default());
        loop {
            let since = Instant::now();
            let Some(why) = self.attend(started).await else { break };
            pauses.served_for(since.elapsed());
            match self.start_again(why, &mut pauses).await {
                Some(again) => started = again,
                None => break,
            }
        }
        self.tell(ServerState::Stopped, None);
    }

    /// Waits until the program ends, and says why it did; or until it has to, and ends it.
    async fn attend(&self, mut started: Running) -> Option<String> {
        self.tell(ServerState::Serving, Some(started.place()));
        let ended = tokio::select! {
            ended = started.end() => Some(ended),
            () = self.stopped() => None,
        };
        if let Some(ended) = ended {
            return Some(match ended.and_then(exit_code) {
                Ok(code) => format!("exit code {code}"),
                Err(error) => error.to_string(),
            });
        }
        started.terminate();
        if timeout(LAST_WORDS, started.end()).await.is_err() {
            started.kill();
            let _ = timeout(LAST_WORDS, started.end()).await;
        }
        None
    }

    /// Starts the program again, with growing pauses, until it listens or is dropped.
    async fn start_again(&self, mut why: String, pauses: &mut Pauses) -> Option<Running> {
        loop {
            self.tell(ServerState::Waiting { why }, None);
            tokio::select! {
                () = sleep(pauses.take()) => {}
                () = self.stopped() => return None,
            }
            self.tell(ServerState::Starting, None);
            let started = tokio::select! {
                started = self.launcher.start() => started,
                () = self.stopped() => return None,
            };
            match started {
                Ok(started) => return Some(started),
                Err(error) => why = error.to_string(),
            }
        }
    }

    async fn stopped(&self) {
        // An error means that the server is gone, which is the same.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }

    fn tell(&self, state: ServerState, at: Option<Place>) {
        self.states.send_replace(Current { state, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_begin_anew_after_a_program_served_for_long() {
        let mut pauses = Pauses::default();
        let first: Vec<_> = (0..11).map(|_| pauses.take().as_millis()).collect();
        assert_eq!(first, [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        pauses.served_for(TRUSTED_AFTER);
        assert_eq!(pauses.take(), LONGEST_PAUSE, "a program that ends again and again is not trusted");
        pauses.served_for(TRUSTED_AFTER + Duration::from_millis(1));
        assert_eq!(pauses.take(), FIRST_PAUSE);
    }
}
