//! Runs containers: the part of the work that is done in this process.

mod call;
mod chroot;
mod connection;
mod launch;
mod process;
mod serve;
mod start;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

pub use call::{Call, Output, Usage};
pub use chroot::Chroots;
pub use process::{Processes, ServeProcess};
pub use serve::{Connector, Forward, Serve, Server, ServerState};

use crate::cgroups::{CgroupChoice, CgroupDirectory};
use crate::engine::Engine;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::protocol::Request;
use crate::queue::Queue;
use crate::spec::Mapping;
use crate::workspace::remove_abandoned;
use connection::Host;

/// Below the directory of the state: which hosts were started.
const LEDGER: &str = "ledger";

/// How to run containers.
#[derive(Debug, Clone)]
pub struct Options {
    /// The command that runs [`crate::host::main`]: this program, started again.
    pub helper: Vec<OsString>,
    /// A directory of ours for what has to outlive this process.
    pub state: PathBuf,
    /// The runtime, if not the one that is found.
    pub engine: Option<Engine>,
    /// How many calls run at once.
    pub concurrency: usize,
    /// How many calls may wait.
    pub most_waiting: usize,
    /// The cgroup for limits that the kernel holds. Programs without a container have none.
    pub cgroup: CgroupChoice,
}

impl Options {
    /// Twice as many calls as processors: half of a call is waiting for the kernel.
    pub fn new(helper: Vec<OsString>, state: impl Into<PathBuf>) -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            helper,
            state: state.into(),
            engine: None,
            concurrency: processors * 2,
            most_waiting: 10_000,
            cgroup: CgroupChoice::None,
        }
    }
}

/// Runs containers. Cloning gives another handle; when the last one is dropped, all containers end.
#[derive(Debug, Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    engine: Engine,
    mapping: Mapping,
    cgroup: Option<CgroupDirectory>,
    ledger: Ledger,
    queue: Queue,
    host: Mutex<Option<Host>>,
    next: AtomicU64,
}

impl Runtime {
    /// Finds a runtime, and ends what an earlier process has left behind, which may take seconds. Starts nothing yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        let cannot_use = |source| Error::State { path: options.state.clone(), source };
        make_private(&options.state).map_err(cannot_use)?;
        // Even if there is no runtime any more: what is left over has to go.
        let ledger = Ledger::open(options.state.join(LEDGER)).map_err(cannot_use)?;
        let engine = options.engine.clone().map_or_else(Engine::detect, Ok)?;
        let cgroup = options.cgroup.open()?;
        let mapping = if rustix::process::geteuid().is_root() { Mapping::Unprivileged } else { Mapping::Own };
        let queue = Queue::new(options.concurrency, options.most_waiting);
        let host = Mutex::new(None);
        let next = AtomicU64::new(1);
        Ok(Self { inner: Arc::new(Inner { options, engine, mapping, cgroup, ledger, queue, host, next }) })
    }

    /// Makes sure that this machine lets us run containers. The first call does so otherwise.
    pub async fn probe(&self) -> Result<(), Error> {
        self.host().await.map(drop)
    }

    /// The runtime that is used.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Whether a share of processors holds ([`crate::Limits::cpu_rate`]).
    pub fn holds_processor_shares(&self) -> bool {
        self.inner.cgroup.as_ref().is_some_and(CgroupDirectory::has_processors)
    }

    /// The files of an image are about to be deleted.
    pub async fn forget(&self, rootfs: &Path) {
        let host = self.inner.host.lock().await;
        if let (Some(host), Some(rootfs)) = (host.as_ref(), rootfs.to_str()) {
            host.send(Request::Forget { rootfs: rootfs.to_owned() }, Vec::new());
        }
    }

    /// Ends all containers, and returns when they are gone.
    pub async fn close(&self) {
        if let Some(host) = self.inner.host.lock().await.take() {
            host.close(Duration::from_secs(5)).await;
        }
    }

    /// The host, started if it does not run.
    async fn host(&self) -> Result<Host, Error> {
        let mut host = self.inner.host.lock().await;
        if let Some(host) = host.as_ref().filter(|host| !host.is_gone()) {
            return Ok(host.clone());
        }
        let started = launch::launch(&self.inner).await?;
        *host = Some(started.clone());
        Ok(started)
    }

    fn number(&self) -> u64 {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// End the programs whose control plane was killed, and remove their files. Whatever opens the state does so, too; this is for those that
/// open nothing yet.
pub fn remove_leftovers(state: &Path) -> io::Result<()> {
    // First: a program that still runs may use its files.
    let ended = Ledger::end_leftovers(state.join(LEDGER));
    // Also if that failed: among the files are private keys.
    let directories = [process::DIRECTORIES, chroot::COPIES];
    let removed = directories.map(|directory| remove_abandoned(&state.join(directory)));
    removed.into_iter().fold(ended, Result::and)
}

/// What others can change in there, they can use to have processes of ours killed.
fn make_private(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}
