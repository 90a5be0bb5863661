//! Runs programs with another root directory, and without a container. Needs no runtime; isolates little (`docs/containers.md`).

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::call::{LAST_LINES, read};
use super::connection::receive;
use super::launch::sockets;
use super::start::pipe_to_us;
use super::{Call, Options, Output, Usage, make_private};
use crate::error::{Error, Limit, SpecError};
use crate::host::CHROOT_STAGE;
use crate::input;
use crate::lines::{self, Budget};
use crate::protocol::{self, ChrootProgram, Report, Request};
use crate::queue::Queue;
use crate::users::file_owner;
use crate::workspace::{Workspace, remove_tree};

/// Below the directory of the state: where images are copied to.
pub(super) const COPIES: &str = "chroots";
/// How long a program that has to end may take.
const GRACE: Duration = Duration::from_secs(5);

/// Runs programs without containers. Clones share a queue.
#[derive(Debug, Clone)]
pub struct Chroots {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    /// For copies of images, where the image itself cannot be made read-only.
    copies: Workspace,
    queue: Queue,
    next: AtomicU64,
}

impl Chroots {
    /// Removes what an earlier process has left behind. Starts nothing yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        let path = options.state.join(COPIES);
        let private = make_private(&options.state).and_then(|()| make_private(&path));
        let copies = private.and_then(|()| Workspace::open(&path));
        let copies = copies.map_err(|source| Error::State { path, source })?;
        let queue = Queue::new(options.concurrency, options.most_waiting);
        Ok(Self { inner: Arc::new(Inner { options, copies, queue, next: AtomicU64::new(1) }) })
    }

    /// Runs a program once. If the returned future is dropped, the program is ended.
    pub async fn call(&self, call: Call<'_>) -> Result<Output, Error> {
        let _place = self.inner.queue.enter(call.key).await?;
        let copy = self.copy();
        let program = self.program(&call, &copy.0)?;
        let program = serde_json::to_vec(&program).map_err(|error| Error::Pass(error.into()))?;
        let (output_end, mut output) = pipe_to_us().map_err(Error::Pass)?;
        let (log_end, log) = pipe_to_us().map_err(Error::Pass)?;
        let input = input::sealed(call.input).map_err(Error::Pass)?;
        let files = [input, output_end, log_end, input::sealed(&program).map_err(Error::Pass)?];
        let (socket, mut child) = self.start(&files).map_err(Error::Host)?;
        // Only the program may hold its ends, or its output would never end.
        drop(files);
        let budget = Budget { bytes: call.limits.log, renewed_after: None };
        let log = tokio::spawn(lines::hand_on(log, budget, call.log));
        let finished = timeout(call.limits.time, finish(&socket, &mut output, call.limits.output)).await;
        // Ends whatever still runs.
        drop(socket);
        let _ = timeout(GRACE, child.wait()).await;
        let _ = timeout(LAST_LINES, log).await;
        finished.unwrap_or(Err(Error::Exceeded(Limit::Time)))
    }

    fn program(&self, call: &Call<'_>, copy: &Path) -> Result<ChrootProgram, Error> {
        let (container, limits) = (call.container, &call.limits);
        let text = |path: &Path| {
            let absolute = path.to_str().filter(|path| path.starts_with('/'));
            absolute.map(str::to_owned).ok_or_else(|| SpecError::Rootfs { path: path.to_owned() })
        };
        // Without a user namespace of their own, all programs of the user count together.
        let together = u64::try_from(self.inner.options.concurrency).unwrap_or(u64::MAX);
        Ok(ChrootProgram {
            rootfs: text(&container.rootfs)?,
            copy: text(copy)?,
            command: container.command()?,
            variables: container.variables()?,
            working_directory: container.working_directory()?,
            user: file_owner(),
            cpu_seconds: limits.cpu_time.as_secs().saturating_add(1),
            file_bytes: limits.scratch,
            files: limits.files.into(),
            processes: u64::from(limits.processes).saturating_mul(together),
        })
    }

    fn start(&self, files: &[OwnedFd; 4]) -> io::Result<(UnixStream, Child)> {
        let (ours, theirs) = sockets()?;
        let (program, arguments) = self.inner.options.helper.split_first().ok_or(io::ErrorKind::NotFound)?;
        // Not ended when it is dropped: it has to end the program first, and does so when the socket is closed.
        let child = Command::new(program)
            .args(arguments)
            .arg(CHROOT_STAGE)
            .env_clear()
            // Only a process with a single thread may have a new user namespace, and this allocator likes to have threads of its own.
            .env("_RJEM_MALLOC_CONF", "background_thread:false")
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let socket = UnixStream::from_std(ours.into())?;
        let borrowed: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
        protocol::send(&socket, &Request::Chroot, &borrowed)?;
        Ok((socket, child))
    }

    fn copy(&self) -> CopyOfImage {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        CopyOfImage(self.inner.copies.path().join(number.to_string()))
    }
}

async fn finish(socket: &UnixStream, output: &mut pipe::Receiver, most: u64) -> Result<Output, Error> {
    let Some(stdout) = read(output, most).await? else { return Err(Error::Exceeded(Limit::Output)) };
    match receive(socket).await {
        Ok(Some((Report::Ended(ended), _))) => match (ended.code, ended.complaint) {
            (Some(exit_code), None) => Ok(Output { stdout, exit_code, usage: Usage::default() }),
            (_, complaint) => Err(Error::Program { message: complaint.unwrap_or_default() }),
        },
        Ok(Some((Report::Refused { step, cause }, _))) => Err(Error::NoChroot { step, cause }),
        _ => Err(Error::HostEnded),
    }
}

/// Where an image may be copied to for one call.
#[derive(Debug)]
struct CopyOfImage(PathBuf);

impl Drop for CopyOfImage {
    fn drop(&mut self) {
        if self.0.exists() {
            let path = self.0.clone();
            // The disk is slow, and a caller that drops this may serve others.
            std::thread::spawn(move || remove_tree(&path));
        }
    }
}
