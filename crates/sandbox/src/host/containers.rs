//! The containers that run, each started by a runtime that waits for it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open};

use super::mounts::SCRATCH;
use super::processes::{Processes, Use};
use super::roots::Roots;
use crate::engine::{Engine, EngineKind};
use crate::error::Limit;
use crate::protocol::{Ended, Run, Watch};
use crate::spec;

/// What a runtime may complain about, in bytes.
const LONGEST_COMPLAINT: u64 = 4096;

#[derive(Debug)]
pub(super) struct Containers {
    engine: Engine,
    roots: Roots,
    running: BTreeMap<u64, Running>,
}

#[derive(Debug)]
struct Running {
    /// The runtime, whose child is the first process of the container.
    runtime: Pid,
    /// Readable when the runtime has ended.
    ended: OwnedFd,
    deadline: Option<Instant>,
    watch: Watch,
    is_isolated: bool,
    exceeded: Option<Limit>,
    is_dying: bool,
    used: Use,
}

impl Containers {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine, roots: Roots::default(), running: BTreeMap::new() }
    }

    /// Start a container. Files: standard input, output and error, the configuration, and perhaps `cgroup.procs`.
    pub(super) fn start(&mut self, run: &Run, files: Vec<OwnedFd>) -> io::Result<()> {
        let started = self.try_start(run, files);
        // What runs is cleaned up when it has ended.
        if started.is_err() && !self.running.contains_key(&run.id) {
            clean_up(run.id);
        }
        started
    }

    fn try_start(&mut self, run: &Run, files: Vec<OwnedFd>) -> io::Result<()> {
        let started = Instant::now();
        let mut files = files.into_iter();
        let mut next =
            || files.next().ok_or_else(|| io::Error::other("a file is missing beside the message"));
        let (input, output, log, configuration) = (next()?, next()?, next()?, next()?);
        let cgroup = files.next();

        let root = self.roots.of(&run.rootfs, &run.working_directory, &run.mounted_on)?;
        write_bundle(run.id, &root, configuration)?;
        let child = self
            .runtime(run.id)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(log))
            .spawn()?;
        let runtime = Pid::from_child(&child);
        let ended = pidfd_open(runtime, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process(runtime, Signal::KILL);
        })?;
        let running = Running {
            runtime,
            ended,
            deadline: run.watch.time_ms.map(|time| started + Duration::from_millis(time)),
            watch: run.watch,
            is_isolated: run.is_isolated,
            exceeded: None,
            is_dying: false,
            used: Use::default(),
        };
        self.running.insert(run.id, running);
        match cgroup {
            // What the runtime starts from now on is in there, too. It has to read its configuration first, which takes longer.
            Some(cgroup) => File::from(cgroup).write_all(runtime.as_raw_nonzero().to_string().as_bytes()),
            None => Ok(()),
        }
    }

    fn runtime(&self, id: u64) -> Command {
        let mut command = Command::new(&self.engine.program);
        let scratch = Path::new(SCRATCH);
        // Nothing of our environment may reach a container, not even through the runtime.
        command.env_clear().env("PATH", "/usr/bin:/usr/sbin:/bin:/sbin").current_dir("/");
        command.arg("--root").arg(scratch.join("state")).arg("--log").arg(log_of(id));
        match self.engine.kind {
            EngineKind::Crun => command.arg("--cgroup-manager=disabled"),
            EngineKind::Runc => command.arg("--rootless=true"),
        };
        command.args(["run", "--bundle"]).arg(bundle_of(id)).arg(name_of(id));
        command
    }

    /// When they have to be checked again.
    pub(super) fn next_look(&self, interval: Duration) -> Option<Duration> {
        let now = Instant::now();
        let deadline = self.running.values().filter_map(|running| running.deadline).min();
        let deadline = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let interval = (!self.running.is_empty()).then_some(interval);
        [deadline, interval].into_iter().flatten().min()
    }

    /// What becomes readable when one has ended.
    pub(super) fn ends(&self) -> impl Iterator<Item = &OwnedFd> {
        self.running.values().map(|running| &running.ended)
    }

    /// The first process of a container, as far as the runtime has come.
    fn first_process(&self, id: u64) -> Option<Pid> {
        let runtime = self.running.get(&id)?.runtime;
        Processes::look().children(runtime).next()
    }

    /// Who is in the network of a container, and whether that must not be ours.
    pub(super) fn network(&self, id: u64) -> Option<(Pid, bool)> {
        let is_isolated = self.running.get(&id)?.is_isolated;
        self.first_process(id).map(|process| (process, is_isolated))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn kill(&mut self, id: u64) {
        if let Some(running) = self.running.get_mut(&id) {
            running.is_dying = true;
            end_dying(self.running.values(), &Processes::look());
        }
    }

    pub(super) fn terminate(&self, id: u64) {
        if let Some(first) = self.first_process(id) {
            let _ = kill_process(first, Signal::TERM);
        }
    }

    pub(super) fn forget(&mut self, rootfs: &str) {
        self.roots.forget(rootfs);
    }

    /// Ends those whose time is over, and, if `is_watching`, those that use too much.
    pub(super) fn enforce(&mut self, is_watching: bool) {
        let now = Instant::now();
        let is_late = |running: &Running| running.deadline.is_some_and(|deadline| deadline <= now);
        if !is_watching && !self.running.values().any(is_late) {
            return;
        }
        let processes = Processes::look();
        for running in self.running.values_mut() {
            if is_late(running) {
                running.exceed(Limit::Time);
            }
            running.measure(&processes);
        }
        end_dying(self.running.values(), &processes);
    }

    /// Collects what has ended: runtimes, and processes whose runtime was killed before it could wait for them.
    pub(super) fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let found = self.running.iter().find(|(_, running)| running.runtime == pid);
            let Some(id) = found.map(|(id, _)| *id) else { continue };
            let Some(running) = self.running.remove(&id) else { continue };
            if running.is_dying {
                end_orphans(self.running.values());
            }
            ended.push(running.report(id, status));
            clean_up(id);
        }
        ended
    }
}

impl Running {
    fn exceed(&mut self, limit: Limit) {
        self.exceeded.get_or_insert(limit);
        self.is_dying = true;
    }

    fn measure(&mut self, processes: &Processes) {
        let used = processes.used_below(self.runtime);
        self.used.cpu_ms = self.used.cpu_ms.max(used.cpu_ms);
        self.used.memory = self.used.memory.max(used.memory);
        if used.memory > self.watch.memory {
            self.exceed(Limit::Memory);
        } else if self.watch.cpu_ms.is_some_and(|limit| used.cpu_ms > limit) {
            self.exceed(Limit::CpuTime);
        } else if used.threads > u64::from(self.watch.processes) {
            self.exceed(Limit::Processes);
        }
    }

    fn report(&self, id: u64, status: WaitStatus) -> Ended {
        Ended {
            id,
            code: status.exit_status(),
            exceeded: self.exceeded,
            complaint: if self.is_dying { None } else { complaint(id) },
            cpu_ms: self.used.cpu_ms,
            memory: self.used.memory,
        }
    }
}

/// Kills dying containers, runtime and all. The first process takes all others of its namespace with it.
fn end_dying<'a>(running: impl Iterator<Item = &'a Running>, processes: &Processes) {
    for running in running.filter(|running| running.is_dying) {
        for pid in processes.descendants(running.runtime) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = kill_process(running.runtime, Signal::KILL);
    }
}

/// Kills what a killed runtime left behind: such processes become children of the first process, which is us.
fn end_orphans<'a>(running: impl Iterator<Item = &'a Running>) {
    let known: Vec<Pid> = running.map(|running| running.runtime).collect();
    let processes = Processes::look();
    for orphan in processes.children(rustix::process::getpid()).filter(|pid| !known.contains(pid)) {
        for pid in processes.descendants(orphan) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = kill_process(orphan, Signal::KILL);
    }
}

fn name_of(id: u64) -> String {
    format!("c{id}")
}

fn bundle_of(id: u64) -> PathBuf {
    Path::new(SCRATCH).join("bundles").join(name_of(id))
}

fn log_of(id: u64) -> PathBuf {
    bundle_of(id).join("log")
}

fn write_bundle(id: u64, root: &Path, configuration: OwnedFd) -> io::Result<()> {
    let mut text = String::new();
    File::from(configuration).read_to_string(&mut text)?;
    let root = serde_json::to_string(root)?;
    fs::create_dir(bundle_of(id))?;
    fs::write(bundle_of(id).join("config.json"), text.replacen(spec::ROOT, &root, 1))
}

/// What the runtime wrote to its log, if it could not do its work.
fn complaint(id: u64) -> Option<String> {
    let mut text = String::new();
    File::open(log_of(id)).ok()?.take(LONGEST_COMPLAINT).read_to_string(&mut text).ok()?;
    // runc's lines have fields, and some only warn; crun's have a time and a text.
    let is_complaint =
        |line: &&str| !line.trim().is_empty() && !line.contains("level=warn") && !line.contains("level=info");
    let line = text.lines().rfind(is_complaint)?.trim();
    let message = line.split_once("msg=").map_or(line, |(_, message)| message.trim_matches('"'));
    let message = message.rsplit_once("Z: ").map_or(message, |(_, message)| message);
    Some(message.to_owned())
}

/// A killed runtime leaves its state behind.
fn clean_up(id: u64) {
    let _ = fs::remove_dir_all(bundle_of(id));
    let _ = fs::remove_dir_all(Path::new(SCRATCH).join("state").join(name_of(id)));
}
