//! A row of segments: the newest is appended to, the oldest is dropped to stay within the limit.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::format::{FileFormat, LaterVersion};
use crate::frame::Frame;
use crate::lock::{Lock, Locked};

/// There are never more files than this, however small they are.
const MOST_FILES: usize = 256;
const PREFIX: &str = "segment-";

/// How much a log keeps.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// No more bytes than this.
    pub bytes: u64,
    /// Into how many segments a full log is divided. No frame is larger than one of them.
    pub segments: u64,
}

/// Where a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The number of its segment. Later segments have higher numbers.
    pub segment: u64,
    pub offset: u64,
    /// The length of the frame.
    pub length: u64,
}

/// Why there is no log in a directory.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot use `{}`", path.display())]
    LaterVersion { path: PathBuf, source: LaterVersion },
    #[error("cannot use `{}`: {} uses it", directory.display(), process.map_or("another process".to_owned(), |id| format!("process {id}")))]
    InUse { directory: PathBuf, process: Option<u32> },
}

/// Segments of a bounded size in all.
#[derive(Debug)]
pub struct SegmentLog {
    format: FileFormat,
    limits: Limits,
    storage: Storage,
    segments: VecDeque<Segment>,
    /// Whether the last segment is one of ours, and all that was written to it is whole.
    is_open: bool,
    next_number: u64,
}

#[derive(Debug)]
enum Storage {
    Memory,
    Directory { path: PathBuf, current: Option<File>, _lock: Lock },
}

#[derive(Debug)]
struct Segment {
    number: u64,
    length: u64,
    /// Empty if it is in a file.
    bytes: Vec<u8>,
    /// The file, once something was read from it: a cache is read far more often than it is written.
    reader: OnceLock<File>,
}

impl Segment {
    fn new(number: u64, length: u64, bytes: Vec<u8>) -> Self {
        Self { number, length, bytes, reader: OnceLock::new() }
    }

    fn reader(&self, directory: &Path) -> Option<&File> {
        if let Some(file) = self.reader.get() {
            return Some(file);
        }
        let file = File::open(directory.join(file_name(self.number))).ok()?;
        Some(self.reader.get_or_init(|| file))
    }
}

impl SegmentLog {
    /// A log that is gone with the process.
    pub fn in_memory(format: FileFormat, limits: Limits) -> Self {
        let segments = VecDeque::new();
        Self { format, limits, storage: Storage::Memory, segments, is_open: false, next_number: 1 }
    }

    /// The log in a directory, which is created if it does not exist. No other process may write to it meanwhile.
    pub fn open(directory: &Path, format: FileFormat, limits: Limits) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: directory.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        // Before the files are listed, or a process that ends just now could still drop some of them.
        let lock = Lock::take(directory).map_err(|locked| match locked {
            Locked::InUse(process) => OpenError::InUse { directory: directory.to_owned(), process },
            Locked::Failed(source) => failed(source),
        })?;
        let mut segments = VecDeque::new();
        for (number, path) in segment_files(directory, format)? {
            let length = path.metadata().map_err(failed)?.len();
            segments.push_back(Segment::new(number, length, Vec::new()));
        }
        // Never the number of a file that exists: a crash may have left its last frame half written.
        let next_number = segments.back().map_or(1, |last| last.number + 1);
        let storage = Storage::Directory { path: directory.to_owned(), current: None, _lock: lock };
        let mut log = Self { format, limits, storage, segments, is_open: false, next_number };
        // The limit may be smaller than it was when the files were written.
        log.make_room(0);
        Ok(log)
    }

    /// Whether what is appended next begins a segment.
    pub fn begins_segment(&self) -> bool {
        !self.is_open || self.segments.back().is_none_or(|last| last.length >= self.segment_size())
    }

    /// The number of the oldest segment that is still there.
    pub fn first_segment(&self) -> u64 {
        self.segments.front().map_or(self.next_number, |first| first.number)
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Where the files are, if there are any.
    pub fn directory(&self) -> Option<&Path> {
        match &self.storage {
            Storage::Memory => None,
            Storage::Directory { path, .. } => Some(path),
        }
    }

    /// Adds a frame, and drops the oldest segments if there is no room for it. A frame that is too large for a segment is refused.
    pub fn append(&mut self, frame: &[u8]) -> io::Result<Position> {
        let length = frame.len() as u64;
        if length > self.segment_size() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a segment"));
        }
        if self.begins_segment() {
            self.begin_segment()?;
        }
        // After `begin_segment`, which keeps the newest from being dropped, and before writing, so that the
        // limit holds at every moment.
        self.make_room(length);
        // Until it is all there, nothing may follow it.
        self.is_open = false;
        let last = self.segments.back_mut().ok_or_else(|| io::Error::other("there is no segment"))?;
        match &mut self.storage {
            Storage::Memory => last.bytes.extend_from_slice(frame),
            Storage::Directory { current, .. } => {
                let file = current.as_mut().ok_or_else(|| io::Error::other("there is no segment"))?;
                file.write_all(frame)?;
            }
        }
        let position = Position { segment: last.number, offset: last.length, length };
        last.length += length;
        self.is_open = true;
        Ok(position)
    }

    /// The content of a frame. None if its segment was dropped, or if it is not what was written.
    pub fn read(&self, position: Position) -> Option<Vec<u8>> {
        let Position { segment, offset, length } = position;
        let segment = self.segments.iter().find(|it| it.number == segment)?;
        let length = usize::try_from(length).ok()?;
        let bytes = match &self.storage {
            Storage::Memory => {
                let start = usize::try_from(offset).ok()?;
                Cow::Borrowed(segment.bytes.get(start..start.checked_add(length)?)?)
            }
            Storage::Directory { path, .. } => {
                let mut bytes = vec![0; length];
                // Positioned reads need no lock on a shared cursor. A segment that was removed meanwhile can
                // still be read through its open file.
                segment.reader(path)?.read_exact_at(&mut bytes, offset).ok()?;
                Cow::Owned(bytes)
            }
        };
        // The checksum is tested at every read: a cache must not hand out what a disk made of it.
        let (frame, _) = Frame::read(&bytes, 0)?;
        Some(frame.content.to_vec())
    }

    /// The numbers of all segments, oldest first, each with its bytes. One that cannot be read is empty.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = (u64, Cow<'_, [u8]>)> {
        self.segments.iter().map(|segment| {
            let bytes = match &self.storage {
                Storage::Memory => Cow::Borrowed(segment.bytes.as_slice()),
                Storage::Directory { path, .. } => {
                    Cow::Owned(std::fs::read(path.join(file_name(segment.number))).unwrap_or_default())
                }
            };
            (segment.number, bytes)
        })
    }

    fn segment_size(&self) -> u64 {
        self.limits.bytes / self.limits.segments.max(1)
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        self.is_open = false;
        let (number, header) = (self.next_number, self.format.header());
        // Whether or not there will be a file: what a failure leaves behind must not be in the way of the next attempt.
        self.next_number += 1;
        let mut bytes = Vec::new();
        match &mut self.storage {
            Storage::Memory => bytes.extend_from_slice(&header),
            Storage::Directory { path, current, .. } => {
                *current = Some(create(&path.join(file_name(number)), &header)?);
            }
        }
        self.segments.push_back(Segment::new(number, header.len() as u64, bytes));
        self.is_open = true;
        Ok(())
    }

    /// Drops the oldest segments until there is room for more. The newest stays.
    fn make_room(&mut self, more: u64) {
        let kept = usize::from(self.is_open);
        while self.segments.len() > kept
            && (self.len() + more > self.limits.bytes || self.segments.len() > MOST_FILES)
        {
            let Some(oldest) = self.segments.pop_front() else { return };
            if let Storage::Directory { path, .. } = &self.storage {
                // If it cannot be removed now, the next start here removes it.
                let _ = std::fs::remove_file(path.join(file_name(oldest.number)));
            }
        }
    }
}

fn create(path: &Path, header: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
    if let Err(error) = file.write_all(header) {
        // On a full disk every attempt would leave a file that counts for nothing and that nothing drops.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:012}")
}

/// The segments in a directory, oldest first, to read them while another process may write. If one is of a later version, all are refused:
/// what is left would not be what was written.
pub fn segment_files(directory: &Path, format: FileFormat) -> Result<Vec<(u64, PathBuf)>, OpenError> {
    let failed = |source| OpenError::File { path: directory.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Other files are left alone; the lock is one of them.
        let Some(number) = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok()) else { continue };
        match format.check_file(&path) {
            Ok(Ok(())) => found.push((number, path)),
            Ok(Err(source)) => return Err(OpenError::LaterVersion { path, source }),
            Err(source) => return Err(OpenError::File { path, source }),
        }
    }
    found.sort();
    Ok(found)
}
