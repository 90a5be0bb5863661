//! Keeps servers running as processes of this machine, without containers. Needs no runtime; isolates next to nothing
//! (`docs/containers.md`).
//!
//! # Invariants
//! * Only a static executable is run, and the one that was checked.
//! * The ledger names the helper of a program before it may start that. The helper ends the program when this process is gone, and the
//!   kernel does so when the helper is.
//! * A program starts in a directory of its own that has nothing but the files it is given. The helper removes it when the program has ended,
//!   whatever became of this process: one of the files may be a private key.

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::receive;
use super::launch::sockets;
use super::serve::{KNOCK, LOG_PERIOD, Launcher, Server, early_end};
use super::start::{Pipes, pipe_to_us};
use super::{Options, make_private};
use crate::container::Container;
use crate::error::{Error, SpecError};
use crate::host::PROCESS_STAGE;
use crate::ledger::{Entry, Ledger};
use crate::limits::Limits;
use crate::lines::{self, Budget, LineSink};
use crate::protocol::{self, Ended, ProcessProgram, Report, Request};
use crate::users::file_owner;
use crate::workspace::{Workspace, remove_tree};
use crate::{executable, input};

/// Below the directory of the state: where programs start.
pub(super) const DIRECTORIES: &str = "processes";

/// How long a program that has to end may take.
const GRACE: Duration = Duration::from_secs(5);
/// How many programs count together against their limit of processes, where they have a user of their own.
const TOGETHER: u64 = 64;

/// A server to keep running without a container.
#[derive(Clone)]
pub struct ServeProcess {
    /// Where its program is, with its arguments and variables. It sees the files of this machine instead of those of the image.
    pub container: Container,
    pub limits: Limits,
    /// Where the program listens.
    pub address: SocketAddr,
    /// How long it may take until it does.
    pub patience: Duration,
    /// Files in the directory that it starts in: their paths below it, and what is in them.
    pub files: Vec<(String, Vec<u8>)>,
    /// Takes what the program writes to standard output and error.
    pub log: LineSink,
}

impl fmt::Debug for ServeProcess {
    /// Says nothing of files: one of them may be a private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeProcess").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Runs programs without containers. Clones share what runs.
#[derive(Debug, Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    /// For the directories that programs start in.
    directories: Workspace,
    ledger: Ledger,
    next: AtomicU64,
    /// Those of the helpers that run.
    sockets: Mutex<Vec<Weak<UnixStream>>>,
    /// How many of them there are.
    running: watch::Sender<usize>,
}

impl Processes {
    /// Ends what an earlier process has left behind, which may take seconds. Starts nothing yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        let path = options.state.join(DIRECTORIES);
        let cannot_use = |source| Error::State { path: path.clone(), source };
        make_private(&options.state).and_then(|()| make_private(&path)).map_err(cannot_use)?;
        // First the programs, then their directories.
        let ledger = Ledger::open(options.state.join(super::LEDGER)).map_err(cannot_use)?;
        let directories = Workspace::open(&path).map_err(cannot_use)?;
        let (next, sockets, running) = (AtomicU64::new(1), Mutex::default(), watch::Sender::new(0));
        Ok(Self { inner: Arc::new(Inner { options, directories, ledger, next, sockets, running }) })
    }

    /// Starts a server, and returns when it listens. From then on it is started again whenever it ends.
    pub async fn serve(&self, serve: ServeProcess) -> Result<Server, Error> {
        Launcher::Process(self.clone(), Box::new(serve)).serve().await
    }

    /// Ends everything that runs, and returns when it is gone. Servers have to be dropped before, or they are started again.
    pub async fn close(&self) {
        self.inner.kill_all();
        let mut running = self.inner.running.subscribe();
        let _ = timeout(GRACE, running.wait_for(|running| *running == 0)).await;
    }

    /// Starts the program, and waits until it listens.
    pub(super) async fn start_serving(&self, serve: &ServeProcess) -> Result<RunningProcess, Error> {
        let (mut running, pipes) = self.start(serve)?;
        let budget = Budget { bytes: serve.limits.log, renewed_after: Some(LOG_PERIOD) };
        let hand_on = |pipe| tokio::spawn(lines::hand_on(pipe, budget, serve.log.clone()));
        let logs = [pipes.output, pipes.log].map(hand_on);
        let (port, seconds) = (serve.address.port(), serve.patience.as_secs());
        tokio::select! {
            // First of all: when the program has ended, it is another one that listens.
            biased;
            ended = running.end() => {
                Err(Error::EndedEarly { port, how: early_end(ended, logs).await? })
            }
            ready = timeout(serve.patience, listening(serve.address)) => {
                ready.map_err(|_| Error::Silent { port, seconds })
            }
        }?;
        Ok(running)
    }

    fn start(&self, serve: &ServeProcess) -> Result<(RunningProcess, Pipes), Error> {
        let executable = executable::open(&serve.container)?;
        let cannot_use = |source| Error::State { path: self.inner.directories.path().to_owned(), source };
        let directory = self.directory(&serve.files).map_err(cannot_use)?;
        let program = self::program(serve, &directory.0)?;
        let program = serde_json::to_vec(&program).map_err(|error| Error::Pass(error.into()))?;
        let (output_end, output) = pipe_to_us().map_err(Error::Pass)?;
        let (log_end, log) = pipe_to_us().map_err(Error::Pass)?;
        let program = input::sealed(&program).map_err(Error::Pass)?;
        let files = [output_end, log_end, program, executable];
        let (socket, child) = self.spawn().map_err(Error::Host)?;
        let pid = child.id().ok_or_else(|| Error::Host(io::ErrorKind::NotFound.into()))?;
        // Recorded before it may start anything: in any other order a crash here leaves a program without a record.
        let entry = self.inner.ledger.note(pid, None).map_err(cannot_use)?;
        let socket = Arc::new(socket);
        let counted = self.inner.count(&socket);
        let remains = Some(Remains { child, entry, directory, counted });
        let running = RunningProcess { address: serve.address, socket, has_ended: false, remains };
        let borrowed: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
        protocol::send(&*running.socket, &Request::Process, &borrowed).map_err(Error::Host)?;
        Ok((running, Pipes { output, log }))
    }

    fn spawn(&self) -> io::Result<(UnixStream, Child)> {
        let (ours, theirs) = sockets()?;
        let (program, arguments) = self.inner.options.helper.split_first().ok_or(io::ErrorKind::NotFound)?;
        // Not ended when it is dropped: it has to end the program first, and does so when the socket is closed.
        let child = Command::new(program)
            .args(arguments)
            .arg(PROCESS_STAGE)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok((UnixStream::from_std(ours.into())?, child))
    }

    /// A directory for one start of a program, with these files.
    fn directory(&self, files: &[(String, Vec<u8>)]) -> io::Result<WorkingDirectory> {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let directory = WorkingDirectory(self.inner.directories.path().join(number.to_string()));
        make_directory(&directory.0)?;
        for (path, content) in files {
            let path = directory.0.join(path);
            if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
                make_directory(parent)?;
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path)?;
            file.write_all(content)?;
            give(&path)?;
        }
        Ok(directory)
    }
}

impl Inner {
    fn kill_all(&self) {
        for socket in self.lock_sockets().iter() {
            signal_process(socket, &Request::Kill { id: 0 });
        }
    }

    fn lock_sockets(&self) -> MutexGuard<'_, Vec<Weak<UnixStream>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(self: &Arc<Self>, socket: &Arc<UnixStream>) -> Counted {
        let mut sockets = self.lock_sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(socket));
        drop(sockets);
        self.running.send_modify(|running| *running += 1);
        Counted(self.clone())
    }
}

/// Somewhere a program starts. It goes with this.
#[derive(Debug)]
struct WorkingDirectory(PathBuf);

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // At once, and not in the background: this process may end next, and the keys would stay.
        let _ = remove_tree(&self.0);
    }
}

/// One of those that run.
#[derive(Debug)]
struct Counted(Arc<Inner>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

/// A program that runs. Dropping it ends the program.
#[derive(Debug)]
pub(super) struct RunningProcess {
    pub(super) address: SocketAddr,
    /// The helper takes its end as the word to end the program. Nothing else may hold it.
    socket: Arc<UnixStream>,
    has_ended: bool,
    remains: Option<Remains>,
}

/// What has to be cleaned up when a program is gone.
#[derive(Debug)]
struct Remains {
    child: Child,
    entry: Entry,
    directory: WorkingDirectory,
    /// Those who wait for the end wait for all of this.
    counted: Counted,
}

impl RunningProcess {
    /// Waits until the program and everything that it started are gone.
    pub(super) async fn end(&mut self) -> Result<Ended, Error> {
        if self.has_ended {
            return Err(Error::HostEnded);
        }
        let received = receive(&self.socket).await;
        self.has_ended = true;
        match received {
            Ok(Some((Report::Ended(ended), _))) => Ok(ended),
            Ok(Some((Report::Refused { step, cause }, _))) => Err(Error::Program {
                message: format!("this machine does not allow the process to {step} ({cause})"),
            }),
            _ => Err(Error::HostEnded),
        }
    }

    /// What the helper is reached by, for as long as it runs.
    pub(super) fn socket(&self) -> Weak<UnixStream> {
        Arc::downgrade(&self.socket)
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // Where no tasks can be started, the next process cleans up.
        if let (Some(remains), Ok(runtime)) = (self.remains.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(remains.clean_up());
        }
    }
}

impl Remains {
    async fn clean_up(self) {
        let Self { mut child, entry, directory, counted } = self;
        if timeout(GRACE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
        // The disk is slow, and this thread serves others.
        let _ = tokio::task::spawn_blocking(move || drop(directory)).await;
        entry.remove();
        drop(counted);
    }
}

/// Asks a helper to signal its program. If the helper is gone, so is the program.
pub(super) fn signal_process(socket: &Weak<UnixStream>, request: &Request) {
    if let Some(socket) = socket.upgrade() {
        let _ = protocol::send(&*socket, request, &[]);
    }
}

fn program(serve: &ServeProcess, directory: &Path) -> Result<ProcessProgram, Error> {
    let absolute = directory.to_str().filter(|path| path.starts_with('/'));
    let working_directory = absolute.ok_or_else(|| SpecError::Rootfs { path: directory.to_owned() })?;
    let (container, limits, user) = (&serve.container, &serve.limits, file_owner());
    Ok(ProcessProgram {
        command: container.command()?,
        variables: container.variables()?,
        working_directory: working_directory.to_owned(),
        user,
        memory: limits.memory,
        file_bytes: limits.scratch,
        files: limits.files.into(),
        // Our own user has other processes, too, and they would count.
        processes: user.map(|_| u64::from(limits.processes).saturating_mul(TOGETHER)),
    })
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    give(path)
}

/// Give a file to the user whom programs run as.
fn give(path: &Path) -> io::Result<()> {
    file_owner().map_or(Ok(()), |owner| chown(path, Some(owner), Some(owner)))
}

/// Waits until a program listens.
async fn listening(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        sleep(KNOCK).await;
    }
}
