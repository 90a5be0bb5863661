//! Records, one after the other, in a file or in memory.
//!
//! A record is: length of what follows the checksum (4 bytes), checksum (8), key (32), deadline (8), answer. Numbers are
//! little-endian; the checksum is the beginning of the SHA-256 of what follows it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

const HEAD: usize = 12;
const KEY: usize = 32;
const DEADLINE: usize = 8;
/// No record is longer than this.
const LONGEST: u32 = 64 << 20;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) key: [u8; KEY],
    pub(super) deadline: u64,
    pub(super) payload: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Segment {
    storage: Storage,
    length: u64,
}

#[derive(Debug)]
enum Storage {
    File(File),
    Memory(Vec<u8>),
}

impl Segment {
    pub(super) fn in_memory() -> Self {
        Self { storage: Storage::Memory(Vec::new()), length: 0 }
    }

    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Answers may hold what nobody else should read.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { storage: Storage::File(file), length })
    }

    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// Add a record. Returns where it is, and how long.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<(u64, u32)> {
        let length = KEY + DEADLINE + record.payload.len();
        let length = u32::try_from(length).ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or_else(|| io::Error::other("the answer is too large"))?;
        let mut body = Vec::with_capacity(length as usize);
        body.extend_from_slice(&record.key);
        body.extend_from_slice(&record.deadline.to_le_bytes());
        body.extend_from_slice(&record.payload);
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&checksum(&body));
        bytes.extend_from_slice(&body);
        let offset = self.length;
        match &mut self.storage {
            Storage::File(file) => file.write_all_at(&bytes, offset)?,
            Storage::Memory(memory) => memory.extend_from_slice(&bytes),
        }
        self.length += bytes.len() as u64;
        Ok((offset, length))
    }

    /// The answer in a record. None if it is not what was written.
    pub(super) fn read(&self, offset: u64, length: u32) -> Option<Vec<u8>> {
        let body = self.bytes(offset + 4, 8 + length as usize)?;
        let (sum, body) = body.split_at(8);
        (checksum(body) == sum).then(|| body[KEY + DEADLINE..].to_vec())
    }

    /// Every record that is whole: key, place, length, deadline. What comes after the last is cut off.
    pub(super) fn scan(&mut self) -> Vec<([u8; KEY], u64, u32, u64)> {
        let mut found = Vec::new();
        let mut offset = 0;
        while let Some((key, length, deadline)) = self.head(offset) {
            if self.read(offset, length).is_none() {
                break;
            }
            found.push((key, offset, length, deadline));
            offset += HEAD as u64 + u64::from(length);
        }
        self.length = offset;
        found
    }

    fn head(&self, offset: u64) -> Option<([u8; KEY], u32, u64)> {
        let head = self.bytes(offset, HEAD + KEY + DEADLINE)?;
        let length = u32::from_le_bytes(head[..4].try_into().ok()?);
        let is_possible = length as usize >= KEY + DEADLINE && length <= LONGEST;
        let key = head[HEAD..HEAD + KEY].try_into().ok()?;
        let deadline = u64::from_le_bytes(head[HEAD + KEY..].try_into().ok()?);
        is_possible.then_some((key, length, deadline))
    }

    fn bytes(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        if offset.checked_add(length as u64)? > self.length {
            return None;
        }
        match &self.storage {
            Storage::Memory(memory) => {
                let start = usize::try_from(offset).ok()?;
                memory.get(start..start + length).map(<[u8]>::to_vec)
            }
            Storage::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(bytes)
            }
        }
    }
}

fn checksum(body: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(body);
    std::array::from_fn(|place| digest[place])
}
