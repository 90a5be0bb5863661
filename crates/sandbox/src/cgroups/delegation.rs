//! Finds the cgroup that was delegated to this process, as systemd does it for a unit with `Delegate=yes`.
//!
//! The kernel gives controllers only to the children of a cgroup that has no processes itself. So this process moves below the delegated
//! cgroup first, with everything that it has started.
//!
//! That is right for a command of a user, too, and not only for a service: a delegated cgroup is used only if this process has started every
//! process in it. A shell in a delegated cgroup, or another program that it was delegated to, keeps it to itself.
//!
//! # Invariants
//! * A cgroup that is only writable is never used: systemd manages it, and does not expect others to change it.
//! * No process is moved that this one has not started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::getxattr;

use super::{CgroupDirectory, NEEDED, PREFIX, PROCESSORS, missing, names};
use crate::limits::Limits;

/// Where this process is, below the delegated cgroup. The prefix of containers is another one.
const OWN: &str = "control-plane";
/// How systemd marks what it delegates. Older releases have the second mark alone, which only root can read.
const MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];
/// The kinds of units for which systemd makes cgroups.
const UNITS: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];
/// How often to look again, or to move what was started while the rest was moved.
const TRIES: u32 = 5;

/// What was found. Several runtimes of one process share it, and must not look for it at the same time.
static FOUND: Mutex<Option<CgroupDirectory>> = Mutex::new(None);

/// The delegated cgroup, whose children can have limits.
pub(super) fn find() -> io::Result<CgroupDirectory> {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    match &*found {
        Some(directory) => Ok(directory.clone()),
        None => Ok(found.insert(look()?).clone()),
    }
}

fn look() -> io::Result<CgroupDirectory> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let memberships = fs::read_to_string("/proc/self/cgroup")?;
    let own = own_cgroup(&mounts, &memberships)
        .ok_or_else(|| io::Error::other("this process is in no cgroup of version 2"))?;
    let directory = prepare(&own, is_delegated)?;
    // What cannot be used is found out now, and not by the first call.
    drop(directory.try_create(&Limits::default())?);
    Ok(directory)
}

/// The directory of the cgroup that this process is in.
fn own_cgroup(mounts: &str, memberships: &str) -> Option<PathBuf> {
    let path = memberships.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mounted_on) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        kind.starts_with("cgroup2 ").then_some((fields.next()?, fields.next()?))
    })?;
    // In a namespace of cgroups, what is outside begins with `..`.
    let below = Path::new(path).strip_prefix(root).ok().filter(|below| !below.starts_with(".."))?;
    Some(Path::new(mounted_on).join(below))
}

fn is_delegated(cgroup: &Path) -> bool {
    MARKS.into_iter().any(|mark| {
        let mut value = [0_u8; 8];
        getxattr(cgroup, mark, &mut value).is_ok_and(|length| value[..length] == *b"1")
    })
}

/// The delegated cgroup that this process is in, or right below, as with `DelegateSubgroup=` of systemd.
fn prepare(own: &Path, is_delegated: impl Fn(&Path) -> bool) -> io::Result<CgroupDirectory> {
    // The parent of a unit belongs to the instance of systemd that started the unit, even if it was delegated to that.
    let mut candidates = own.ancestors().take(if is_unit(own) { 1 } else { 2 });
    let Some(delegated) = candidates.find(|cgroup| is_delegated(cgroup)) else {
        return Err(io::Error::other(format!("the cgroup `{}` was not delegated", own.display())));
    };
    let mut tries = 0..TRIES;
    while !has_only_ours(delegated)? {
        // A process that ended while its ancestors were looked up does not count.
        tries.next().ok_or_else(foreign)?;
    }
    if CgroupDirectory::open(delegated).is_err() {
        give_controllers(delegated)?;
    }
    CgroupDirectory::open(delegated)
}

fn foreign() -> io::Error {
    io::Error::other("it has processes that this one has not started")
}

fn is_unit(cgroup: &Path) -> bool {
    cgroup.extension().is_some_and(|extension| UNITS.iter().any(|unit| extension == *unit))
}

/// Whether this process has started everything in a cgroup, except what is in containers.
fn has_only_ours(cgroup: &Path) -> io::Result<bool> {
    if !fs::read_to_string(cgroup.join("cgroup.procs"))?.lines().all(is_ours) {
        return Ok(false);
    }
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        let is_container = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if entry.file_type()?.is_dir() && !is_container && !has_only_ours(&entry.path())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets the children of a cgroup have limits.
fn give_controllers(cgroup: &Path) -> io::Result<()> {
    let available = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
    let missing = missing(&available);
    if !missing.is_empty() {
        return Err(io::Error::other(format!("its `cgroup.controllers` lacks {}", missing.join(" and "))));
    }
    let wanted = NEEDED.into_iter().chain([PROCESSORS]).filter(|controller| names(&available, controller));
    let wanted: Vec<String> = wanted.map(|controller| format!("+{controller}")).collect();
    let mut tries = 0..TRIES;
    loop {
        leave(cgroup)?;
        match fs::write(cgroup.join("cgroup.subtree_control"), wanted.join(" ")) {
            // A process was started in the meantime.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries.next().is_some() => {}
            result => return result,
        }
    }
}

/// Moves this process and what it has started below a cgroup, if they are in there and no other is.
fn leave(cgroup: &Path) -> io::Result<()> {
    let inside = fs::read_to_string(cgroup.join("cgroup.procs"))?;
    if inside.trim().is_empty() {
        return Ok(());
    }
    if !inside.lines().all(is_ours) {
        return Err(foreign());
    }
    let below = cgroup.join(OWN);
    match fs::create_dir(&below) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for process in inside.lines() {
        match fs::write(below.join("cgroup.procs"), process) {
            // It has ended.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Whether a process is this one, or descends from it.
fn is_ours(process: &str) -> bool {
    let parent = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    std::iter::successors(process.parse().ok(), parent).any(|ancestor| ancestor == std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 30 0:22 / /proc rw shared:12 - proc proc rw\n\
        35 30 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// Files like those of a delegated cgroup.
    fn delegated(processes: &str, available: &str, enabled: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("directory");
        let files = [
            ("cgroup.procs", processes),
            ("cgroup.controllers", available),
            ("cgroup.subtree_control", enabled),
        ];
        for (name, content) in files {
            fs::write(directory.path().join(name), content).expect("file");
        }
        directory
    }

    #[test]
    fn own_cgroup_is_found_below_the_mount_of_version_2() {
        let own = own_cgroup(MOUNTS, "1:cpu:/x\n0::/system.slice/plane.service\n");
        assert_eq!(own, Some(PathBuf::from("/sys/fs/cgroup/system.slice/plane.service")));
        // A container sees a part of the hierarchy as if it were all of it.
        let part = MOUNTS.replace("0:30 / ", "0:30 /pods/one ");
        let own = own_cgroup(&part, "0::/pods/one/plane\n");
        assert_eq!(own, Some(PathBuf::from("/sys/fs/cgroup/plane")));
        assert_eq!(own_cgroup(&part, "0::/pods/two\n"), None);
        assert_eq!(own_cgroup(MOUNTS, "0::/../outside\n"), None);
        assert_eq!(own_cgroup(MOUNTS, "3:memory:/x\n"), None);
        assert_eq!(own_cgroup("24 30 0:22 / /proc rw - proc proc rw\n", "0::/\n"), None);
    }

    #[test]
    fn a_cgroup_that_was_not_delegated_is_left_alone() {
        let own = delegated(&std::process::id().to_string(), "cpu memory pids", "cpu memory pids");
        let error = prepare(own.path(), |_| false).expect_err("it may be anyone's");
        assert!(error.to_string().contains("was not delegated"), "{error}");
        assert!(!is_delegated(own.path()));
    }

    #[test]
    fn the_parent_is_used_if_that_is_what_was_delegated() {
        let parent = delegated("", "cpu memory pids", "memory pids");
        let prepare = |name: &str| prepare(&parent.path().join(name), |cgroup| cgroup == parent.path());
        assert_eq!(prepare("main").expect("it has controllers").path(), parent.path());
        // The parent of a unit was delegated to the systemd that started the unit.
        for unit in ["plane.service", "run-u1.scope"] {
            let error = prepare(unit).expect_err("it is systemd's");
            assert!(error.to_string().contains("was not delegated"), "{error}");
        }
    }

    #[test]
    fn this_process_moves_below_the_cgroup_before_its_children_have_controllers() {
        let own = delegated(&format!("{}\n", std::process::id()), "cpuset cpu io memory pids\n", "");
        give_controllers(own.path()).expect("controllers");
        let read = |file: &str| fs::read_to_string(own.path().join(file)).expect("file");
        assert_eq!(read("control-plane/cgroup.procs"), std::process::id().to_string());
        assert_eq!(read("cgroup.subtree_control"), "+memory +pids +cpu");
    }

    #[test]
    fn processes_of_others_are_not_moved() {
        let refused = |cgroup: &Path| {
            let error = prepare(cgroup, |_| true).expect_err("there is another process");
            assert!(error.to_string().contains("has not started"), "{error}");
            assert!(!cgroup.join(OWN).exists());
        };
        refused(delegated(&format!("{}\n1\n", std::process::id()), "memory pids", "").path());
        // It may be below, where the program is to which this was delegated.
        let elsewhere = delegated("", "memory pids", "memory pids");
        let below = |name: &str| {
            fs::create_dir(elsewhere.path().join(name)).expect("directory");
            fs::write(elsewhere.path().join(name).join("cgroup.procs"), "1\n").expect("file");
        };
        below("ferroplane-1.1-1");
        prepare(elsewhere.path(), |_| true).expect("containers are no obstacle");
        below("manager");
        refused(elsewhere.path());
        let few = delegated("", "cpu pids", "");
        let error = give_controllers(few.path()).expect_err("memory is missing");
        assert!(error.to_string().contains("lacks memory"), "{error}");
    }
}
