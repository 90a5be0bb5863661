//! Reads an archive entry by entry, without ever keeping more of it in memory than one extended header.

use std::io::{self, BufRead, Read};

use super::header::{EntryKind, Header};
use super::pax::Records;
use super::{BLOCK, Error, Timestamp};

/// How many bytes an extended header may have: names, links, attributes. Go's reader has the same limit.
pub const MAX_EXTENSION: u64 = 1 << 20;

/// One entry. Its content is read from the [`Reader`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name as it is in the archive: nothing about it was checked, but there is no zero in it.
    pub path: Vec<u8>,
    /// Where a link points to.
    pub link: Vec<u8>,
    pub kind: EntryKind,
    pub mode: u32,
    pub size: u64,
    pub time: Timestamp,
}

/// Reads an archive. Reading from it as [`Read`] or [`BufRead`] gives the content of the last entry.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    position: u64,
    remaining: u64,
    padding: u64,
    has_ended: bool,
}

impl<R: BufRead> Reader<R> {
    pub fn new(source: R) -> Self {
        Self { source, position: 0, remaining: 0, padding: 0, has_ended: false }
    }

    /// The position in the archive: after [`Reader::next_entry`], where the content of the entry begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next entry, or nothing at the end of the archive. Skips what was not read of the entry before.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        let mut extensions = Extensions::default();
        while let Some(block) = self.next_header()? {
            let header = Header::parse(&block)?;
            match header.type_flag() {
                b'x' => extensions.set_records(Records::parse(&self.extension(&header)?)?)?,
                b'g' => refuse_global(&Records::parse(&self.extension(&header)?)?)?,
                b'L' => set_long(&mut extensions.long_path, self.extension(&header)?, "name")?,
                b'K' => set_long(&mut extensions.long_link, self.extension(&header)?, "link")?,
                flag => return self.start(extensions.apply(&header, flag)?).map(Some),
            }
        }
        if extensions.is_empty() { Ok(None) } else { Err(Error::Dangling) }
    }

    /// Reads to the end of the source, behind the end of the archive.
    pub fn drain(mut self) -> Result<(), Error> {
        loop {
            let length = self.source.fill_buf()?.len();
            if length == 0 {
                return Ok(());
            }
            self.source.consume(length);
        }
    }

    fn start(&mut self, entry: Entry) -> Result<Entry, Error> {
        self.begin(entry.size)?;
        Ok(entry)
    }

    fn begin(&mut self, size: u64) -> Result<(), Error> {
        // A position never overflows when the size does not.
        let blocks = size.checked_next_multiple_of(BLOCK as u64).filter(|end| *end < u64::MAX / 2);
        let end = blocks.ok_or(Error::Number { field: "size" })?;
        (self.remaining, self.padding) = (size, end - size);
        Ok(())
    }

    /// The next block that is not a zero, or nothing at the end.
    fn next_header(&mut self) -> Result<Option<[u8; BLOCK]>, Error> {
        if self.skip(self.remaining)? > 0 {
            return Err(Error::Truncated);
        }
        // umoci 0.4 leaves out what would fill the last block. Go takes that for an end, too.
        self.has_ended |= self.skip(self.padding)? > 0;
        (self.remaining, self.padding) = (0, 0);
        if self.has_ended {
            return Ok(None);
        }
        match self.block()? {
            Some(block) if block.iter().any(|byte| *byte != 0) => Ok(Some(block)),
            Some(_) => self.end().map(|()| None),
            // Go and GNU take this for an end, too.
            None => {
                self.has_ended = true;
                Ok(None)
            }
        }
    }

    /// After one block of zeros: there is another one, or nothing.
    fn end(&mut self) -> Result<(), Error> {
        self.has_ended = true;
        let is_end = self.block()?.is_none_or(|block| block.iter().all(|byte| *byte == 0));
        if is_end { Ok(()) } else { Err(Error::ZeroBlock) }
    }

    /// One block, or nothing if the source has no further byte.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Error> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut block = [0; BLOCK];
        self.source.read_exact(&mut block).map_err(truncated)?;
        self.position += BLOCK as u64;
        Ok(Some(block))
    }

    /// The content of an extended header.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, Error> {
        let size = header.size()?;
        if size > MAX_EXTENSION {
            return Err(Error::ExtensionTooLarge { size, limit: MAX_EXTENSION });
        }
        self.begin(size)?;
        let mut content = Vec::new();
        self.read_to_end(&mut content).map_err(truncated)?;
        Ok(content)
    }

    /// Skips bytes. Returns how many of them the source does not have.
    fn skip(&mut self, mut count: u64) -> Result<u64, Error> {
        while count > 0 {
            let available = self.source.fill_buf()?.len();
            if available == 0 {
                break;
            }
            let taken = usize::try_from(count).unwrap_or(usize::MAX).min(available);
            self.source.consume(taken);
            self.position += taken as u64;
            count -= taken as u64;
        }
        Ok(count)
    }
}

impl<R: BufRead> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Reader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.remaining == 0 {
            return Ok(&[]);
        }
        let available = self.source.fill_buf()?;
        if available.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let limit = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        Ok(&available[..available.len().min(limit)])
    }

    fn consume(&mut self, count: usize) {
        self.source.consume(count);
        self.remaining -= count as u64;
        self.position += count as u64;
    }
}

/// What the headers in front of an entry said about it.
#[derive(Default)]
struct Extensions {
    records: Option<Records>,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl Extensions {
    fn is_empty(&self) -> bool {
        self.records.is_none() && self.long_path.is_none() && self.long_link.is_none()
    }

    fn set_records(&mut self, records: Records) -> Result<(), Error> {
        if self.records.replace(records).is_some() {
            return Err(Error::Ambiguous { what: "extended header" });
        }
        Ok(())
    }

    fn apply(self, header: &Header, flag: u8) -> Result<Entry, Error> {
        let records = self.records.unwrap_or_default();
        let path = one_of(records.path, self.long_path, "name")?.unwrap_or_else(|| header.path());
        let link = one_of(records.link, self.long_link, "link")?.unwrap_or_else(|| header.link().to_vec());
        let size = records.size.map_or_else(|| header.size(), Ok)?;
        let kind = kind(flag, &path)?;
        // Readers differ in whether content follows here, and so in where they look for the next header.
        if kind != EntryKind::File && size != 0 {
            return Err(Error::UnexpectedContent);
        }
        let time = records.time.map_or_else(|| header.seconds().map(seconds), Ok)?;
        Ok(Entry { path, link, kind, mode: header.mode()?, size, time })
    }
}

fn seconds(seconds: u64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

fn kind(flag: u8, path: &[u8]) -> Result<EntryKind, Error> {
    Ok(match flag {
        // Before there was a type for directories, they were files whose name ends so.
        0 | b'0' if path.ends_with(b"/") => EntryKind::Directory,
        0 | b'0' => EntryKind::File,
        b'1' => EntryKind::HardLink,
        b'2' => EntryKind::Symlink,
        b'3' | b'4' => EntryKind::Device,
        b'5' => EntryKind::Directory,
        b'6' => EntryKind::Fifo,
        b'S' => return Err(Error::Sparse),
        flag => return Err(Error::UnknownType(flag)),
    })
}

/// Of POSIX' and GNU's way to say the same, readers prefer different ones.
fn one_of(
    posix: Option<Vec<u8>>,
    gnu: Option<Vec<u8>>,
    what: &'static str,
) -> Result<Option<Vec<u8>>, Error> {
    if posix.is_some() && gnu.is_some() { Err(Error::Ambiguous { what }) } else { Ok(posix.or(gnu)) }
}

fn set_long(field: &mut Option<Vec<u8>>, mut value: Vec<u8>, what: &'static str) -> Result<(), Error> {
    // GNU counts the zero that ends the name.
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    value.truncate(end);
    if value.is_empty() {
        return Err(Error::Extension);
    }
    if field.replace(value).is_some() { Err(Error::Ambiguous { what }) } else { Ok(()) }
}

fn refuse_global(records: &Records) -> Result<(), Error> {
    records.override_of_all().map_or(Ok(()), |what| Err(Error::GlobalExtension { what }))
}

fn truncated(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { Error::Truncated } else { Error::Read(error) }
}
