//! Limits by cgroups (version 2), in a directory that an administrator has given to us.
//!
//! Each container gets a cgroup of its own, which is gone when the container is. Without such a directory the host watches what
//! containers use. It does so with one, too: a cgroup leaves room for the runtime, which is in there with the program.

mod delegation;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::ledger::ProcessIdentity;
use crate::limits::Limits;

/// The prefix of our cgroups, so that no others are removed.
const PREFIX: &str = "ferroplane-";
/// The controllers without which limits do not hold.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// The controller of shares of processors.
const PROCESSORS: &str = "cpu";
/// How often to try to remove a cgroup whose last process is ending.
const TRIES: u32 = 50;
/// The length of the slices in which processor time is handed out, in microseconds.
const PERIOD: u64 = 100_000;
/// What the runtime itself may use, in bytes.
const MEMORY_OF_RUNTIME: u64 = 32 << 20;

/// Several runtimes of one process share a directory.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Which cgroup holds the limits of containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CgroupChoice {
    /// None: the host holds the limits alone.
    #[default]
    None,
    /// The one that was delegated to this process alone, if there is one. This process moves below it, with everything that it has started.
    Delegated,
    /// This directory. It is an error if it cannot be used.
    Given(PathBuf),
}

impl CgroupChoice {
    /// Finds the directory.
    pub(crate) fn open(&self) -> Result<Option<CgroupDirectory>, Error> {
        match self {
            Self::None => Ok(None),
            Self::Given(path) => {
                let opened = CgroupDirectory::open(path);
                opened.map(Some).map_err(|source| Error::State { path: path.clone(), source })
            }
            Self::Delegated => match delegation::find() {
                Ok(directory) => {
                    tracing::info!(path = %directory.path.display(), "limits of containers are held by a cgroup");
                    Ok(Some(directory))
                }
                Err(reason) => {
                    tracing::debug!(%reason, "limits of containers are not held by a cgroup");
                    Ok(None)
                }
            },
        }
    }
}

/// A directory whose children can have limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgroupDirectory {
    path: PathBuf,
    has_processors: bool,
}

/// The cgroup of a container. Dropping it ends what is in there, and removes it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
}

impl CgroupDirectory {
    /// Checks that a directory is a cgroup whose children can have limits.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let enabled = fs::read_to_string(path.join("cgroup.subtree_control"))?;
        let missing = missing(&enabled);
        if !missing.is_empty() {
            let missing = missing.join(" and ");
            return Err(io::Error::other(format!("its `cgroup.subtree_control` lacks {missing}")));
        }
        Ok(Self { path: path.to_owned(), has_processors: names(&enabled, PROCESSORS) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a share of processors holds in there.
    pub(crate) fn has_processors(&self) -> bool {
        self.has_processors
    }

    /// Makes a cgroup with limits.
    pub(crate) fn create(&self, limits: &Limits) -> Result<Cgroup, Error> {
        self.try_create(limits).map_err(|source| Error::State { path: self.path.clone(), source })
    }

    fn try_create(&self, limits: &Limits) -> io::Result<Cgroup> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", ProcessIdentity::own_name());
        let cgroup = Cgroup { path: self.path.join(name) };
        fs::create_dir(&cgroup.path)?;
        cgroup.set("memory.max", &limits.memory.saturating_add(MEMORY_OF_RUNTIME).to_string())?;
        // The runtime itself is in there for a moment, with a helper or two.
        cgroup.set("pids.max", &(u64::from(limits.processes) + 8).to_string())?;
        // Not every kernel counts swap, or kills all at once.
        let _ = cgroup.set("memory.swap.max", "0");
        let _ = cgroup.set("memory.oom.group", "1");
        if let Some(rate) = limits.cpu_rate.filter(|_| self.has_processors) {
            let quota = (u64::from(rate) * PERIOD / 1000).max(1000);
            cgroup.set("cpu.max", &format!("{quota} {PERIOD}"))?;
        }
        Ok(cgroup)
    }
}

/// What is needed and is not in a list of controllers.
fn missing(controllers: &str) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|needed| !names(controllers, needed)).collect()
}

fn names(controllers: &str, wanted: &str) -> bool {
    controllers.split_ascii_whitespace().any(|controller| controller == wanted)
}

impl Cgroup {
    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.path.join(file), value)
    }

    /// Where the number of a process is written to put it in here.
    pub(crate) fn processes(&self) -> io::Result<OwnedFd> {
        OpenOptions::new().write(true).open(self.path.join("cgroup.procs")).map(OwnedFd::from)
    }

    /// Whether the kernel ended processes because there was no memory left for them.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let path = self.path.clone();
        if fs::remove_dir(&path).is_ok() {
            return;
        }
        std::thread::spawn(move || remove(&path));
    }
}

/// Removes all cgroups of ours in a directory.
pub(crate) fn remove_all(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        // Another control plane may share the directory.
        if owner.is_some_and(|owner| !ProcessIdentity::is_alive_with_name(owner)) {
            remove(&entry.path());
        }
    }
}

fn remove(path: &Path) {
    let _ = fs::write(path.join("cgroup.kill"), "1");
    for _ in 0..TRIES {
        if fs::remove_dir(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_controllers_is_refused_with_what_is_missing() {
        let parent = tempfile::tempdir().expect("directory");
        let control = parent.path().join("cgroup.subtree_control");
        fs::write(&control, "cpu pids\n").expect("file");
        let error = CgroupDirectory::open(parent.path()).expect_err("memory is missing");
        assert!(error.to_string().contains("lacks memory"), "{error}");
        fs::write(&control, "memory pids\n").expect("file");
        assert!(!CgroupDirectory::open(parent.path()).expect("what is needed is there").has_processors());
        fs::write(&control, "cpu memory pids\n").expect("file");
        assert!(CgroupDirectory::open(parent.path()).expect("all is there").has_processors());
    }

    #[test]
    fn a_directory_that_was_given_and_cannot_be_used_is_an_error() {
        let parent = tempfile::tempdir().expect("directory");
        let choice = CgroupChoice::Given(parent.path().to_owned());
        assert!(matches!(choice.open(), Err(Error::State { path, .. }) if path == parent.path()));
        assert_eq!(CgroupChoice::None.open().expect("nothing is wanted"), None);
    }

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let parent = tempfile::tempdir().expect("directory");
        let limits = Limits { memory: 1000, processes: 5, cpu_rate: Some(250), ..Limits::default() };
        let directory = CgroupDirectory { path: parent.path().to_owned(), has_processors: true };
        let cgroup = directory.create(&limits).expect("cgroup");
        let read = |file: &str| fs::read_to_string(cgroup.path.join(file)).expect("file");
        assert_eq!(read("memory.max"), (1000 + MEMORY_OF_RUNTIME).to_string());
        assert_eq!(read("pids.max"), "13");
        assert_eq!(read("cpu.max"), "25000 100000");
        assert!(!cgroup.ran_out_of_memory());
        fs::write(cgroup.path.join("memory.events"), "low 0\noom 1\noom_kill 1\n").expect("events");
        assert!(cgroup.ran_out_of_memory());
        // Without the controller there is no such file, and the call runs without this limit.
        let other = CgroupDirectory { has_processors: false, ..directory }.create(&limits).expect("cgroup");
        assert!(other.path != cgroup.path && !other.path.join("cpu.max").exists());
    }
}
