//! The files of an archive by their names: of a directory, or of a tarball whose table of contents was read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use super::Error;
use crate::compression::Compression;
use crate::store::Store;
use crate::tar::{EntryKind, Reader};
use crate::unpack::{Bounded, Limits};

/// How many entries a tarball may have: files of an image, not of its layers.
const MAX_ENTRIES: usize = 100_000;
/// How long a name in a tarball may be.
const MAX_NAME: usize = 1024;
/// How often one entry may link to another. `docker save` linked a layer to an equal one.
const MAX_LINKS: usize = 8;

/// The files of an archive.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    kind: FilesKind,
}

#[derive(Debug)]
enum FilesKind {
    Directory(OwnedFd),
    Tarball { file: File, table: HashMap<String, Location> },
}

#[derive(Debug)]
enum Location {
    Content { offset: u64, size: u64 },
    Link(String),
}

/// One file to read.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) size: u64,
    file: File,
    offset: u64,
    remaining: u64,
}

impl Content {
    fn new(file: File, offset: u64, size: u64) -> Self {
        Self { size, file, offset, remaining: size }
    }
}

/// Reads from a position of its own: copies of a file share theirs.
impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..length], self.offset)?;
        self.offset += count as u64;
        self.remaining -= count as u64;
        Ok(count)
    }
}

impl Files {
    pub(super) fn open(path: &Path, store: &Store) -> Result<Self, Error> {
        let metadata = std::fs::metadata(path).map_err(Error::io("open", path))?;
        let kind = if metadata.is_dir() {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(path, flags, Mode::empty());
            FilesKind::Directory(directory.map_err(|error| Error::io("open", path)(error.into()))?)
        } else {
            let file = plain(File::open(path).map_err(Error::io("open", path))?, path, store)?;
            let table = read_table(&file, path)?;
            FilesKind::Tarball { file, table }
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.read(name).is_ok()
    }

    /// A file by its name, which may come from the archive itself.
    pub(super) fn read(&self, name: &str) -> Result<Content, Error> {
        match &self.kind {
            FilesKind::Directory(directory) => self.read_from(directory, name),
            FilesKind::Tarball { file, table } => {
                let (offset, size) = locate(table, name).ok_or_else(|| missing(name))?;
                let file = file.try_clone().map_err(Error::io("read", &self.path))?;
                Ok(Content::new(file, offset, size))
            }
        }
    }

    /// A small file.
    pub(super) fn read_to_vec(&self, name: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let mut content = self.read(name)?;
        if content.size > limit {
            return Err(Error::TooLarge { name: name.to_owned(), size: content.size, limit });
        }
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(Error::io("read", &self.path))?;
        Ok(bytes)
    }

    /// Resolve one part after the other, and follow no link: the content of an unpacked directory is not trusted.
    fn read_from(&self, directory: &OwnedFd, name: &str) -> Result<Content, Error> {
        let failed = |error: rustix::io::Errno| Error::io("read", &self.path.join(name))(error.into());
        let mut parts: Vec<&str> = name.split('/').collect();
        let last = parts.pop().filter(|_| is_plain(name)).ok_or_else(|| missing(name))?;
        let mut directory = directory.try_clone().map_err(Error::io("read", &self.path))?;
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        for part in parts {
            directory = rustix::fs::openat(&directory, part, flags | OFlags::DIRECTORY, Mode::empty())
                .map_err(failed)?;
        }
        // A pipe would wait for a writer otherwise.
        let file =
            rustix::fs::openat(&directory, last, flags | OFlags::NONBLOCK, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(missing(name));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Content::new(File::from(file), 0, size))
    }
}

fn missing(name: &str) -> Error {
    Error::Missing { name: name.chars().take(200).collect() }
}

fn is_plain(name: &str) -> bool {
    !name.contains('\0') && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn locate(table: &HashMap<String, Location>, name: &str) -> Option<(u64, u64)> {
    let mut name = name;
    for _ in 0..MAX_LINKS {
        match table.get(name)? {
            Location::Content { offset, size } => return Some((*offset, *size)),
            Location::Link(target) => name = target,
        }
    }
    None
}

/// The file, uncompressed. A compressed one is uncompressed to a file without a name, which vanishes with us.
fn plain(mut file: File, path: &Path, store: &Store) -> Result<File, Error> {
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start).map_err(Error::io("read", path))?;
    file.seek(SeekFrom::Start(0)).map_err(Error::io("read", path))?;
    let compression = Compression::of_content(&start);
    if compression == Compression::None {
        return Ok(file);
    }
    let limits = Limits::default();
    let mut content = Bounded::new(file, compression, limits.bytes, &limits);
    let mut plain =
        tempfile::tempfile_in(store.directory()).map_err(Error::io("create a file in", store.directory()))?;
    io::copy(&mut content, &mut plain).map_err(Error::io("uncompress", path))?;
    plain.seek(SeekFrom::Start(0)).map_err(Error::io("read", path))?;
    Ok(plain)
}

/// Where the entries of a tarball are.
fn read_table(file: &File, path: &Path) -> Result<HashMap<String, Location>, Error> {
    let failed = |source| Error::Archive { path: path.to_owned(), source };
    let refused = |reason| Error::Table { path: path.to_owned(), reason };
    let mut table = HashMap::new();
    let mut reader = Reader::new(BufReader::with_capacity(1 << 16, file));
    while let Some(entry) = reader.next_entry().map_err(failed)? {
        if table.len() == MAX_ENTRIES {
            return Err(refused("it has more than 100000 entries"));
        }
        if entry.path.len() > MAX_NAME || entry.link.len() > MAX_NAME {
            return Err(refused("a name in it has more than 1024 bytes"));
        }
        let Some(name) = normal(&entry.path) else { continue };
        let location = match entry.kind {
            EntryKind::File => Location::Content { offset: reader.position(), size: entry.size },
            EntryKind::Symlink | EntryKind::HardLink => match target(&entry.link, &name, entry.kind) {
                Some(target) => Location::Link(target),
                None => continue,
            },
            _ => continue,
        };
        if table.insert(name, location).is_some() {
            return Err(refused("it has two entries of the same name"));
        }
    }
    Ok(table)
}

/// The name that others refer to. Names that are no text, or lead upwards, cannot be referred to.
fn normal(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

/// What a link in a tarball leads to, by the names in the tarball alone.
fn target(link: &[u8], name: &str, kind: EntryKind) -> Option<String> {
    let link = std::str::from_utf8(link).ok()?;
    let mut parts: Vec<&str> = Vec::new();
    if kind == EntryKind::Symlink {
        parts.extend(name.split('/'));
        parts.pop();
    }
    for part in link.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}
