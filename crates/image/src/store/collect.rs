//! Garbage collection: the least recently used content goes until what is needed fits.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ferroplane_api::image::{Algorithm, Digest};

use super::directory::{Lock, PARTIAL};
use super::pins::files;
use super::{Error, Store};

/// How full the store is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub blobs: usize,
    /// Content, and room that is reserved for what is being written.
    pub bytes: u64,
}

/// Content, or the file of a writer.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    /// Nothing for the file of a writer.
    digest: Option<Digest>,
    bytes: u64,
    last_used: SystemTime,
}

impl Store {
    pub fn usage(&self) -> Result<Usage, Error> {
        let entries = self.entries()?;
        let blobs = entries.iter().filter(|entry| entry.digest.is_some()).count();
        Ok(Usage { blobs, bytes: total(&entries) })
    }

    /// Drop what was used least recently until at most `target` bytes are left, or nothing else may go. Returns what is left.
    pub fn collect(&self, target: u64) -> Result<Usage, Error> {
        let lock = self.lock()?;
        self.shrink(&lock, target)?;
        drop(lock);
        self.usage()
    }

    /// Make room for what is about to be written.
    pub(super) fn make_room(&self, lock: &Lock, needed: u64) -> Result<(), Error> {
        let limit = self.limits.max_bytes;
        let left = self.shrink(lock, limit.saturating_sub(needed))?;
        if left.saturating_add(needed) > limit {
            return Err(Error::Full { needed, used: left, limit });
        }
        Ok(())
    }

    fn shrink(&self, lock: &Lock, target: u64) -> Result<u64, Error> {
        let mut entries = self.entries()?;
        let mut left = total(&entries);
        if left <= target {
            return Ok(left);
        }
        let kept = self.kept(lock)?;
        entries.sort_by_key(|entry| entry.last_used);
        for entry in entries {
            if left <= target {
                break;
            }
            if remove(&entry, &kept)? {
                left -= entry.bytes;
            }
        }
        self.drop_records(lock)?;
        Ok(left)
    }

    fn entries(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            for path in files(&self.blob_directory(algorithm))? {
                let digest = file_name(&path).and_then(|name| Digest::from_hex(algorithm, name).ok());
                entries.extend(digest.and_then(|digest| entry(&path, Some(digest))));
            }
        }
        for path in files(&self.part(PARTIAL))? {
            entries.extend(entry(&path, None));
        }
        Ok(entries)
    }
}

fn entry(path: &Path, digest: Option<Digest>) -> Option<Entry> {
    // What is gone meanwhile takes no room.
    let metadata = fs::symlink_metadata(path).ok()?;
    let last_used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let bytes = if digest.is_some() { metadata.len() } else { reserved(path).unwrap_or(metadata.len()) };
    Some(Entry { path: path.to_owned(), digest, bytes, last_used })
}

/// Writers say in the names of their files how much they may write: `new-LIMIT-…` or `ALGORITHM-HEX-SIZE`.
fn reserved(path: &Path) -> Option<u64> {
    let name = file_name(path)?;
    let number = match name.strip_prefix("new-") {
        Some(rest) => rest.split('-').next(),
        None => name.rsplit('-').next(),
    };
    number?.parse().ok()
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn total(entries: &[Entry]) -> u64 {
    entries.iter().fold(0, |total, entry| total.saturating_add(entry.bytes))
}

/// Remove an entry unless something needs it.
fn remove(entry: &Entry, kept: &HashSet<Digest>) -> Result<bool, Error> {
    let is_needed = match &entry.digest {
        Some(digest) => kept.contains(digest),
        None => is_being_written(&entry.path),
    };
    if is_needed {
        return Ok(false);
    }
    fs::remove_file(&entry.path).map_err(Error::io("remove", &entry.path))?;
    Ok(true)
}

/// The lock of the store is held, so that no writer can take the file between this look and its removal.
fn is_being_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_err())
}
