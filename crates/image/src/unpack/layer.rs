//! Applies the entries of one layer to the tree.
//!
//! # Invariants
//! * A whiteout hides what the layers below have, never what its own layer has, whatever their order is.
//! * What is replaced is removed first, so that no write goes through a link or to a file that has other names.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, Write as _};
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;

use super::error::printable;
use super::path::{Leaf, components, has_whiteout};
use super::tree::{self, Missing, Ownership, Tree, is_directory, times};
use super::{DirectoryTimes, Error, LimitExceeded, Limits, Refusal, Summary};
use crate::tar::{self, Entry, EntryKind, Reader, Timestamp};

/// The bits of the mode that are kept. Setuid and setgid would give rights, and sticky means nothing with one user.
const MODE: u32 = 0o777;

/// Applies one layer.
pub(super) struct Layer<'a> {
    pub(super) tree: &'a mut Tree,
    pub(super) limits: &'a Limits,
    pub(super) summary: &'a mut Summary,
    pub(super) times: &'a mut DirectoryTimes,
    pub(super) made: Made,
}

/// The entries of this layer. They are needed only from the second layer on.
#[derive(Debug)]
pub(super) enum Made {
    Everything,
    Paths(HashSet<Vec<u8>>),
}

impl Made {
    /// Remember a path and the directories on the way to it.
    fn insert(&mut self, path: Vec<u8>) {
        let Self::Paths(paths) = self else { return };
        let mut length = path.len();
        while let Some(parent) = path[..length].iter().rposition(|byte| *byte == b'/') {
            // All directories above it were inserted with it.
            if !paths.insert(path[..parent].to_vec()) {
                break;
            }
            length = parent;
        }
        paths.insert(path);
    }
}

impl Ownership for Made {
    fn is_of_this_layer(&self, path: &[u8]) -> bool {
        match self {
            Self::Everything => true,
            Self::Paths(paths) => paths.contains(path),
        }
    }
}

impl Layer<'_> {
    /// Apply all entries, and read the source to its end.
    pub(super) fn apply(&mut self, source: impl BufRead) -> Result<(), Error> {
        let mut reader = Reader::new(source);
        while let Some(entry) = reader.next_entry()? {
            self.count(&entry)?;
            self.entry(&entry, &mut reader).map_err(|error| error.at(&entry))?;
        }
        // The digest is of all bytes, also of those behind the end of the archive.
        Ok(reader.drain()?)
    }

    fn count(&mut self, entry: &Entry) -> Result<(), LimitExceeded> {
        self.summary.entries += 1;
        self.summary.name_bytes += (entry.path.len() + entry.link.len()) as u64;
        if self.summary.entries > self.limits.entries {
            return Err(LimitExceeded::Entries(self.limits.entries));
        }
        if self.summary.name_bytes > self.limits.name_bytes {
            return Err(LimitExceeded::Names(self.limits.name_bytes));
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, content: &mut Reader<impl BufRead>) -> Result<(), Fault> {
        let path = components(&entry.path, self.limits)?;
        let Some((name, parents)) = path.split_last() else { return Ok(self.root(entry)?) };
        if has_whiteout(parents) {
            return Err(Refusal::BadWhiteout.into());
        }
        match Leaf::of(name)? {
            Leaf::Ignored => Ok(()),
            Leaf::Opaque => Ok(self.hide_all(parents)?),
            Leaf::Whiteout(hidden) => Ok(self.hide(parents, hidden)?),
            Leaf::Name(name) => self.make(entry, parents, name, content),
        }
    }

    fn make(
        &mut self,
        entry: &Entry,
        parents: &[&[u8]],
        name: &[u8],
        content: &mut Reader<impl BufRead>,
    ) -> Result<(), Fault> {
        match entry.kind {
            // It enters the directory of its target first.
            EntryKind::HardLink => return Ok(self.hard_link(entry, parents, name)?),
            _ => self.enter(parents)?,
        }
        let path = self.tree.path_of(name);
        match entry.kind {
            EntryKind::Directory => self.directory(entry, name)?,
            EntryKind::File => self.file(entry, name, content)?,
            EntryKind::Symlink => self.symlink(entry, name)?,
            // A container gets its devices from its runtime, and pipes that we might open would block us.
            EntryKind::Device | EntryKind::Fifo => self.skip(name)?,
            EntryKind::HardLink => unreachable!("hard links are made above"),
        }
        self.made.insert(path);
        Ok(())
    }

    /// Enter the directory of an entry, making what is missing.
    fn enter(&mut self, parents: &[&[u8]]) -> Result<(), Refusal> {
        let made = self.tree.enter(parents, Missing::Create, &self.made, self.limits)?;
        for path in made.into_iter().flatten() {
            self.times.insert(path, Timestamp::default());
        }
        Ok(())
    }

    /// An entry for the root itself: a directory, or nothing that we would do.
    fn root(&mut self, entry: &Entry) -> Result<(), Refusal> {
        if entry.kind != EntryKind::Directory {
            return Err(Refusal::ReplacesRoot);
        }
        // Without a trail, the directory that was entered last is the root.
        self.tree.forget_trail();
        rustix::fs::fchmod(self.tree.directory(), directory_mode(entry))
            .map_err(Refusal::io("set the mode"))?;
        self.times.insert(Vec::new(), entry.time);
        Ok(())
    }

    fn directory(&mut self, entry: &Entry, name: &[u8]) -> Result<(), Refusal> {
        let directory = match self.tree.stat(name)? {
            Some(stat) if is_directory(&stat) => {
                self.tree.open_directory(name).map_err(Refusal::io("open the directory"))?
            }
            Some(_) => {
                self.tree.remove(name)?;
                self.tree.make_directory(name)?
            }
            None => self.tree.make_directory(name)?,
        };
        rustix::fs::fchmod(&directory, directory_mode(entry)).map_err(Refusal::io("set the mode"))?;
        self.times.insert(self.tree.path_of(name), entry.time);
        Ok(())
    }

    fn file(&mut self, entry: &Entry, name: &[u8], content: &mut Reader<impl BufRead>) -> Result<(), Fault> {
        let limit = self.limits.file_bytes;
        if entry.size > limit {
            return Err(Refusal::FileTooLarge { found: entry.size, limit }.into());
        }
        let mut file = self.replace(name, "create the file", |tree| {
            // `EXCL` fails on everything that is there, also on a link, so that nothing is written through one.
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(tree.directory(), name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
        })?;
        loop {
            let chunk = content.fill_buf().map_err(Fault::content)?;
            if chunk.is_empty() {
                break;
            }
            let length = chunk.len();
            file.write_all(chunk).map_err(|source| Refusal::Io { action: "write the file", source })?;
            content.consume(length);
        }
        self.tree.give_away(&file)?;
        // We must be able to read it, to copy it if nothing else.
        let mode = Mode::from_raw_mode(((entry.mode & MODE) | 0o400) as RawMode);
        rustix::fs::fchmod(&file, mode).map_err(Refusal::io("set the mode"))?;
        rustix::fs::futimens(&file, &times(entry.time)).map_err(Refusal::io("set the time"))?;
        self.summary.file_bytes += entry.size;
        Ok(())
    }

    /// Create a link as it is written. Only the container resolves its target, in its own root.
    fn symlink(&mut self, entry: &Entry, name: &[u8]) -> Result<(), Refusal> {
        let target = entry.link.as_slice();
        if target.is_empty() || target.len() > self.limits.path_bytes || target.contains(&0) {
            return Err(Refusal::BadLink);
        }
        self.replace(name, "create the symbolic link", |tree| {
            rustix::fs::symlinkat(target, tree.directory(), name)
        })?;
        let times = times(entry.time);
        rustix::fs::utimensat(self.tree.directory(), name, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Refusal::io("set the time"))
    }

    fn hard_link(&mut self, entry: &Entry, parents: &[&[u8]], name: &[u8]) -> Result<(), Refusal> {
        let missing = || Refusal::LinkTargetMissing(printable(&entry.link));
        let target = components(&entry.link, self.limits).map_err(|_| Refusal::BadLink)?;
        let (target_name, target_parents) = target.split_last().ok_or(Refusal::BadLink)?;
        self.tree.enter(target_parents, Missing::Stop, &self.made, self.limits)?.ok_or_else(missing)?;
        let target_path = self.tree.path_of(target_name);
        let stat = self.tree.stat(target_name)?.ok_or_else(missing)?;
        if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink) {
            return Err(Refusal::LinkTargetKind(printable(&entry.link)));
        }
        // Kept open: to enter the directory of the link forgets that of the target.
        let duplicate = self.tree.directory().try_clone_to_owned();
        let directory = duplicate.map_err(|source| Refusal::Io { action: "open the directory", source })?;

        self.enter(parents)?;
        let path = self.tree.path_of(name);
        // `replace` would remove the target before anything links to it.
        if target_path == path || is_below(&target_path, &path) {
            return Err(Refusal::LinkToItself);
        }
        self.replace(name, "create the hard link", |tree| {
            // Without the flag to follow: a symbolic link gets a second name, and not what it points to.
            rustix::fs::linkat(&directory, *target_name, tree.directory(), name, AtFlags::empty())
        })?;
        self.made.insert(path);
        Ok(())
    }

    /// What the image has here is no file that we make; what was here before is gone all the same.
    fn skip(&mut self, name: &[u8]) -> Result<(), Refusal> {
        self.summary.skipped += 1;
        if self.tree.stat(name)?.is_some() {
            self.tree.remove(name)?;
        }
        Ok(())
    }

    /// Make something, after removing what is in its place.
    fn replace<T>(
        &mut self,
        name: &[u8],
        action: &'static str,
        mut make: impl FnMut(&Tree) -> Result<T, Errno>,
    ) -> Result<T, Refusal> {
        match make(self.tree) {
            Err(Errno::EXIST) => {
                self.tree.remove(name)?;
                make(self.tree).map_err(Refusal::io(action))
            }
            other => other.map_err(Refusal::io(action)),
        }
    }

    fn hide(&mut self, parents: &[&[u8]], name: &[u8]) -> Result<(), Refusal> {
        if self.enter_if_there(parents)? && self.tree.stat(name)?.is_some() {
            let path = self.tree.path_of(name);
            self.remove_lower(self.tree.directory(), name, &path)
                .map_err(Refusal::io("remove a path that a whiteout hides"))?;
        }
        Ok(())
    }

    fn hide_all(&mut self, directory: &[&[u8]]) -> Result<(), Refusal> {
        if !self.enter_if_there(directory)? {
            return Ok(());
        }
        let hide = || {
            let directory = self.tree.directory();
            for name in tree::names(directory)? {
                self.remove_lower(directory, &name, &self.tree.path_of(&name))?;
            }
            Ok(())
        };
        hide().map_err(Refusal::io("remove a path that a whiteout hides"))
    }

    fn enter_if_there(&mut self, parents: &[&[u8]]) -> Result<bool, Refusal> {
        Ok(self.tree.enter(parents, Missing::Stop, &self.made, self.limits)?.is_some())
    }

    /// Remove what the layers below have at a path, and leave what this layer has.
    fn remove_lower(&self, parent: std::os::fd::BorrowedFd, name: &[u8], path: &[u8]) -> Result<(), Errno> {
        if !self.made.is_of_this_layer(path) {
            return tree::remove(parent, name);
        }
        // Of the lowest layer, everything below is its own, too: there is nothing to hide.
        if matches!(self.made, Made::Everything)
            || !is_directory(&rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?)
        {
            return Ok(());
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        for child in tree::names(directory.as_fd())? {
            self.remove_lower(directory.as_fd(), &child, &[path, b"/", &child].concat())?;
        }
        Ok(())
    }
}

/// We must be able to delete what is in it.
fn directory_mode(entry: &Entry) -> Mode {
    Mode::from_raw_mode(((entry.mode & MODE) | 0o700) as RawMode)
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

/// What is wrong with an entry, or with the archive that it is in.
enum Fault {
    Entry(Refusal),
    Archive(tar::Error),
}

impl Fault {
    fn content(error: std::io::Error) -> Self {
        Self::Archive(if error.kind() == std::io::ErrorKind::UnexpectedEof {
            tar::Error::Truncated
        } else {
            error.into()
        })
    }

    fn at(self, entry: &Entry) -> Error {
        match self {
            Self::Entry(source) => Error::Entry { path: printable(&entry.path), source },
            Self::Archive(error) => error.into(),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Entry(refusal)
    }
}
