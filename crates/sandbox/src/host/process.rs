//! Keeps one server as a process of this machine, without a container: `ferroplane internal host process`.
//!
//! It isolates next to nothing: the program sees the files, the network and the processes of this machine that its user sees. It gains no
//! rights, has limits, and ends with the process that started it. The first stage waits for the program and ends what that has left behind; the
//! second one, its child, gives up rights and becomes the program.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, chdir, getrlimit, kill_process, set_child_subreaper, setrlimit,
};
use rustix::thread::{set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid};

use super::chroot::{end_descendants, ended, not_started, wait_for};
use super::namespaces::die_with_parent;
use super::{Refusal, Step as _};
use crate::protocol::{self, ProcessProgram, Report, Request};
use crate::spec::OOM_SCORE_ADJUSTMENT;
use crate::workspace::remove_tree;

/// The arguments that start the stages.
pub(crate) const FIRST_STAGE: &str = "process";
pub(super) const SECOND_STAGE: &str = "process-program";

/// The variables in which the second stage finds what to run, and who started it.
const PROGRAM: &str = "FERROPLANE_PROGRAM";
const PARENT: &str = "FERROPLANE_PARENT";
/// What the second stage returns if it cannot become the program, as shells do.
const CANNOT_RUN: u8 = 126;

/// The first stage.
pub(super) fn run() -> Result<ExitCode, Refusal> {
    // The program must not reach the terminal of the process that started us.
    let _ = rustix::process::setsid();
    set_child_subreaper(Pid::from_raw(1)).step("adopt what the program leaves behind")?;
    let received = protocol::receive::<Request>(&io::stdin());
    let Ok(Some((Request::Process, files))) = received else { return Ok(ExitCode::FAILURE) };
    let ended = match spawn(files) {
        Err(error) => not_started(&error),
        Ok((mut child, directory)) => {
            let status = wait_for(&mut child, obey);
            end_descendants();
            // Its keys must not outlive it, even if the process that started us is gone.
            let _ = remove_tree(Path::new(&directory));
            match status.step("wait for the program")? {
                Some(status) => ended(status),
                // The caller has gone.
                None => return Ok(ExitCode::SUCCESS),
            }
        }
    };
    protocol::send(&io::stdin(), &Report::Ended(ended), &[]).step("say how the program ended")?;
    Ok(ExitCode::SUCCESS)
}

/// Start the second stage. Beside the message: standard output and error, what to run, and its executable. Returns the directory in which the
/// program starts, too.
fn spawn(files: Vec<OwnedFd>) -> io::Result<(Child, String)> {
    let missing = |_| io::Error::other("a file is missing beside the message");
    let [output, log, program, executable] = <[OwnedFd; 4]>::try_from(files).map_err(missing)?;
    let mut text = String::new();
    File::from(program).read_to_string(&mut text)?;
    let ProcessProgram { working_directory, .. } = serde_json::from_str(&text)?;
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    arguments.pop();
    let child = Command::new("/proc/self/exe")
        .args(arguments)
        .arg(SECOND_STAGE)
        .env_clear()
        .env(PROGRAM, text)
        .env(PARENT, std::process::id().to_string())
        .stdin(executable)
        .stdout(output)
        .stderr(log)
        .spawn()?;
    Ok((child, working_directory))
}

/// Does what the process that started us asks for. False if it is gone.
fn obey(pid: Pid) -> bool {
    // The program has not been waited for, so that the number is still its own.
    match protocol::receive::<Request>(&io::stdin()) {
        Ok(Some((Request::Terminate { .. }, _))) => signal(pid, Signal::TERM),
        Ok(Some((Request::Kill { .. }, _))) => signal(pid, Signal::KILL),
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => return false,
    }
    true
}

fn signal(pid: Pid, signal: Signal) {
    // It may have ended, which is what was wanted.
    let _ = kill_process(pid, signal);
}

/// The second stage. Returns only if it cannot become the program.
pub(super) fn run_program() -> ExitCode {
    let Err(error) = become_program();
    // Standard error is the log of the program by now.
    let _ = writeln!(io::stderr(), "cannot run the program: {error}");
    ExitCode::from(CANNOT_RUN)
}

fn become_program() -> io::Result<std::convert::Infallible> {
    let variable = |name: &str| std::env::var(name).map_err(io::Error::other);
    let program: ProcessProgram = serde_json::from_str(&variable(PROGRAM)?)?;
    // Not worth a failure. Not later, because the file is of the user that we are now.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT.to_string());
    // Before the user changes, who cannot pass through our directories.
    chdir(&program.working_directory)?;
    restrict(&program)?;
    if let Some(user) = program.user {
        become_user(user)?;
    }
    // Only now: the kernel forgets it when the user changes.
    die_with_parent()?;
    if variable(PARENT)? != parent_id().to_string() {
        return Err(io::Error::other("the process that started it is gone"));
    }
    let (name, arguments) = program.command.split_first().ok_or(io::ErrorKind::NotFound)?;
    // By its handle, for the same reason. It is closed when the program has taken our place.
    let executable = io::stdin().as_fd().try_clone_to_owned()?;
    let variables = program.variables.iter().filter_map(|variable| variable.split_once('='));
    Err(Command::new(format!("/proc/self/fd/{}", executable.as_raw_fd()))
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(variables)
        .stdin(Stdio::null())
        .exec())
}

fn restrict(program: &ProcessProgram) -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Data, Some(program.memory)),
        (Resource::Fsize, Some(program.file_bytes)),
        (Resource::Nofile, Some(program.files)),
        (Resource::Nproc, program.processes),
    ];
    for (resource, most) in limits {
        let Some(most) = most else { continue };
        // We may have less ourselves.
        let most = getrlimit(resource).maximum.map_or(most, |own| own.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Of this thread alone: if there are others, they end when the program takes our place.
fn become_user(user: u32) -> rustix::io::Result<()> {
    let group = Gid::from_raw(user);
    set_thread_groups(&[group])?;
    set_thread_gid(group)?;
    set_thread_uid(Uid::from_raw(user))
}
