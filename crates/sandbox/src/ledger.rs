//! The ledger: which hosts were started, so that one that is left over can be ended.
//!
//! A file for each host, written and synced before the host may start anything. A process is known by its number and by when it started,
//! since numbers are used again. The next start ends hosts whose owner is gone; those of others that still run are left alone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A directory of entries.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    directory: PathBuf,
}

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pid: i32,
    /// In ticks since the machine started.
    started: u64,
    /// Which start of the machine.
    boot: String,
}

/// What an entry says.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    owner: ProcessIdentity,
    host: ProcessIdentity,
    cgroups: Option<PathBuf>,
}

/// An entry. It outlives this value unless it is removed.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
}

impl Ledger {
    /// Opens the ledger, and ends what is left over.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        let ledger = Self { directory };
        ledger.recover(true)?;
        Ok(ledger)
    }

    /// Ends what is left over in a directory, if it is one of a ledger. Another thread may be writing a draft at the same time, so that those
    /// stay until the ledger is opened.
    pub(crate) fn end_leftovers(directory: PathBuf) -> io::Result<()> {
        if directory.is_dir() { Self { directory }.recover(false) } else { Ok(()) }
    }

    /// Notes that a host was started. When this returns, the note survives a loss of power.
    pub(crate) fn note(&self, host: u32, cgroups: Option<&Path>) -> io::Result<Entry> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let host = ProcessIdentity::of(i32::try_from(host).map_err(io::Error::other)?).ok_or_else(gone)?;
        let owner = ProcessIdentity::of(rustix::process::getpid().as_raw_nonzero().get()).ok_or_else(gone)?;
        let name = format!("{}-{}", host.pid, host.started);
        let record = Record { owner, host, cgroups: cgroups.map(Path::to_owned) };
        let (path, draft) =
            (self.directory.join(format!("{name}.json")), self.directory.join(format!("{name}.draft")));
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(Entry { path })
    }

    /// Ends hosts whose owner is gone, and forgets those that are gone themselves.
    fn recover(&self, removes_drafts: bool) -> io::Result<()> {
        let mut recovered = Ok(());
        for file in fs::read_dir(&self.directory)? {
            let path = file?.path();
            // A draft was never renamed, so that its host never began.
            let is_draft = path.extension().is_some_and(|extension| extension == "draft");
            if is_draft && !removes_drafts {
                continue;
            }
            let record = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
            if record.as_ref().is_some_and(|record| record.owner.is_alive()) {
                continue;
            }
            if let Some(record) = record.filter(|_| !is_draft) {
                record.end();
            }
            let removed = match fs::remove_file(&path) {
                // Another process that starts now has done the same.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result,
            };
            // An entry that cannot be removed must not let the hosts of other entries run on.
            recovered = recovered.and(removed);
        }
        recovered
    }
}

impl Record {
    fn end(&self) {
        if self.host.kill() {
            tracing::info!(pid = self.host.pid, "ended containers that a process left behind");
        }
        if let Some(cgroups) = &self.cgroups {
            crate::cgroups::remove_all(cgroups);
        }
    }
}

impl Entry {
    /// The host is gone.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl ProcessIdentity {
    /// The name of this process in names of files: another process never has it while the machine runs.
    pub(crate) fn own_name() -> String {
        let own = Self::of(rustix::process::getpid().as_raw_nonzero().get());
        own.map_or_else(|| std::process::id().to_string(), |own| format!("{}.{}", own.pid, own.started))
    }

    /// Whether the process with this name is alive.
    pub(crate) fn is_alive_with_name(name: &str) -> bool {
        let (pid, started) = name.split_once('.').unwrap_or((name, ""));
        let found = pid.parse().ok().and_then(Self::of);
        found.is_some_and(|found| started.is_empty() || found.started.to_string() == started)
    }

    fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        // A dead process that was not waited for does nothing any more.
        if fields.next()? == "Z" {
            return None;
        }
        let started = fields.nth(18)?.parse().ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        Some(Self { pid, started, boot })
    }

    fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Ends it and waits until it is gone. Says whether it was there.
    fn kill(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        // First a handle, then the check: whatever has the number after that, the handle means the process that was checked.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        if !self.is_alive() {
            return false;
        }
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        let started = Instant::now();
        while self.is_alive() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().expect("sleep")
    }

    fn record(owner: ProcessIdentity, host: ProcessIdentity) -> Vec<u8> {
        serde_json::to_vec(&Record { owner, host, cgroups: None }).expect("JSON")
    }

    fn identity(child: &Child) -> ProcessIdentity {
        ProcessIdentity::of(i32::try_from(child.id()).expect("pid")).expect("process")
    }

    fn gone() -> ProcessIdentity {
        let mut child = sleeper();
        let identity = identity(&child);
        child.kill().expect("kill");
        child.wait().expect("wait");
        identity
    }

    #[track_caller]
    fn recover(owner: ProcessIdentity, host: ProcessIdentity) -> usize {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("1-1.json"), record(owner, host)).expect("entry");
        Ledger::open(directory.path().to_owned()).expect("ledger");
        fs::read_dir(directory.path()).expect("list").count()
    }

    #[test]
    fn a_host_whose_owner_is_gone_is_ended() {
        let mut child = sleeper();
        assert_eq!(recover(gone(), identity(&child)), 0);
        assert!(child.try_wait().expect("wait").is_some());
    }

    #[test]
    fn a_host_whose_owner_lives_is_left_alone() {
        let mut child = sleeper();
        let own = ProcessIdentity::of(i32::try_from(std::process::id()).expect("pid")).expect("process");
        assert_eq!(recover(own, identity(&child)), 1);
        assert!(child.try_wait().expect("wait").is_none());
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    #[test]
    fn what_is_left_over_is_ended_without_opening_the_ledger() {
        let directory = tempfile::tempdir().expect("directory");
        Ledger::end_leftovers(directory.path().join("none")).expect("nothing is left over");
        let mut child = sleeper();
        fs::write(directory.path().join("1-1.json"), record(gone(), identity(&child))).expect("entry");
        fs::write(directory.path().join("2-2.draft"), "").expect("draft");
        Ledger::end_leftovers(directory.path().to_owned()).expect("ledger");
        assert!(child.try_wait().expect("wait").is_some());
        let left = fs::read_dir(directory.path()).expect("list").map(|file| file.expect("file").file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["2-2.draft"], "it may be being written");
    }

    #[test]
    fn entries_that_cannot_be_removed_leave_no_other_host_running() {
        let directory = tempfile::tempdir().expect("directory");
        let mut child = sleeper();
        fs::write(directory.path().join("2-2.json"), record(gone(), identity(&child))).expect("entry");
        for name in ["1-1.json", "3-3.json"] {
            fs::create_dir(directory.path().join(name)).expect("no entry");
        }
        Ledger::end_leftovers(directory.path().to_owned()).expect_err("a directory is not removed");
        assert!(child.try_wait().expect("wait").is_some());
    }

    #[test]
    fn a_process_that_has_the_number_of_a_host_is_not_killed() {
        let mut child = sleeper();
        let mut earlier = identity(&child);
        earlier.started -= 1;
        assert_eq!(recover(gone(), earlier), 0);
        let mut other_boot = identity(&child);
        other_boot.boot = "another".to_owned();
        assert_eq!(recover(gone(), other_boot), 0);
        assert!(child.try_wait().expect("wait").is_none());
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    #[test]
    fn process_is_known_by_its_name_even_if_another_one_had_its_number() {
        let own = ProcessIdentity::own_name();
        assert!(ProcessIdentity::is_alive_with_name(&own));
        let (pid, _) = own.split_once('.').expect("pid and start");
        assert!(ProcessIdentity::is_alive_with_name(pid), "releases before named the number alone");
        for gone in [format!("{pid}.1"), "4294967295".to_owned(), "x".to_owned()] {
            assert!(!ProcessIdentity::is_alive_with_name(&gone), "{gone}");
        }
    }

    #[test]
    fn entries_that_cannot_be_read_are_dropped() {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("1.json"), "{\"owner\":").expect("entry");
        fs::write(directory.path().join("2.draft"), "").expect("draft");
        Ledger::open(directory.path().to_owned()).expect("ledger");
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 0);
    }

    #[test]
    fn a_noted_host_is_in_the_ledger_until_it_is_removed() {
        let directory = tempfile::tempdir().expect("directory");
        let ledger = Ledger::open(directory.path().to_owned()).expect("ledger");
        let mut child = sleeper();
        let entry = ledger.note(child.id(), None).expect("note");
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1);
        entry.remove();
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 0);
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}
