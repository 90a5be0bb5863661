//! Runs the program once for each call, beside this process and in the same image.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_sandbox::host::end_orphans;
use ferroplane_sandbox::{Budget, Limits, LineSink, hand_on};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::info;

use crate::error::CallError;
use crate::exchange::MAX_ANSWER;
use crate::external::{ImageCall, ImageOutput, ImageRunner};
use crate::images::call::failure;
use crate::images::words::LastWords;

/// How long a program and all that it started have to be gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long processes that were killed have to end before they are looked for again.
const ROUND: Duration = Duration::from_millis(1);

/// Runs the same program for each call, and only so many at once.
#[derive(Debug, Clone)]
pub(super) struct Executions {
    command: Arc<[OsString]>,
    places: Arc<Semaphore>,
    started: Started,
}

/// Why a program that was started has no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("the answer is too large")]
    TooLarge,
    #[error(transparent)]
    Pipe(#[from] io::Error),
}

impl Executions {
    pub(super) fn new(command: Vec<OsString>, concurrency: usize) -> Self {
        let places = Arc::new(Semaphore::new(concurrency));
        Self { command: command.into(), places, started: Started::default() }
    }

    /// What [`crate::External`] runs it with.
    pub(super) fn runner(self) -> ImageRunner {
        ImageRunner::new(move |call| {
            let executions = self.clone();
            async move { executions.execute(call).await }
        })
    }

    /// Run it once. If the returned future is dropped, the program ends.
    async fn execute(self, call: ImageCall) -> Result<ImageOutput, CallError> {
        let image = call.image.reference.clone();
        let cannot_run =
            |error: io::Error| CallError::Image { image: image.clone(), reason: error.to_string() };
        let place = self.places.acquire_owned().await;
        let place = place.map_err(|error| cannot_run(io::Error::other(error)))?;
        let words = LastWords::default();
        let execution = Execution::start(&self.command, place, self.started);
        let mut execution = execution.map_err(cannot_run)?;
        let function = image.clone();
        let log = words.sink(move |line: &str| {
            info!(target: "ferroplane::function", function, composite = call.composite, "{line}");
        });
        match timeout(call.timeout, execution.answer(&call.standard_input, log)).await {
            Ok(Ok((standard_output, status))) => {
                // Who runs the program reports its signals in the code, as shells do. It has none of its own unless it was killed.
                let failure = failure(status.code().unwrap_or(137));
                Ok(ImageOutput { standard_output, failure, last_words: words.text() })
            }
            Ok(Err(NoAnswer::TooLarge)) => {
                Err(CallError::ResponseTooLarge { target: image, limit: MAX_ANSWER })
            }
            Ok(Err(NoAnswer::Pipe(error))) => Err(cannot_run(error)),
            Err(_) => Err(CallError::Timeout { target: image, after: call.timeout }),
        }
    }
}

/// The processes that were started for calls, and that tokio waits for. Any other child of this process was left behind by one of them that
/// was killed, and was adopted.
#[derive(Debug, Clone, Default)]
struct Started(Arc<Mutex<Vec<Pid>>>);

impl Started {
    /// Start a process. Orphans are not looked for before it is known.
    fn spawn(&self, command: &mut Command) -> io::Result<(Child, Option<Pid>)> {
        let mut started = self.lock();
        let child = command.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        started.extend(id);
        Ok((child, id))
    }

    /// Forget a process that has ended. Another one may have its number already.
    fn forget(&self, id: Pid) {
        let mut started = self.lock();
        if let Some(place) = started.iter().position(|it| *it == id) {
            started.swap_remove(place);
        }
    }

    /// End what processes that were killed have left behind.
    async fn end_orphans(&self) {
        loop {
            let started = self.clone();
            let round = move || {
                let started = started.lock();
                end_orphans(|child| started.contains(&child))
            };
            if !spawn_blocking(round).await.unwrap_or(false) {
                return;
            }
            sleep(ROUND).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that runs. Dropping it ends the program, and everything that the program started.
struct Execution(Option<Running>);

struct Running {
    child: Child,
    id: Option<Pid>,
    place: OwnedSemaphorePermit,
    started: Started,
}

impl Execution {
    fn start(command: &[OsString], place: OwnedSemaphorePermit, started: Started) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal to our own group is not for it, nor the other way round.
            .process_group(0);
        let (child, id) = started.spawn(&mut command)?;
        Ok(Self(Some(Running { child, id, place, started })))
    }

    /// Give it its input, and read its answer until it ends.
    async fn answer(&mut self, input: &[u8], log: LineSink) -> Result<(Vec<u8>, ExitStatus), NoAnswer> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let Running { child, .. } = self.0.as_mut().ok_or_else(gone)?;
        let mut stdin = child.stdin.take().ok_or_else(gone)?;
        let stdout = child.stdout.take().ok_or_else(gone)?;
        let stderr = child.stderr.take().ok_or_else(gone)?;
        let give = async move {
            // A program may answer without having read everything.
            let _ = stdin.write_all(input).await;
            Ok::<_, NoAnswer>(())
        };
        let read = async move {
            let mut answer = Vec::new();
            stdout.take(MAX_ANSWER as u64 + 1).read_to_end(&mut answer).await?;
            if answer.len() > MAX_ANSWER { Err(NoAnswer::TooLarge) } else { Ok(answer) }
        };
        let budget = Budget { bytes: Limits::default().log, renewed_after: None };
        let listen = async move { hand_on(stderr, budget, log).await.map_err(NoAnswer::Pipe) };
        let ((), answer, ()) = tokio::try_join!(give, read, listen)?;
        Ok((answer, child.wait().await?))
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        let Some(Running { mut child, id, place, started }) = self.0.take() else { return };
        let (Some(id), Ok(runtime)) = (id, Handle::try_current()) else { return };
        // If it was waited for, the number may be another's.
        if child.id().is_some() {
            // It may be gone already, and that is what we want.
            let _ = kill_process(id, Signal::TERM);
        }
        runtime.spawn(async move {
            let status = timeout(GRACE, child.wait()).await;
            if status.is_err() {
                let _ = child.kill().await;
            }
            started.forget(id);
            let ended_by_itself = matches!(status, Ok(Ok(status)) if status.code().is_some());
            if !ended_by_itself {
                // It was killed before it could end what the program has left behind.
                started.end_orphans().await;
            }
            // Only now may another program run in its place.
            drop(place);
        });
    }
}
