//! Limits by cgroups (version 2), in a directory that an administrator has given to us.
//!
//! Each container gets a cgroup of its own, which is gone when the container is. Without such a directory the host watches what
//! containers use.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ledger::ProcessIdentity;
use crate::limits::Limits;

/// The prefix of our cgroups, so that no others are removed.
const PREFIX: &str = "ferroplane-";
/// How often to try to remove a cgroup whose last process is ending.
const TRIES: u32 = 50;
/// The length of the slices in which processor time is handed out, in microseconds.
const PERIOD: u64 = 100_000;

/// The cgroup of a container. Dropping it ends what is in there, and removes it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
}

/// Checks that a directory is a cgroup whose children can have limits.
pub(crate) fn check(parent: &Path) -> io::Result<()> {
    let enabled = fs::read_to_string(parent.join("cgroup.subtree_control"))?;
    let missing: Vec<&str> = ["memory", "pids"]
        .into_iter()
        .filter(|wanted| !enabled.split_ascii_whitespace().any(|controller| controller == *wanted))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("its `cgroup.subtree_control` lacks {}", missing.join(" and "))))
}

impl Cgroup {
    /// Makes a cgroup with limits.
    pub(crate) fn create(parent: &Path, id: u64, limits: &Limits) -> io::Result<Self> {
        let cgroup = Self { path: parent.join(format!("{PREFIX}{}-{id}", ProcessIdentity::own_name())) };
        fs::create_dir(&cgroup.path)?;
        cgroup.set("memory.max", &limits.memory.to_string())?;
        // The runtime itself is in there for a moment, with a helper or two.
        cgroup.set("pids.max", &(u64::from(limits.processes) + 8).to_string())?;
        // Not every kernel counts swap, or kills all at once.
        let _ = cgroup.set("memory.swap.max", "0");
        let _ = cgroup.set("memory.oom.group", "1");
        if let Some(rate) = limits.cpu_rate {
            let quota = (u64::from(rate) * PERIOD / 1000).max(1000);
            cgroup.set("cpu.max", &format!("{quota} {PERIOD}"))?;
        }
        Ok(cgroup)
    }

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
        fs::write(parent.path().join("cgroup.subtree_control"), "cpu pids\n").expect("file");
        let error = check(parent.path()).expect_err("memory is missing");
        assert!(error.to_string().contains("lacks memory"), "{error}");
        fs::write(parent.path().join("cgroup.subtree_control"), "cpu memory pids\n").expect("file");
        check(parent.path()).expect("all is there");
    }

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let parent = tempfile::tempdir().expect("directory");
        let limits = Limits { memory: 1000, processes: 5, cpu_rate: Some(250), ..Limits::default() };
        let cgroup = Cgroup::create(parent.path(), 3, &limits).expect("cgroup");
        let read = |file: &str| fs::read_to_string(cgroup.path.join(file)).expect("file");
        assert_eq!(read("memory.max"), "1000");
        assert_eq!(read("pids.max"), "13");
        assert_eq!(read("cpu.max"), "25000 100000");
        assert!(!cgroup.ran_out_of_memory());
        fs::write(cgroup.path.join("memory.events"), "low 0\noom 1\noom_kill 1\n").expect("events");
        assert!(cgroup.ran_out_of_memory());
    }
}
