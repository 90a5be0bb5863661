//! Reads a write-ahead log before `SQLite` does, which drops everything after a damaged frame without a word.
//!
//! A power failure may leave the last transaction torn, with any of its pages missing. No other one: the next one is not begun
//! before the last is durable. So if two transactions end after the first frame that is wrong, the first of them was durable
//! and has been damaged since.
//!
//! Follows the description of the format in `SQLite`'s `fileformat2.html`, section 4.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The lowest bit says in which order the bytes of numbers are summed up.
const MAGIC: u32 = 0x377F_0682;

/// Says what is wrong with the write-ahead log of a database, if something is wrong with it that no crash can have done.
pub(in super::super) fn check(file: &Path) -> io::Result<Result<(), &'static str>> {
    let file = match File::open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(())),
        Err(error) => return Err(error),
    };
    scan(&mut BufReader::with_capacity(1 << 20, file))
}

fn scan(reader: &mut impl Read) -> io::Result<Result<(), &'static str>> {
    let mut header = [0; HEADER];
    // The file is made before its first frame is written: until then nothing is in it.
    if !read(reader, &mut header)? || header == [0; HEADER] {
        return Ok(Ok(()));
    }
    let Some(mut chain) = Chain::begin(&header) else { return Ok(Err("its header is damaged")) };
    let mut frame = vec![0; FRAME_HEADER + chain.page_size];
    let (mut is_broken, mut ends) = (false, 0);
    while read(reader, &mut frame)? {
        is_broken = is_broken || !chain.accept(&frame);
        if is_broken && chain.is_of_this_log(&frame) && ends_transaction(&frame) {
            ends += 1;
        }
    }
    Ok(if ends > 1 { Err("a transaction is damaged that others follow") } else { Ok(()) })
}

/// Fills a buffer. Returns whether there was enough.
fn read(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

fn word(bytes: &[u8], index: usize) -> u32 {
    let word = bytes.as_chunks::<4>().0.get(index);
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

/// Whether a frame is the last one of a transaction: it says how large the database is afterwards.
fn ends_transaction(frame: &[u8]) -> bool {
    word(frame, 1) != 0
}

/// The checksums of frames, each of which continues from the one before.
struct Chain {
    page_size: usize,
    salts: [u32; 2],
    is_big_endian: bool,
    sums: [u32; 2],
}

impl Chain {
    fn begin(header: &[u8; HEADER]) -> Option<Self> {
        let magic = word(header, 0);
        let page_size = usize::try_from(word(header, 2)).ok()?;
        let mut chain = Self {
            page_size,
            salts: [word(header, 4), word(header, 5)],
            is_big_endian: magic & 1 == 1,
            sums: [0, 0],
        };
        chain.add(&header[..24]);
        let is_sound = magic & !1 == MAGIC
            && chain.sums == [word(header, 6), word(header, 7)]
            && page_size.is_power_of_two()
            && (512..=65536).contains(&page_size);
        is_sound.then_some(chain)
    }

    /// Whether a frame was written since the log was begun anew. What is behind it in the file is older.
    fn is_of_this_log(&self, frame: &[u8]) -> bool {
        self.salts == [word(frame, 2), word(frame, 3)]
    }

    /// Whether a frame continues from the one before.
    fn accept(&mut self, frame: &[u8]) -> bool {
        self.add(&frame[..8]);
        self.add(&frame[FRAME_HEADER..]);
        self.is_of_this_log(frame) && self.sums == [word(frame, 4), word(frame, 5)]
    }

    fn add(&mut self, bytes: &[u8]) {
        let [mut first, mut second] = self.sums;
        for pair in bytes.as_chunks::<8>().0 {
            let [one, other] =
                [[pair[0], pair[1], pair[2], pair[3]], [pair[4], pair[5], pair[6], pair[7]]].map(|word| {
                    if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
                });
            first = first.wrapping_add(one).wrapping_add(second);
            second = second.wrapping_add(other).wrapping_add(first);
        }
        self.sums = [first, second];
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const PAGE: usize = FRAME_HEADER + 4096;

    /// The write-ahead log of ten transactions.
    fn log() -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("db");
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        for value in 1..10 {
            connection.execute("INSERT INTO t VALUES (?1)", [value]).unwrap();
        }
        std::fs::read(directory.path().join("db-wal")).unwrap()
    }

    fn verdict(log: &[u8]) -> Result<(), &'static str> {
        scan(&mut &*log).unwrap()
    }

    #[test]
    fn whole_log_and_every_beginning_of_it_are_fine() {
        let log = log();
        assert!(log.len() > HEADER + 10 * PAGE);
        for length in (0..=log.len()).step_by(97).chain([log.len(), HEADER + PAGE, HEADER + 3 * PAGE]) {
            assert_eq!(verdict(&log[..length]), Ok(()), "{length} bytes");
        }
    }

    #[test]
    fn damage_that_others_follow_is_noticed_wherever_it_is() {
        let log = log();
        // The last two transactions have a page each, and the last one may be torn.
        for at in (0..log.len() - 2 * PAGE).step_by(61) {
            // What the header says about checkpoints and versions is summed up, too.
            let mut damaged = log.clone();
            damaged[at] ^= 16;
            assert!(verdict(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn last_transaction_may_be_torn() {
        let log = log();
        for at in (log.len() - PAGE..log.len()).step_by(61) {
            let mut torn = log.clone();
            torn[at..].fill(0);
            assert_eq!(verdict(&torn), Ok(()), "from byte {at}");
        }
    }
}
