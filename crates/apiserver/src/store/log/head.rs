//! What has been acknowledged, beside the database: so that a store that has forgotten something is recognised.
//!
//! `SQLite` drops the tail of a write-ahead log from the first frame whose checksum is wrong, without a word: it takes the tail
//! for a transaction that was never finished. Whether it was, only we know. So the log notes here what it holds: before a
//! commit, what it will hold; after it, and before anything is acknowledged, that it does.
//!
//! The file is written in place and not flushed with each commit, which would cost as much as the commit. A killed process
//! therefore leaves an exact head, because the system still has what was written; a power failure may leave an old one. Nothing
//! is lost by that: an old head says less, never too much, because what is new is noted after the database is durable. A commit
//! that does not raise the revision is the exception, and flushes the head first.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::super::{OpenError, directory};
use super::LogError;

/// How a head of the first version begins. Later versions put their number in the place of the last letter, which no single flipped bit
/// turns into a digit.
const MAGIC: &[u8; 8] = b"FPLNHEAD";
/// The version of the format that this program writes.
const VERSION: u32 = 1;
/// Magic, two summaries of three numbers, checksum. Less than a sector, so that it is written as a whole or not at all.
const SIZE: usize = 8 + 2 * 3 * 8 + 4;

/// What the rows of a log are, in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Summary {
    pub(in super::super) revision: u64,
    pub(in super::super) floor: u64,
    /// The sum of a hash of the revision of every row. A row never changes, so that it says which rows there are.
    rows: u64,
}

impl Summary {
    pub(in super::super) fn new(revision: u64, floor: u64) -> Self {
        Self { revision, floor, rows: 0 }
    }

    pub(in super::super) fn add_row(&mut self, revision: u64) {
        // A sum, because rows are added and removed in any order, and the head must not depend on it.
        self.rows = self.rows.wrapping_add(hash(revision));
    }

    pub(super) fn remove_row(&mut self, revision: u64) {
        self.rows = self.rows.wrapping_sub(hash(revision));
    }
}

/// Spreads neighbouring numbers over all numbers (`SplitMix64`), or one lost row could stand in for another.
fn hash(revision: u64) -> u64 {
    let mut hash = revision.wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// What was noted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Record {
    acknowledged: Summary,
    /// What the log holds if the commit that was under way succeeded.
    pending: Summary,
}

impl Record {
    /// Reads what was noted beside a database. Stores of older programs have nothing.
    pub(in super::super) fn read(database: &Path) -> Result<Option<Self>, OpenError> {
        let file = path_of(database);
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::Failed { action: "read", file, source: error.into() }.into()),
        };
        if let Some(version) = later_version(&bytes) {
            return Err(OpenError::Newer { file, version, known: VERSION });
        }
        let lost =
            || LogError::Lost { file, detail: "it is unknown which writes were acknowledged".to_owned() };
        Ok(Some(Self::decode(&bytes).ok_or_else(lost)?))
    }

    /// The newest acknowledged revision.
    pub(in super::super) fn revision(&self) -> u64 {
        self.acknowledged.revision
    }

    /// Says what is wrong with a log that holds this, if anything is.
    pub(in super::super) fn check(&self, found: &Summary) -> Result<(), String> {
        if *found == self.acknowledged || *found == self.pending || found.revision > self.pending.revision {
            // In the last case the head is an old one. It cannot say more.
            return Ok(());
        }
        let acknowledged = self.acknowledged.revision;
        if found.revision < acknowledged {
            return Err(format!(
                "its newest revision is {}, but {acknowledged} was acknowledged",
                found.revision
            ));
        }
        Err("it does not have the rows that were acknowledged".to_owned())
    }

    fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        let numbers = [self.acknowledged, self.pending];
        let numbers = numbers.iter().flat_map(|summary| [summary.revision, summary.floor, summary.rows]);
        for (slot, number) in bytes[8..SIZE - 4].chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..SIZE - 4]);
        bytes[SIZE - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        let is_whole = bytes.len() == SIZE && crc32fast::hash(content) == u32::from_le_bytes(*checksum);
        let numbers = content.strip_prefix(MAGIC).filter(|_| is_whole)?;
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut summary =
            || Some(Summary { revision: numbers.next()?, floor: numbers.next()?, rows: numbers.next()? });
        Some(Self { acknowledged: summary()?, pending: summary()? })
    }
}

/// The version of a head that a later release wrote, whatever else is in it.
fn later_version(bytes: &[u8]) -> Option<u64> {
    let [letters @ .., _] = MAGIC;
    let number = char::from(*bytes.strip_prefix(letters)?.first()?);
    number.to_digit(10).filter(|version| *version > VERSION).map(u64::from)
}

/// Where the head of a database is: `store.head` beside `store.db`.
pub(in super::super) fn path_of(database: &Path) -> PathBuf {
    database.with_extension("head")
}

/// A head that is written to.
#[derive(Debug)]
pub(super) struct Head {
    path: PathBuf,
    file: File,
    record: Record,
    is_flushed: bool,
}

impl Head {
    /// Notes what a log holds that was just read.
    pub(super) fn create(database: &Path, holds: Summary) -> Result<Self, LogError> {
        let path = path_of(database);
        let record = Record { acknowledged: holds, pending: holds };
        let create = || {
            let file = directory::private().create(true).truncate(false).open(&path)?;
            file.write_all_at(&record.encode(), 0)?;
            file.set_len(SIZE as u64)?;
            file.sync_all()?;
            directory::sync(path.parent().unwrap_or(Path::new(".")))?;
            Ok(file)
        };
        let file = create().map_err(|error| explain(error, &path))?;
        Ok(Self { path, file, record, is_flushed: true })
    }

    /// What the log holds.
    pub(super) fn holds(&self) -> Summary {
        self.record.acknowledged
    }

    /// Notes what the log will hold if the next commit succeeds.
    pub(super) fn prepare(&mut self, next: Summary) -> Result<(), LogError> {
        let is_newer = next.revision > self.record.acknowledged.revision;
        self.record.pending = next;
        self.write()?;
        // Who finds the same revision, but other rows, must be able to tell that it is meant to be so.
        if is_newer { Ok(()) } else { self.flush() }
    }

    /// Records that the commit succeeded, before anything is acknowledged.
    pub(super) fn acknowledge(&mut self) -> Result<(), LogError> {
        self.record.acknowledged = self.record.pending;
        self.write()
    }

    /// Makes what was noted survive a power failure.
    pub(super) fn flush(&mut self) -> Result<(), LogError> {
        if !self.is_flushed {
            self.file.sync_data().map_err(|error| explain(error, &self.path))?;
            self.is_flushed = true;
        }
        Ok(())
    }

    /// From now on there is no room for what is written.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn fill_the_disk(&mut self) {
        self.file = File::options().write(true).open("/dev/full").expect("Linux has it");
    }

    fn write(&mut self) -> Result<(), LogError> {
        self.is_flushed = false;
        self.file.write_all_at(&self.record.encode(), 0).map_err(|error| explain(error, &self.path))
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

fn explain(error: io::Error, file: &Path) -> LogError {
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => LogError::Full { file },
        _ => LogError::Failed { action: "write to", file, source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(revision: u64, rows: &[u64]) -> Summary {
        let mut summary = Summary::new(revision, 0);
        for row in rows {
            summary.add_row(*row);
        }
        summary
    }

    #[test]
    fn head_is_read_as_it_was_written_and_any_flipped_bit_is_noticed() {
        let record = Record { acknowledged: summary(3, &[1, 3]), pending: summary(4, &[1, 3, 4]) };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        for bit in 0..SIZE * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&damaged), None, "bit {bit}");
            assert_eq!(later_version(&damaged), None, "bit {bit}");
        }
        assert_eq!(Record::decode(&bytes[..SIZE - 1]), None);
        assert_eq!(Record::decode(&[]), None);
    }

    /// Stores of other releases have these bytes. If they change, the version of the format has to be raised.
    #[test]
    fn head_has_the_bytes_that_every_release_of_its_version_writes() {
        let at = |revision: u64, floor: u64, rows: &[u64]| Summary { floor, ..summary(revision, rows) };
        let record = Record { acknowledged: at(3, 1, &[1, 3]), pending: at(4, 2, &[1, 3, 4]) };
        let bytes = b"FPLNHEAD\
            \x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\xae\xec\x03\x64\xd1\x42\x15\xae\
            \x04\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x78\x77\x37\x46\x44\x26\x89\x1c\
            \x79\x3c\x26\xa1";
        assert_eq!(record.encode().as_slice(), bytes);
        assert_eq!(Record::decode(bytes), Some(record));
    }

    #[test]
    fn head_of_a_later_version_is_told_from_a_damaged_one() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("store.db");
        let read = |bytes: &[u8]| {
            std::fs::write(path_of(&database), bytes).unwrap();
            Record::read(&database).unwrap_err()
        };
        let newer = read(b"FPLNHEA2 and whatever is in it");
        assert!(matches!(newer, OpenError::Newer { version: 2, known: VERSION, .. }), "{newer}");
        for damaged in [&b"FPLNHEAD"[..], b"FPLNHEA1", b"FPLNHEA", b""] {
            let error = read(damaged);
            assert!(matches!(error, OpenError::Log(LogError::Lost { .. })), "{error}");
        }
    }

    #[test]
    fn log_may_be_where_it_was_or_where_it_was_going_or_further() {
        let record = Record { acknowledged: summary(3, &[1, 3]), pending: summary(4, &[3, 4]) };
        for fine in [summary(3, &[1, 3]), summary(4, &[3, 4]), summary(9, &[9])] {
            assert_eq!(record.check(&fine), Ok(()));
        }
        let lost = record.check(&summary(2, &[1, 2])).unwrap_err();
        assert_eq!(lost, "its newest revision is 2, but 3 was acknowledged");
        for damaged in [summary(3, &[2, 3]), summary(4, &[1, 3, 4]), Summary::new(3, 1)] {
            assert!(record.check(&damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn commit_that_does_not_raise_the_revision_flushes_the_head_first() {
        let directory = tempfile::tempdir().unwrap();
        let mut head = Head::create(&directory.path().join("store.db"), summary(3, &[1, 3])).unwrap();
        head.prepare(summary(4, &[1, 3, 4])).unwrap();
        assert!(!head.is_flushed, "this would cost as much as the commit");
        head.acknowledge().unwrap();
        head.prepare(summary(4, &[3, 4])).unwrap();
        assert!(head.is_flushed);
    }
}
