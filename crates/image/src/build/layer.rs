//! A layer to build: files, directories and links by their path in the image.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::{DiffId, Error};
use crate::store::{BlobWriter, Store};
use crate::tar::{BLOCK, Member, Writer};
use crate::{Algorithm, Descriptor, Hasher, media_type};

/// What it costs to be fast matters more than the last byte: layers are built by people who wait.
const LEVEL: u32 = 6;

const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

/// A layer to build.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    /// By their path, without a slash at either end. Parents come before what is in them.
    nodes: BTreeMap<Vec<u8>, Node>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File { content: Content, mode: u32 },
    Symlink(Vec<u8>),
}

#[derive(Debug, Clone)]
enum Content {
    Memory(Vec<u8>),
    File { path: PathBuf, size: u64 },
}

impl Layer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Annotate the layer in the manifest.
    #[must_use]
    pub fn annotate(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Add everything in a directory, below a directory of the image. Links are taken as they are.
    pub fn add_directory(&mut self, source: &Path, target: &str) -> Result<(), Error> {
        let read = |source_error| Error::Read { path: source.to_owned(), source: source_error };
        for entry in fs::read_dir(source).map_err(read)? {
            let entry = entry.map_err(read)?;
            let path = [target.as_bytes(), b"/", entry.file_name().as_bytes()].concat();
            self.add_path(&entry.path(), &path)?;
        }
        Ok(())
    }

    /// Add a file, such as a program. A link is followed, since its name is meant.
    pub fn add_file(&mut self, source: &Path, target: &str) -> Result<(), Error> {
        let metadata =
            fs::metadata(source).map_err(|error| Error::Read { path: source.to_owned(), source: error })?;
        if !metadata.is_file() {
            return Err(Error::Kind { path: source.to_owned() });
        }
        self.insert(target.as_bytes(), file(source, &metadata))
    }

    /// Add a file that is in memory.
    pub fn add_bytes(&mut self, content: Vec<u8>, target: &str, is_program: bool) -> Result<(), Error> {
        let mode = if is_program { PROGRAM_MODE } else { FILE_MODE };
        self.insert(target.as_bytes(), Node::File { content: Content::Memory(content), mode })
    }

    pub fn add_symlink(&mut self, link: &str, target: &str) -> Result<(), Error> {
        self.insert(target.as_bytes(), Node::Symlink(link.as_bytes().to_vec()))
    }

    /// An empty directory.
    pub fn add_empty_directory(&mut self, target: &str) -> Result<(), Error> {
        self.insert(target.as_bytes(), Node::Directory)
    }

    /// Write the archive, uncompressed. The same layer gives the same bytes.
    pub fn write_archive(&self, target: impl Write) -> Result<(), Error> {
        let mut writer = Writer::new(target);
        for (path, node) in &self.nodes {
            match node {
                Node::Directory => {
                    writer.add(Member::directory(path, DIRECTORY_MODE)).map_err(Error::Layer)?;
                }
                Node::Symlink(link) => writer.add(Member::symlink(path, link)).map_err(Error::Layer)?,
                Node::File { content: Content::Memory(content), mode } => {
                    let member = Member::file(path, *mode, content.len() as u64);
                    writer.add_file(member, content.as_slice()).map_err(Error::Layer)?;
                }
                Node::File { content: Content::File { path: source, size }, mode } => {
                    let read = |error| Error::Read { path: source.clone(), source: error };
                    let content = File::open(source).map_err(read)?;
                    writer.add_file(Member::file(path, *mode, *size), content).map_err(read)?;
                }
            }
        }
        writer.finish().and_then(|mut target| target.flush()).map_err(Error::Layer)
    }

    /// Write the layer, compressed, into the store.
    pub(super) fn write(self, store: &Store) -> Result<(Descriptor, DiffId), Error> {
        let blob = store.writer(self.max_bytes())?;
        // The digest of the plain archive is the diff id. Both are computed in one pass, as the archive is in no
        // file.
        let mut archive = Hashed { target: gzip(blob), hasher: Hasher::new(Algorithm::Sha256) };
        self.write_archive(BufWriter::with_capacity(1 << 16, &mut archive))?;
        let (blob, count) = archive.target.finish().map_err(Error::Layer)?.into_parts();
        let digest = blob.commit()?;
        let annotations = self.annotations;
        let descriptor =
            Descriptor { annotations, ..Descriptor::new(media_type::OCI_LAYER_GZIP, digest, count) };
        Ok((descriptor, archive.hasher.finish()))
    }

    /// The most that the layer can have, for compression never adds more than a few bytes for each block.
    fn max_bytes(&self) -> u64 {
        let blocks = BLOCK as u64;
        let names = |path: &Vec<u8>| 4 * blocks + 2 * path.len() as u64;
        let content = |node: &Node| match node {
            Node::Directory => 0,
            Node::Symlink(link) => 2 * link.len() as u64,
            Node::File { content: Content::Memory(content), .. } => content.len() as u64 + blocks,
            Node::File { content: Content::File { size, .. }, .. } => size + blocks,
        };
        let total: u64 = self.nodes.iter().map(|(path, node)| names(path) + content(node)).sum();
        total + total / 1000 + (1 << 16)
    }

    fn add_path(&mut self, source: &Path, target: &[u8]) -> Result<(), Error> {
        let read = |error| Error::Read { path: source.to_owned(), source: error };
        let metadata = fs::symlink_metadata(source).map_err(read)?;
        if metadata.is_dir() {
            // Also if it is empty: programs expect directories such as `tmp`.
            self.insert(target, Node::Directory)?;
            for entry in fs::read_dir(source).map_err(read)? {
                let entry = entry.map_err(read)?;
                self.add_path(&entry.path(), &[target, b"/", entry.file_name().as_bytes()].concat())?;
            }
            return Ok(());
        }
        let node = if metadata.is_symlink() {
            Node::Symlink(fs::read_link(source).map_err(read)?.as_os_str().as_bytes().to_vec())
        } else if metadata.is_file() {
            file(source, &metadata)
        } else {
            return Err(Error::Kind { path: source.to_owned() });
        };
        self.insert(target, node)
    }

    /// Add a node with the directories that lead to it.
    fn insert(&mut self, target: &[u8], node: Node) -> Result<(), Error> {
        let parts: Vec<&[u8]> =
            target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
        // `.wh.` names are whiteouts, which delete files of layers below when they are unpacked.
        let is_bad = |part: &&[u8]| *part == b".." || part.starts_with(b".wh.") || part.contains(&0);
        if parts.is_empty() || parts.iter().any(is_bad) {
            return Err(Error::Name { path: target.escape_ascii().to_string() });
        }
        for length in 1..parts.len() {
            self.insert_at(parts[..length].join(&b'/'), Node::Directory)?;
        }
        self.insert_at(parts.join(&b'/'), node)
    }

    fn insert_at(&mut self, path: Vec<u8>, node: Node) -> Result<(), Error> {
        let is_directory = |node: &Node| matches!(node, Node::Directory);
        match self.nodes.get(&path) {
            // Directories may be named twice, as a part of several paths.
            Some(there) if is_directory(there) && is_directory(&node) => {}
            Some(_) => return Err(Error::Clash { path: path.escape_ascii().to_string() }),
            None => {
                self.nodes.insert(path, node);
            }
        }
        Ok(())
    }
}

fn file(source: &Path, metadata: &fs::Metadata) -> Node {
    // Nothing else of the mode: the umask of the user who builds would change the digest.
    let mode = if metadata.mode() & 0o111 == 0 { FILE_MODE } else { PROGRAM_MODE };
    Node::File { content: Content::File { path: source.to_owned(), size: metadata.len() }, mode }
}

/// Compresses into a blob. No name, no time, and no operating system in the header, so that it is the same everywhere.
pub(super) fn gzip(blob: BlobWriter) -> GzEncoder<Counted<BlobWriter>> {
    let target = Counted { target: blob, count: 0 };
    GzBuilder::new().operating_system(255).write(target, Compression::new(LEVEL))
}

/// Counts what passes.
pub(super) struct Counted<W> {
    target: W,
    count: u64,
}

impl<W> Counted<W> {
    /// The target, and how many bytes it was given.
    pub(super) fn into_parts(self) -> (W, u64) {
        (self.target, self.count)
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let written = self.target.write(content)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Hashes what passes.
struct Hashed<W> {
    target: W,
    hasher: Hasher,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let written = self.target.write(content)?;
        self.hasher.update(&content[..written]);
        Ok(written)
    }

    /// What is below must not be flushed: gzip would end a block for nothing.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
