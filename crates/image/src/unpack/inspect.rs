//! Reads the entries of one layer without unpacking it.
//!
//! # Invariants
//! * What [`inspect`] accepts has the digest that the configuration of the image states, and was read within the limits.

use std::io::Read;

use super::{Bounded, Error, LimitExceeded, Limits, stream};
use crate::compression::Compression;
use crate::store::{self, Store};
use crate::tar::{Entry, Reader};
use crate::{Descriptor, Digest};

/// Why a layer cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("cannot read the layer from the store")]
    Store(#[from] store::Error),
    #[error(transparent)]
    Layer(#[from] Error),
}

/// Show every entry of a layer, and the content of each, to a visitor. Returns how many bytes the layer has, uncompressed.
///
/// What the visitor learned counts only if this succeeds: the digest is known at the end.
pub fn inspect(
    store: &Store,
    layer: &Descriptor,
    diff_id: &Digest,
    limits: &Limits,
    mut visit: impl FnMut(&Entry, &mut dyn Read) -> Result<(), Error>,
) -> Result<u64, InspectError> {
    let compression = Compression::of_media_type(&layer.media_type)
        .ok_or_else(|| Error::MediaType(layer.media_type.chars().take(100).collect()))?;
    let content = store.read(&layer.digest)?;
    let source = Bounded::new(content, compression, limits.bytes, limits);
    let ((), read) = stream::consume(source, diff_id.algorithm(), |chunks| {
        let mut archive = Reader::new(chunks);
        let (mut entries, mut name_bytes) = (0, 0);
        while let Some(entry) = archive.next_entry()? {
            entries += 1;
            name_bytes += entry.path.len() as u64;
            // Before the visitor sees the entry: these limits bound what it can collect.
            if entries > limits.entries {
                return Err(LimitExceeded::Entries(limits.entries).into());
            }
            if name_bytes > limits.name_bytes {
                return Err(LimitExceeded::Names(limits.name_bytes).into());
            }
            visit(&entry, &mut archive)?;
        }
        // The digest is of all bytes, also of those behind the end of the archive.
        Ok::<(), Error>(archive.drain()?)
    })?;
    if read.digest != *diff_id {
        return Err(Error::DiffId { expected: diff_id.clone(), found: read.digest }.into());
    }
    Ok(read.length)
}
