//! Has foreign code compiled by a process of its own, which has limits and can be ended.
//!
//! What a compilation takes cannot be foreseen from the code: within the bounds of [`CodeSize`](crate::CodeSize), it can be a gigabyte and
//! minutes. A compiler that works in this process can be neither limited nor stopped. So a helper compiles: this program, started
//! again, which limits itself before it reads the code.
//!
//! # Invariants
//! * When a compilation returns, its helper has ended. The helper also ends when this process does.
//! * The helper has no key: this process alone seals native code, and keeps it.

mod helper;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::error::Error;
pub use helper::compile_for_parent;
use helper::{OUT_OF_MEMORY, Order, REFUSED};

/// Threads of a helper. Each of them compiles one function at a time, so that they multiply the memory that is needed.
const THREADS: usize = 2;

/// Where code is compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Compiler {
    /// In this process, without limits and to its end: for code that comes with this process.
    #[default]
    InProcess,
    /// In a process of its own: this command, which has to run [`compile_for_parent`].
    Helper(Vec<OsString>),
}

/// How much a helper may use for one compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompilerLimits {
    /// Bytes of memory that it can write to.
    pub memory: u64,
    /// Processor time of all its threads. Whole seconds count.
    pub processor_time: Duration,
    /// How long it may take.
    pub time: Duration,
    /// Bytes of native code.
    pub output: u64,
}

impl Default for CompilerLimits {
    fn default() -> Self {
        Self {
            memory: 2 << 30,
            processor_time: Duration::from_mins(5),
            time: Duration::from_mins(10),
            output: 512 << 20,
        }
    }
}

/// A limit that a helper met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompilerLimit {
    Memory(u64),
    ProcessorTime(Duration),
    Time(Duration),
    Output(u64),
}

impl fmt::Display for CompilerLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => write!(f, "{} MiB of memory", bytes >> 20),
            Self::ProcessorTime(time) => write!(f, "{}s of processor time", time.as_secs()),
            Self::Time(time) => write!(f, "{}s", time.as_secs_f64()),
            Self::Output(bytes) => write!(f, "{} MiB of native code", bytes >> 20),
        }
    }
}

/// How code is compiled by a helper, and until when. It means nothing for [`Compiler::InProcess`].
#[derive(Debug, Clone, Default)]
pub struct Compilation {
    pub limits: CompilerLimits,
    pub cancellation: Cancellation,
}

/// Ends compilations whose result nothing waits for any more. Clones end the same ones.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

/// Ends compilations when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Why a helper was ended by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Cancelled,
    Late,
}

impl Cancellation {
    /// End the helpers that compile, and start no other one.
    pub fn cancel(&self) {
        *self.lock() = true;
        self.0.changed.notify_all();
    }

    /// Cancel when what is returned is dropped.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    fn is_cancelled(&self) -> bool {
        *self.lock()
    }

    /// Waits until a compilation is done. Says why it has to end if it has to end before.
    fn wait(&self, limit: Duration, is_done: &AtomicBool) -> Option<Interruption> {
        let waits = |is_cancelled: &mut bool| !*is_cancelled && !is_done.load(Ordering::Relaxed);
        let waited = self.0.changed.wait_timeout_while(self.lock(), limit, waits);
        let (is_cancelled, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (is_done.load(Ordering::Relaxed), *is_cancelled) {
            (true, _) => None,
            (false, true) => Some(Interruption::Cancelled),
            (false, false) => Some(Interruption::Late),
        }
    }

    /// Says that a compilation is done.
    fn finish(&self, is_done: &AtomicBool) {
        // With the lock, so that a thread that waits either sees it or is woken.
        let locked = self.lock();
        is_done.store(true, Ordering::Relaxed);
        drop(locked);
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a helper compile code to native code, which cannot be checked.
pub(crate) fn compile(
    command: &[OsString],
    meters_fuel: bool,
    code: &[u8],
    compilation: &Compilation,
) -> Result<Vec<u8>, Error> {
    if compilation.cancellation.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let limits = &compilation.limits;
    let order =
        Order { memory: limits.memory, processor_seconds: limits.processor_time.as_secs(), meters_fuel };
    let mut helper = Helper(start(command).map_err(failed)?);
    let answer = helper.ask(&order, code, compilation).map_err(failed)?;
    answer.native(limits)
}

fn failed(error: io::Error) -> Error {
    Error::Compiler(error.into())
}

fn start(command: &[OsString]) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    Command::new(program)
        .args(arguments)
        .env_clear()
        // This is where the compiler looks it up.
        .env("RAYON_NUM_THREADS", threads.to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// A process that has ended when this is dropped.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // It mostly has ended already, and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a helper ended, and what it wrote.
struct Answer {
    interruption: Option<Interruption>,
    status: ExitStatus,
    output: Vec<u8>,
}

impl Helper {
    fn ask(&mut self, order: &Order, code: &[u8], compilation: &Compilation) -> io::Result<Answer> {
        let Compilation { limits, cancellation } = compilation;
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        let (child, is_done) = (&mut self.0, AtomicBool::new(false));
        let (output, interruption) = thread::scope(|scope| {
            let watch = || {
                let interruption = cancellation.wait(limits.time, &is_done);
                if interruption.is_some() {
                    // Its pipes end with it, and with them the exchange.
                    let _ = child.kill();
                }
                interruption
            };
            let watcher =
                thread::Builder::new().name("wasm-compiler".to_owned()).spawn_scoped(scope, watch)?;
            let output = exchange(input, output, order, code, limits.output);
            cancellation.finish(&is_done);
            Ok::<_, io::Error>((output, watcher.join().unwrap_or_default()))
        })?;
        Ok(Answer { interruption, status: self.0.wait()?, output: output? })
    }
}

/// Writes what a helper reads, and then reads what it writes: it writes nothing before it has read everything.
fn exchange(
    mut input: ChildStdin,
    output: ChildStdout,
    order: &Order,
    code: &[u8],
    limit: u64,
) -> io::Result<Vec<u8>> {
    // A helper that reads no more has ended, and its status says why.
    let _ = input.write_all(&order.to_bytes()).and_then(|()| input.write_all(code));
    drop(input);
    let mut read = Vec::new();
    // One byte more than is accepted shows that it is too much.
    output.take(limit.saturating_add(1)).read_to_end(&mut read)?;
    Ok(read)
}

impl Answer {
    /// The native code, or why there is none.
    fn native(self, limits: &CompilerLimits) -> Result<Vec<u8>, Error> {
        let limit = match self.interruption {
            Some(Interruption::Cancelled) => return Err(Error::Cancelled),
            Some(Interruption::Late) => Some(CompilerLimit::Time(limits.time)),
            None if self.output.len() as u64 > limits.output => Some(CompilerLimit::Output(limits.output)),
            None if self.status.success() => return Ok(self.output),
            None => exceeded(self.status, limits),
        };
        if let Some(limit) = limit {
            return Err(Error::TooCostly { limit });
        }
        if self.status.code() == Some(REFUSED) {
            let reason = String::from_utf8_lossy(&self.output).into_owned();
            return Err(Error::Invalid(reason.into()));
        }
        Err(failed(io::Error::other(format!("it ended with {}", self.status))))
    }
}

/// The limit that ended a helper, if one did.
fn exceeded(status: ExitStatus, limits: &CompilerLimits) -> Option<CompilerLimit> {
    if status.code() == Some(OUT_OF_MEMORY) {
        return Some(CompilerLimit::Memory(limits.memory));
    }
    let signal = status.signal()?;
    if signal == Signal::XCPU.as_raw() {
        return Some(CompilerLimit::ProcessorTime(limits.processor_time));
    }
    // A program aborts when it is refused memory, faults when its stack cannot grow, and is killed when the machine has no memory left.
    let of_memory = [Signal::ABORT, Signal::SEGV, Signal::BUS, Signal::KILL].map(Signal::as_raw);
    of_memory.contains(&signal).then_some(CompilerLimit::Memory(limits.memory))
}
