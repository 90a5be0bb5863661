//! Unpacks the layers of an image to a directory, trusting nothing that they say.
//!
//! Everything in the directory belongs to us, or to the user whom [`Unpacker::for_owner`] names. Bits that give rights to the process that runs a file, owners, extended attributes and
//! capabilities are dropped. Devices and pipes are skipped. `docs/unpacking.md` says what is refused, and the limits.
//!
//! # Invariants
//! * Nothing outside of the directory is read, created, changed or removed, whatever the layers contain.
//! * We can delete what was unpacked: every directory can be read and written by us.
//! * What [`Unpacker::layer`] accepts has the digest that the configuration of the image states.

mod error;
mod inspect;
mod layer;
mod limits;
mod path;
mod roots;
mod stream;
mod tree;

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;

pub use error::{Error, LimitExceeded, Refusal};
pub use inspect::{InspectError, inspect};
pub use limits::Limits;
pub use roots::{Root, Roots, RootsError, unpack_image};
pub(crate) use stream::Bounded;

use crate::Digest;
use crate::compression::Compression;
use crate::tar::Timestamp;
use layer::{Layer, Made};
use tree::{Missing, Ownership, Tree};

/// What was unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Entries of all layers.
    pub entries: u64,
    /// Bytes of all layers, uncompressed.
    pub bytes: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Bytes of all names.
    pub name_bytes: u64,
    /// Devices and pipes that were not made.
    pub skipped: u64,
}

/// When directories were changed, by their path. It is set at the end, since making anything in them changes it.
type DirectoryTimes = BTreeMap<Vec<u8>, Timestamp>;

/// Unpacks layers to a directory, the lowest first.
#[derive(Debug)]
pub struct Unpacker {
    tree: Tree,
    limits: Limits,
    summary: Summary,
    times: DirectoryTimes,
    layers: usize,
}

impl Unpacker {
    /// Unpack to an empty directory that no other process writes to.
    pub fn new(root: &Path, limits: Limits) -> Result<Self, Error> {
        let tree =
            Tree::open(root).map_err(|error| Error::io("open the directory to unpack to")(error.into()))?;
        let ignores_case = ignores_case(&tree);
        if ignores_case.map_err(|error| Error::io("write to the directory to unpack to")(error.into()))? {
            return Err(Error::IgnoresCase);
        }
        Ok(Self { tree, limits, summary: Summary::default(), times: DirectoryTimes::new(), layers: 0 })
    }

    /// Give everything to this user, and to the group of the same number. Only root can.
    #[must_use]
    pub fn for_owner(mut self, owner: Option<u32>) -> Self {
        self.tree.set_owner(owner);
        self
    }

    /// Unpack the next layer, and check its content against the digest that the configuration states.
    ///
    /// After a failure the directory has to be removed.
    pub fn layer(
        &mut self,
        content: impl Read + Send,
        compression: Compression,
        diff_id: &Digest,
    ) -> Result<(), Error> {
        self.layers += 1;
        if self.layers > self.limits.layers {
            return Err(Error::Layers { found: self.layers, limit: self.limits.layers });
        }
        // What the lowest layer hides cannot be there, and all links are its own.
        let made = if self.layers == 1 { Made::Everything } else { Made::Paths(HashSet::new()) };
        let left = self.limits.bytes - self.summary.bytes;
        let source = Bounded::new(content, compression, left, &self.limits);
        let mut layer = Layer {
            tree: &mut self.tree,
            limits: &self.limits,
            summary: &mut self.summary,
            times: &mut self.times,
            made,
        };
        let ((), read) = stream::consume(source, diff_id.algorithm(), |chunks| layer.apply(chunks))?;
        self.summary.bytes += read.length;
        if read.digest != *diff_id {
            return Err(Error::DiffId { expected: diff_id.clone(), found: read.digest });
        }
        Ok(())
    }

    /// Set the times of directories, which is the last thing to do.
    pub fn finish(mut self) -> Result<Summary, Error> {
        for (path, time) in std::mem::take(&mut self.times) {
            self.set_time(&path, time)
                .map_err(|source| Error::Entry { path: error::printable(&path), source })?;
        }
        Ok(self.summary)
    }

    /// Unless a later layer put something else in the place of the directory.
    fn set_time(&mut self, path: &[u8], time: Timestamp) -> Result<(), Refusal> {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        match self.tree.enter(&parts, Missing::Stop, &NoLinks, &self.limits) {
            Ok(Some(_)) => rustix::fs::futimens(self.tree.directory(), &tree::times(time))
                .map_err(Refusal::io("set the time")),
            Ok(None) | Err(Refusal::ThroughLink(_) | Refusal::NotADirectory(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Follow no link at all.
struct NoLinks;

impl Ownership for NoLinks {
    fn is_of_this_layer(&self, _: &[u8]) -> bool {
        true
    }
}

/// Whether one name stands for another that differs in case only. Then one entry would replace another unnoticed, or lead through the
/// link that another one made.
fn ignores_case(tree: &Tree) -> Result<bool, Errno> {
    let (probe, other) = (&b".ferroplane-case"[..], &b".FERROPLANE-CASE"[..]);
    rustix::fs::mkdirat(tree.directory(), probe, Mode::RWXU)?;
    let found = rustix::fs::accessat(
        tree.directory(),
        other,
        rustix::fs::Access::EXISTS,
        rustix::fs::AtFlags::empty(),
    );
    rustix::fs::unlinkat(tree.directory(), probe, rustix::fs::AtFlags::REMOVEDIR)?;
    Ok(found.is_ok())
}
