//! The directory that an image is unpacked to. Every name is looked up by one system call of its own, from a directory that is open
//! already, and never through a link: the kernel cannot be led astray by what the image put there.
//!
//! # Invariants
//! * Nothing outside of the root is opened, created, changed or removed.
//! * The trail holds directories of the tree, never links, and is shortened when one of them is removed.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::error::printable;
use super::{Limits, Refusal};
use crate::tar::Timestamp;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What to do about a directory that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Stop,
}

/// Answers whether this layer made what is at a path.
pub(super) trait Ownership {
    fn is_of_this_layer(&self, path: &[u8]) -> bool;
}

/// The root, and the directories that lead to where the last entry was.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    trail: Vec<(Vec<u8>, OwnedFd)>,
    /// To whom files and directories are given, user and group.
    owner: Option<u32>,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, Errno> {
        let root = rustix::fs::open(root, DIRECTORY | OFlags::RDONLY, Mode::empty())?;
        Ok(Self { root, trail: Vec::new(), owner: None })
    }

    pub(super) fn set_owner(&mut self, owner: Option<u32>) {
        self.owner = owner;
    }

    /// Give a file or directory of ours to its owner. Its mode has to be set after that.
    pub(super) fn give_away(&self, file: impl AsFd) -> Result<(), Refusal> {
        let Some(owner) = self.owner else { return Ok(()) };
        let (user, group) = (rustix::fs::Uid::from_raw(owner), rustix::fs::Gid::from_raw(owner));
        rustix::fs::fchown(file, Some(user), Some(group)).map_err(Refusal::io("set the owner"))
    }

    /// The directory that was entered last.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.trail.last().map_or(self.root.as_fd(), |(_, directory)| directory.as_fd())
    }

    /// The path of something in the directory that was entered last, without any link in it.
    pub(super) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::new();
        for (part, _) in &self.trail {
            path.extend_from_slice(part);
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// Enter a directory. Follows links that layers below made, within the root. Returns the directories that had to be made,
    /// or nothing if one is missing and must not be made.
    pub(super) fn enter(
        &mut self,
        path: &[&[u8]],
        missing: Missing,
        owner: &impl Ownership,
        limits: &Limits,
    ) -> Result<Option<Vec<Vec<u8>>>, Refusal> {
        // Most entries are beside the one before: what both paths have in common is open already.
        let known = self.trail.iter().zip(path).take_while(|((have, _), want)| have == *want).count();
        self.trail.truncate(known);
        let mut pending: VecDeque<Vec<u8>> = path[known..].iter().map(|part| part.to_vec()).collect();
        let mut made = Vec::new();
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            // Only links have such parts; names of entries are refused for them.
            if name == b".." {
                self.trail.pop().ok_or(Refusal::LeavesRoot)?;
                continue;
            }
            match self.child(&name)? {
                Child::Directory(directory) => self.trail.push((name, directory)),
                Child::Missing if missing == Missing::Stop => return Ok(None),
                Child::Missing => {
                    made.push(self.path_of(&name));
                    let directory = self.make_directory(&name)?;
                    self.trail.push((name, directory));
                }
                Child::Other => return Err(Refusal::NotADirectory(printable(&self.path_of(&name)))),
                Child::Link(target) => {
                    links += 1;
                    self.check_link(&name, links, owner)?;
                    self.follow(&target, &mut pending);
                }
            }
            self.check_depth(limits)?;
        }
        Ok(Some(made))
    }

    /// Forget directories that may be gone.
    pub(super) fn forget_trail(&mut self) {
        self.trail.clear();
    }

    pub(super) fn stat(&self, name: &[u8]) -> Result<Option<Stat>, Refusal> {
        match rustix::fs::statat(self.directory(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Refusal::io("inspect an existing path")(error)),
        }
    }

    /// Make a directory that only we can enter, and open it.
    pub(super) fn make_directory(&self, name: &[u8]) -> Result<OwnedFd, Refusal> {
        rustix::fs::mkdirat(self.directory(), name, Mode::RWXU)
            .map_err(Refusal::io("create the directory"))?;
        let directory = self.open_directory(name).map_err(Refusal::io("open the directory"))?;
        self.give_away(&directory)?;
        // Whatever the umask is. A directory that the image does not list is as others make it.
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o755)).map_err(Refusal::io("set the mode"))?;
        Ok(directory)
    }

    pub(super) fn open_directory(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(self.directory(), name, DIRECTORY | OFlags::RDONLY, Mode::empty())
    }

    /// Remove a file, or a directory with all that is in it.
    pub(super) fn remove(&mut self, name: &[u8]) -> Result<(), Refusal> {
        remove(self.directory(), name).map_err(Refusal::io("remove an existing path"))
    }

    fn follow(&mut self, target: &[u8], pending: &mut VecDeque<Vec<u8>>) {
        // The root of the image, never that of the machine.
        if target.starts_with(b"/") {
            self.trail.clear();
        }
        let parts = target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        for part in parts.rev() {
            pending.push_front(part.to_vec());
        }
    }

    fn check_link(&self, name: &[u8], links: usize, owner: &impl Ownership) -> Result<(), Refusal> {
        let path = self.path_of(name);
        if owner.is_of_this_layer(&path) {
            return Err(Refusal::ThroughLink(printable(&path)));
        }
        if links > Limits::MAX_LINKS {
            return Err(Refusal::TooManyLinks(Limits::MAX_LINKS));
        }
        Ok(())
    }

    fn check_depth(&self, limits: &Limits) -> Result<(), Refusal> {
        // The entry itself comes on top.
        let depth = self.trail.len() + 1;
        if depth > limits.depth {
            return Err(Refusal::TooDeep { found: depth, limit: limits.depth });
        }
        let length = self.trail.iter().map(|(part, _)| part.len() + 1).sum();
        if length > limits.path_bytes {
            return Err(Refusal::PathTooLong { found: length, limit: limits.path_bytes });
        }
        Ok(())
    }

    fn child(&self, name: &[u8]) -> Result<Child, Refusal> {
        match self.open_directory(name) {
            Ok(directory) => Ok(Child::Directory(directory)),
            Err(Errno::NOENT) => Ok(Child::Missing),
            // Both flags refuse a link, and systems differ in which of the two errors they give.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                match rustix::fs::readlinkat(self.directory(), name, Vec::new()) {
                    Ok(target) => Ok(Child::Link(target.into_bytes())),
                    Err(_) => Ok(Child::Other),
                }
            }
            Err(error) => Err(Refusal::io("open the directory")(error)),
        }
    }
}

enum Child {
    Directory(OwnedFd),
    Link(Vec<u8>),
    Other,
    Missing,
}

/// The names in a directory.
pub(super) fn names(directory: BorrowedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Remove a file, or a directory with all that is in it. Never follows a link. The depth is that of a tree that we made.
pub(super) fn remove(parent: BorrowedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        // Of a directory, Linux says the former and POSIX the latter.
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    let directory = rustix::fs::openat(parent, name, DIRECTORY | OFlags::RDONLY, Mode::empty())?;
    for child in names(directory.as_fd())? {
        remove(directory.as_fd(), &child)?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

pub(super) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Both times of a file: when it was last read is nobody's business.
pub(super) fn times(time: Timestamp) -> Timestamps {
    // Far more than any file system can keep.
    const LATEST: u64 = 1 << 40;
    let seconds = time.seconds.min(LATEST).cast_signed();
    let time = Timespec { tv_sec: seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}
