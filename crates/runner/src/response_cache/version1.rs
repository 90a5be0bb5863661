//! Reads version 1 of the cache format: the files `previous` and `current`, which have no header.
//!
//! A record is: length of what follows the checksum (4 bytes), checksum (8), key (32), deadline (8), response. Numbers are little-endian;
//! the checksum is the beginning of the SHA-256 of what follows it.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::{DEADLINE, KEY, Record, read_head};

/// The older one first.
const FILES: [&str; 2] = ["previous", "current"];
const CHECKSUM: usize = 8;

/// Every record that is whole, oldest first.
pub(super) fn records(directory: &Path) -> impl Iterator<Item = Record> {
    let files = FILES.map(|name| std::fs::read(directory.join(name)).unwrap_or_default());
    files.into_iter().flat_map(|file| {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let (record, length) = record(file.get(offset..)?)?;
            offset += length;
            Some(record)
        })
    })
}

/// Removes the files, once what they had is kept elsewhere.
pub(super) fn remove(directory: &Path) {
    for name in FILES {
        // One that stays is read again at the next start, which does no harm.
        let _ = std::fs::remove_file(directory.join(name));
    }
}

/// The record that something begins with, and how long it is.
fn record(bytes: &[u8]) -> Option<(Record, usize)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_at_checked(CHECKSUM)?;
    let body = rest.get(..u32::from_le_bytes(*length) as usize)?;
    if Sha256::digest(body)[..CHECKSUM] != *checksum {
        return None;
    }
    let (key, deadline) = read_head(body)?;
    let response = body[KEY + DEADLINE..].to_vec();
    Some((Record { key, deadline, response }, length.len() + CHECKSUM + body.len()))
}
