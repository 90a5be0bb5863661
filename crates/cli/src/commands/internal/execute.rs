//! `ferroplane internal execute`: runs a program for one call of the adapter, and ends everything that it leaves behind.
//!
//! It adopts the descendants of the program whose parents have ended, so that none can hide by that. It ends them when the program has ended,
//! when it gets SIGTERM, and when the adapter is killed.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use anyhow::Context as _;
use ferroplane_sandbox::host::end_descendants;
use rustix::process::{Signal, getpid, set_child_subreaper, set_parent_process_death_signal};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code after SIGTERM, as of shells.
const TERMINATED: i32 = 128 + 15;

/// The command behind which a program is run for one call.
pub(super) fn executing_command() -> [&'static str; 4] {
    // Also if the file has been replaced since, as by a build.
    ["/proc/self/exe", "internal", "execute", "--"]
}

/// Run a program, and end everything that it started
///
/// The program ends by itself, or at SIGTERM.
#[derive(Debug, clap::Args)]
pub(super) struct Execute {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Execute {
    /// Does not return: its exit code is that of the program.
    pub(super) fn run(self) -> anyhow::Result<Infallible> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let code = runtime.block_on(self.execute())?;
        std::process::exit(code)
    }

    async fn execute(self) -> anyhow::Result<i32> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
        set_child_subreaper(Some(getpid())).context("cannot adopt what the program leaves behind")?;
        // It is sent when the thread ends that started us. Those of the adapter's runtime end with the adapter.
        set_parent_process_death_signal(Some(Signal::TERM)).context("cannot end with the adapter")?;
        let (program, arguments) = self.command.split_first().context("there is no program to run")?;
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            // A script that signals its own group must not end us.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run `{}`", program.to_string_lossy()))?;
        let code = tokio::select! {
            biased;
            status = child.wait() => code(status.context("cannot wait for the program")?),
            _ = terminate.recv() => TERMINATED,
        };
        end_descendants();
        Ok(code)
    }
}

fn code(status: ExitStatus) -> i32 {
    let of_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(of_signal).unwrap_or(1)
}
