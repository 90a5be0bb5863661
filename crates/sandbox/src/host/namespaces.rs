//! The first stage: makes the namespaces, waits until its users are mapped, and starts the second stage.

use std::io;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use super::{Refusal, SECOND_STAGE, Step as _};
use crate::protocol::{self, Report, Request};

pub(super) fn run() -> Result<ExitCode, Refusal> {
    // Containers must not reach the terminal of the process that started us.
    let _ = rustix::process::setsid();
    unshare(kinds()).step("make user, mount and pid namespaces")?;
    protocol::send(&io::stdin(), &Report::Unshared, &[]).step("talk to the process that runs containers")?;
    let begin = protocol::receive::<Request>(&io::stdin());
    let Ok(Some((Request::Begin { engine }, _))) = begin else { return Ok(ExitCode::FAILURE) };
    let engine = serde_json::to_string(&engine).map_err(io::Error::from).step("pass on the runtime")?;

    let mut child = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg(SECOND_STAGE)
        .env_clear()
        .env(ENGINE, engine)
        .stdin(Stdio::inherit())
        .spawn()
        .step("start a process in a new pid namespace")?;
    let status = child.wait().step("wait for a process")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The variable in which the second stage finds the runtime.
pub(super) const ENGINE: &str = "FERROPLANE_ENGINE";

/// End when the first stage ends.
pub(super) fn die_with_parent() -> rustix::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
}

fn kinds() -> UnshareFlags {
    UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP
}

/// Make new namespaces.
#[expect(deprecated, reason = "it is unsafe only with `FILES`, which nobody asks for")]
pub(super) fn unshare(kinds: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(kinds)
}
