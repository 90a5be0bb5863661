//! `ferroplane internal supervise`: runs a program that must not outlive the process that started it.
//!
//! A control plane or a `render` that is killed cannot stop its programs, so another process has to. This one stands between it and the
//! program of a function. Its standard input is a pipe from the process that started it, which the operating system closes when that process
//! ends, however it ends. The signal that Linux can send when a parent ends is no way: it is sent when the *thread* ends that started
//! the program, and threads of a runtime come and go.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Signal, getpgrp, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// How long the program has to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// The command before which this program ends another one when the process is gone that started it.
pub(crate) fn supervising_command() -> Vec<String> {
    // On Linux even if the file has been replaced since, as by a build.
    let own = if cfg!(target_os = "linux") {
        "/proc/self/exe".to_owned()
    } else {
        std::env::current_exe().map_or_else(|_| "ferroplane".to_owned(), |path| path.display().to_string())
    };
    [&own, "internal", "supervise", "--"].map(str::to_owned).into()
}

/// Run a program until it ends, or until standard input does
///
/// The program, and everything that it starts and that stays in its process group, ends when standard input ends.
#[derive(Debug, clap::Args)]
pub(super) struct Supervise {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Supervise {
    /// Does not return: its exit code is that of the program.
    pub(super) fn run(self) -> anyhow::Result<std::convert::Infallible> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let status = runtime.block_on(self.supervise())?;
        let signal = status.signal().map(|signal| 128 + signal);
        std::process::exit(status.code().or(signal).unwrap_or(1))
    }

    async fn supervise(self) -> anyhow::Result<ExitStatus> {
        // A signal to the group is for the program. Once it has ended, so do we.
        let _terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
        let _interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
        let (program, arguments) = self.command.split_first().context("there is no program to run")?;
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run `{}`", program.to_string_lossy()))?;
        let abandoned = end_of_input();
        tokio::select! {
            status = child.wait() => return status.context("cannot wait for the program"),
            _ = abandoned => {}
        }
        let _ = kill_process_group(getpgrp(), Signal::TERM);
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
        // Ends us, too.
        let _ = kill_process_group(getpgrp(), Signal::KILL);
        child.wait().await.context("cannot wait for the program")
    }
}

/// Says when standard input has ended. A thread of its own reads it: the runtime would wait for the end of one of its own.
fn end_of_input() -> oneshot::Receiver<()> {
    let (ended, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut nothing = [0; 64];
        while matches!(std::io::stdin().read(&mut nothing), Ok(1..)) {}
        let _ = ended.send(());
    });
    receiver
}
