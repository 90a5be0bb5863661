//! Runs one program with another root directory, and without a container: `ferroplane internal host chroot`.
//!
//! It isolates little: the program sees the network and, where this machine allows no pid namespace, the processes of this machine. It
//! cannot write to its image, is no administrator, and ends with the process that started it. The first stage ends what the program has left
//! behind; the second one, its child, has the program's root directory, and waits for the program.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, chroot, geteuid, kill_process, pidfd_open,
    set_child_subreaper, setrlimit, wait, waitpid,
};
use rustix::thread::{UnshareFlags, set_no_new_privs};

use super::namespaces::{die_with_parent, unshare};
use super::processes::Processes;
use super::roots::copy;
use super::{Refusal, Step as _};
use crate::protocol::{self, ChrootProgram, Ended, Report, Request};
use crate::spec::OOM_SCORE_ADJUSTMENT;

/// The arguments that start the stages.
pub(crate) const FIRST_STAGE: &str = "chroot";
pub(super) const SECOND_STAGE: &str = "chroot-program";

/// Says whether the second stage has mounts of its own.
const HAS_MOUNTS: &str = "FERROPLANE_HAS_MOUNTS";
/// How long processes that were killed have to end before they are looked for again.
const ROUND: Duration = Duration::from_millis(1);
/// The program's user where we are no administrator. Not root: that would have capabilities in its user namespace.
const USER: u32 = 65_532;

/// The first stage.
pub(super) fn run() -> Result<ExitCode, Refusal> {
    // The program must not reach the terminal of the process that started us.
    let _ = rustix::process::setsid();
    set_child_subreaper(Pid::from_raw(1)).step("adopt what the program leaves behind")?;
    let has_mounts = make_namespaces()?;
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    arguments.pop();
    let mut child = Command::new("/proc/self/exe")
        .args(arguments)
        .arg(SECOND_STAGE)
        .env_clear()
        .env(HAS_MOUNTS, has_mounts.to_string())
        .stdin(Stdio::inherit())
        .spawn()
        .step("start a process")?;
    let status = child.wait().step("wait for a process")?;
    end_descendants();
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Mount and pid namespaces, if this machine allows them to an administrator. Anybody else needs a user namespace to change the root.
fn make_namespaces() -> Result<bool, Refusal> {
    let kinds = UnshareFlags::NEWNS | UnshareFlags::NEWPID;
    let (uid, gid) = (geteuid(), rustix::process::getegid());
    if uid.is_root() {
        return Ok(unshare(kinds).is_ok());
    }
    unshare(kinds | UnshareFlags::NEWUSER).step("make a user namespace")?;
    let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    write("setgroups", "deny".to_owned())
        .and_then(|()| write("uid_map", format!("{USER} {} 1\n", uid.as_raw())))
        .and_then(|()| write("gid_map", format!("{USER} {} 1\n", gid.as_raw())))
        .step("map users into a user namespace")?;
    Ok(true)
}

/// End all processes that descend from this one. It has to have adopted what its children leave behind (`set_child_subreaper`).
///
/// Without a pid namespace, children of the program may have outlived it. New ones may appear while others are being ended.
pub fn end_descendants() {
    let Some(own) = Pid::from_raw(std::process::id().cast_signed()) else { return };
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let descendants = Processes::look().descendants(own);
        if descendants.is_empty() {
            return;
        }
        for pid in descendants {
            let _ = kill_process(pid, Signal::KILL);
        }
        // Otherwise we would take the processor from those that have to end.
        thread::sleep(ROUND);
    }
}

/// End the children of this process that it has not started but adopted, and all that descends from them. Returns whether there were any:
/// then they may still be ending, or new ones may have appeared, and it has to be called again.
///
/// Something else waits for the children that were started. Between the start of one and this call, `is_started` has to come to know it.
pub fn end_orphans(is_started: impl Fn(Pid) -> bool) -> bool {
    let Some(own) = Pid::from_raw(std::process::id().cast_signed()) else { return false };
    let processes = Processes::look();
    let orphans: Vec<Pid> = processes.children(own).filter(|child| !is_started(*child)).collect();
    for orphan in &orphans {
        let _ = kill_process(*orphan, Signal::KILL);
        for pid in processes.descendants(*orphan) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = waitpid(Some(*orphan), WaitOptions::NOHANG);
    }
    !orphans.is_empty()
}

/// The second stage.
pub(super) fn run_program() -> Result<ExitCode, Refusal> {
    die_with_parent().step("end with its parent")?;
    let received = protocol::receive::<Request>(&io::stdin());
    let Ok(Some((Request::Chroot, files))) = received else { return Ok(ExitCode::FAILURE) };
    let has_mounts = std::env::var(HAS_MOUNTS).is_ok_and(|text| text == "true");
    let (program, [input, output, log]) = read(files).step("read what to run")?;
    // Not worth a failure. Not later, because the program may have no `/proc`.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT.to_string());
    enter(&program, has_mounts)?;
    restrict(&program).step("limit the program")?;
    let ended = match spawn(&program, input, output, log) {
        Err(error) => not_started(&error),
        Ok(mut child) => match wait_for(&mut child, |_| false).step("wait for the program")? {
            Some(status) => ended(status),
            // The caller has gone. All that is left ends with us.
            None => return Ok(ExitCode::SUCCESS),
        },
    };
    protocol::send(&io::stdin(), &Report::Ended(ended), &[]).step("say how the program ended")?;
    Ok(ExitCode::SUCCESS)
}

/// Beside the message: standard input, output and error, and what to run.
fn read(files: Vec<OwnedFd>) -> io::Result<(ChrootProgram, [OwnedFd; 3])> {
    let missing = |_| io::Error::other("a file is missing beside the message");
    let [input, output, log, program] = <[OwnedFd; 4]>::try_from(files).map_err(missing)?;
    let mut text = Vec::new();
    File::from(program).read_to_end(&mut text)?;
    Ok((serde_json::from_slice(&text)?, [input, output, log]))
}

/// Make the image, or a copy of it, the root directory.
fn enter(program: &ChrootProgram, has_mounts: bool) -> Result<(), Refusal> {
    let rootfs = Path::new(&program.rootfs);
    let is_read_only = has_mounts && make_read_only(rootfs).is_ok();
    let root = if is_read_only {
        rootfs
    } else {
        // Other containers run the same image: it must not be changed.
        copy(rootfs, Path::new(&program.copy)).step("copy the image")?;
        Path::new(&program.copy)
    };
    chroot(root).step("change the root directory")?;
    rustix::process::chdir("/").step("change the root directory")
}

/// Make the image read-only, except for an empty `/tmp` if it has one. Ends with our mount namespace.
fn make_read_only(rootfs: &Path) -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    mount_bind(rootfs, rootfs)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(rootfs, flags, c"")?;
    let scratch = rootfs.join("tmp");
    // A link could lead out of the image.
    if scratch.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", &scratch, "tmpfs", flags, c"mode=1777,size=64m,nr_inodes=16384")?;
    }
    Ok(())
}

fn restrict(program: &ChrootProgram) -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Cpu, program.cpu_seconds),
        (Resource::Fsize, program.file_bytes),
        (Resource::Nofile, program.files),
        (Resource::Nproc, program.processes),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn spawn(program: &ChrootProgram, input: OwnedFd, output: OwnedFd, log: OwnedFd) -> io::Result<Child> {
    let (name, arguments) = program.command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(name);
    command.args(arguments).env_clear().current_dir(&program.working_directory);
    command.envs(program.variables.iter().filter_map(|variable| variable.split_once('=')));
    command.stdin(input).stdout(output).stderr(log);
    if let Some(user) = program.user {
        command.uid(user).gid(user);
    }
    command.spawn()
}

/// How the program ended. When something comes from the process that started us, `goes_on` says whether to wait any longer. Nothing if
/// it does not.
pub(super) fn wait_for(
    child: &mut Child,
    mut goes_on: impl FnMut(Pid) -> bool,
) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let socket = io::stdin();
    loop {
        let mut wanted =
            [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        if !wanted[1].revents().is_empty() {
            return child.wait().map(Some);
        }
        if !wanted[0].revents().is_empty() && !goes_on(pid) {
            return Ok(None);
        }
    }
}

pub(super) fn ended(status: ExitStatus) -> Ended {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ended { id: 0, code, exceeded: None, complaint: None, cpu_ms: 0, memory: 0 }
}

pub(super) fn not_started(error: &io::Error) -> Ended {
    let complaint = Some(error.to_string());
    Ended { id: 0, code: None, exceeded: None, complaint, cpu_ms: 0, memory: 0 }
}
