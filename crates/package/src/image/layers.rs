//! Finds `package.yaml` in the layers of an image.

use std::collections::HashSet;
use std::io::Read;

use ferroplane_image::store::Store;
use ferroplane_image::tar::{Entry, EntryKind};
use ferroplane_image::unpack::{Error, InspectError, LimitExceeded, Limits, inspect};
use ferroplane_image::{Descriptor, Digest, Image};

use super::{OpenError, STREAM_FILE, is_base};
use crate::contents::MAX_BYTES;

/// What the layer of a package may have beside its file: headers and padding.
const OVERHEAD: u64 = 1 << 20;
/// What an image without an annotated layer may have, all layers together.
const MAX_IMAGE_BYTES: u64 = 4 << 30;
const MAX_ENTRIES: u64 = 200_000;
const MAX_NAME_BYTES: u64 = 16 << 20;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The content of `package.yaml`. It may be longer than allowed by one byte, which says that it is too long.
pub(super) fn find(store: &Store, image: &Image) -> Result<Option<Vec<u8>>, OpenError> {
    let mut annotated: Vec<_> = image.layers().filter(|(layer, _)| is_base(layer)).collect();
    // The same layer twice says nothing that readers could understand differently.
    annotated.dedup_by(|one, other| one.0.digest == other.0.digest);
    match annotated[..] {
        [] => find_anywhere(store, image),
        [(layer, diff_id)] => {
            let limits = limits(MAX_BYTES as u64 + OVERHEAD);
            look(store, layer, diff_id, &limits, &mut Hidden::default()).map(|(found, _)| found)
        }
        _ => Err(OpenError::Layers { count: annotated.len() }),
    }
}

/// Look through all layers, the highest first.
fn find_anywhere(store: &Store, image: &Image) -> Result<Option<Vec<u8>>, OpenError> {
    let layers: Vec<_> = image.layers().collect();
    let mut hidden = Hidden::default();
    let mut left = MAX_IMAGE_BYTES;
    for (layer, diff_id) in layers.into_iter().rev() {
        let (found, bytes) = look(store, layer, diff_id, &limits(left), &mut hidden)?;
        if found.is_some() {
            return Ok(found);
        }
        hidden.descend();
        left -= bytes.min(left);
    }
    Ok(None)
}

fn limits(bytes: u64) -> Limits {
    Limits { bytes, entries: MAX_ENTRIES, name_bytes: MAX_NAME_BYTES, ..Limits::default() }
}

/// Look for the file in one layer. Returns how many bytes the layer has, too.
fn look(
    store: &Store,
    layer: &Descriptor,
    diff_id: &Digest,
    limits: &Limits,
    hidden: &mut Hidden,
) -> Result<(Option<Vec<u8>>, u64), OpenError> {
    let mut search = Search { hidden, content: None, problem: None };
    let visited = inspect(store, layer, diff_id, limits, |entry, content| search.visit(entry, content));
    let bytes =
        visited.map_err(|source: InspectError| OpenError::Layer { layer: layer.digest.clone(), source })?;
    match search.problem {
        Some(Problem::Several) => Err(OpenError::Files { layer: layer.digest.clone() }),
        Some(Problem::NotAFile(path)) => Err(OpenError::NotAFile { path }),
        Some(Problem::ParentDirectory(path)) => Err(OpenError::ParentDirectory { path }),
        None => Ok((search.content, bytes)),
    }
}

/// What is looked for in a layer, and what was found.
struct Search<'a> {
    hidden: &'a mut Hidden,
    content: Option<Vec<u8>>,
    problem: Option<Problem>,
}

enum Problem {
    Several,
    NotAFile(String),
    ParentDirectory(String),
}

impl Search<'_> {
    fn visit(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Error> {
        let path = plain(&entry.path);
        self.hidden.add(&path, entry.kind)?;
        // Nothing is unpacked here, but a tool that unpacks such a layer refuses it, or writes outside of its directory.
        if self.problem.is_none() && path.split(|byte| *byte == b'/').any(|part| part == b"..") {
            self.problem = Some(Problem::ParentDirectory(path.escape_ascii().to_string()));
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if name != STREAM_FILE.as_bytes() || self.hidden.hides(&path) || self.problem.is_some() {
            return Ok(());
        }
        if entry.kind != EntryKind::File {
            self.problem = Some(Problem::NotAFile(path.escape_ascii().to_string()));
        } else if self.content.is_some() {
            self.problem = Some(Problem::Several);
        } else {
            let mut found = Vec::new();
            let read = content.take(MAX_BYTES as u64 + 1).read_to_end(&mut found);
            read.map_err(|source| Error::Archive(source.into()))?;
            self.content = Some(found);
        }
        Ok(())
    }
}

/// Paths of lower layers that higher ones removed or replaced.
#[derive(Default)]
struct Hidden {
    /// Of the layers above this one.
    above: HashSet<Vec<u8>>,
    /// Of this layer, for those below it.
    here: HashSet<Vec<u8>>,
    /// How many bytes all names had.
    bytes: u64,
}

impl Hidden {
    fn add(&mut self, path: &[u8], kind: EntryKind) -> Result<(), Error> {
        self.bytes += path.len() as u64;
        if self.bytes > MAX_NAME_BYTES {
            return Err(LimitExceeded::Names(MAX_NAME_BYTES).into());
        }
        let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        if name == OPAQUE {
            self.here.insert(directory.to_vec());
        } else if let Some(removed) = name.strip_prefix(WHITEOUT) {
            let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            self.here.insert([directory, separator, removed].concat());
        } else if kind != EntryKind::Directory {
            self.here.insert(path.to_vec());
        }
        Ok(())
    }

    /// Whether the path, or a directory that it is in, is not to be seen.
    fn hides(&self, path: &[u8]) -> bool {
        if self.above.is_empty() {
            return false;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        std::iter::once(0).chain(ends).chain([path.len()]).any(|end| self.above.contains(&path[..end]))
    }

    fn descend(&mut self) {
        self.above.extend(self.here.drain());
    }
}

/// The path without what says nothing: `./`, a slash at either end.
fn plain(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    parts.join(&b'/')
}
