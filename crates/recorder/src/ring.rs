//! Segments, one after the other: the newest is appended to, the oldest goes when there is no more room.
//!
//! Nothing is ever changed in a segment, so that one can be read while another process writes. A process that starts begins a segment of
//! its own: whatever the one before it left half written stays where it is until its segment goes.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::frame::{MAGIC, check_version, frames};

/// Into how many segments a full ring is divided.
const SEGMENTS: u64 = 8;
/// There are never more files than this, however small they are.
const MOST: usize = 256;
const PREFIX: &str = "segment-";

/// Segments of a bounded size in all.
#[derive(Debug)]
pub(crate) struct Ring {
    place: Place,
    limit: u64,
    segments: VecDeque<Segment>,
    /// Whether the last segment is one of ours, and all that was written to it is whole.
    is_open: bool,
    next_number: u64,
}

#[derive(Debug)]
enum Place {
    Memory,
    Directory { path: PathBuf, current: Option<File> },
}

#[derive(Debug)]
struct Segment {
    number: u64,
    length: u64,
    /// Empty if it is in a file.
    bytes: Vec<u8>,
}

impl Ring {
    pub(crate) fn in_memory(limit: u64) -> Self {
        Self { place: Place::Memory, limit, segments: VecDeque::new(), is_open: false, next_number: 1 }
    }

    pub(crate) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let mut segments = VecDeque::new();
        for (number, file) in files(path)? {
            check_file(&file).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot use `{}`: {error}", file.display()))
            })?;
            segments.push_back(Segment { number, length: file.metadata()?.len(), bytes: Vec::new() });
        }
        let next_number = segments.back().map_or(1, |last| last.number + 1);
        let place = Place::Directory { path: path.to_owned(), current: None };
        let mut ring = Self { place, limit, segments, is_open: false, next_number };
        ring.make_room(0);
        Ok(ring)
    }

    /// The number of the last recording there is.
    pub(crate) fn last_id(&self) -> u64 {
        let Place::Directory { path, .. } = &self.place else { return 0 };
        let last_of = |segment: &Segment| {
            let bytes = std::fs::read(path.join(name(segment.number))).unwrap_or_default();
            frames(&bytes).flat_map(|frame| frame.heads).map(|head| head.id).max()
        };
        self.segments.iter().rev().find_map(last_of).unwrap_or_default()
    }

    /// Whether what is written next begins a segment: it cannot refer to anything that was written before.
    pub(crate) fn begins_segment(&self) -> bool {
        !self.is_open || self.segments.back().is_none_or(|last| last.length >= self.segment_size())
    }

    /// How much there may be.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// How much there is.
    pub(crate) fn len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// Add a frame. One that is too large for a segment is refused.
    pub(crate) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.len() as u64 > self.segment_size() {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the recording is too large for the ring",
            ));
        }
        if self.begins_segment() {
            self.begin_segment()?;
        }
        self.make_room(frame.len() as u64);
        // Until it is all there, nothing may follow it.
        self.is_open = false;
        let last = self.segments.back_mut().ok_or_else(|| io::Error::other("there is no segment"))?;
        match &mut self.place {
            Place::Memory => last.bytes.extend_from_slice(frame),
            Place::Directory { current, .. } => {
                let file = current.as_mut().ok_or_else(|| io::Error::other("there is no segment"))?;
                file.write_all(frame)?;
            }
        }
        last.length += frame.len() as u64;
        self.is_open = true;
        Ok(())
    }

    /// A copy of everything that is kept in memory.
    pub(crate) fn copies(&self) -> Vec<Vec<u8>> {
        self.segments.iter().map(|segment| segment.bytes.clone()).collect()
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        match &self.place {
            Place::Memory => None,
            Place::Directory { path, .. } => Some(path),
        }
    }

    fn segment_size(&self) -> u64 {
        self.limit / SEGMENTS
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        self.is_open = false;
        let number = self.next_number;
        let mut bytes = Vec::new();
        match &mut self.place {
            Place::Memory => bytes.extend_from_slice(MAGIC),
            Place::Directory { path, current } => {
                let path = path.join(name(number));
                let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
                file.write_all(MAGIC)?;
                *current = Some(file);
            }
        }
        self.next_number += 1;
        self.segments.push_back(Segment { number, length: MAGIC.len() as u64, bytes });
        self.is_open = true;
        Ok(())
    }

    /// Drop the oldest segments until there is room for more. The newest stays.
    fn make_room(&mut self, more: u64) {
        let kept = usize::from(self.is_open);
        while self.segments.len() > kept && (self.len() + more > self.limit || self.segments.len() > MOST) {
            let Some(oldest) = self.segments.pop_front() else { return };
            if let Place::Directory { path, .. } = &self.place {
                // If it cannot be removed now, it will be when somebody starts here the next time.
                let _ = std::fs::remove_file(path.join(name(oldest.number)));
            }
        }
    }
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:012}")
}

/// The segments in a directory, oldest first.
pub(crate) fn files(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(number) = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok()) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Refuses a segment that a later release wrote.
pub(crate) fn check_file(path: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start)) {
        Ok(_) => check_version(&start),
        // It was the oldest, and has gone meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Body, Head};
    use crate::frame;

    fn frame(id: u64) -> Vec<u8> {
        frame::write(vec![Head { id, trouble: "x".repeat(100), ..Head::default() }], vec![Body::default()])
    }

    fn size_of(directory: &Path) -> u64 {
        files(directory).unwrap().iter().map(|(_, path)| path.metadata().unwrap().len()).sum()
    }

    #[test]
    fn there_is_a_bound_and_the_newest_stay() {
        let directory = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(directory.path(), 4000).unwrap();
        for id in 1..200 {
            ring.append(&frame(id)).unwrap();
            assert!(size_of(directory.path()) <= 4000 && ring.len() <= 4000);
        }
        assert_eq!(ring.last_id(), 199);
        assert!(size_of(directory.path()) > 3000);
        assert!(ring.append(&vec![0; 501]).is_err());
        ring.append(&frame(200)).unwrap();
        assert_eq!(ring.last_id(), 200);

        let mut memory = Ring::in_memory(4000);
        (1..200).for_each(|id| memory.append(&frame(id)).unwrap());
        assert!(memory.copies().iter().map(Vec::len).sum::<usize>() <= 4000);
    }

    #[test]
    fn restarts_do_not_cost_what_was_kept() {
        let directory = tempfile::tempdir().unwrap();
        for id in 1..=20 {
            let mut ring = Ring::open(directory.path(), 1 << 20).unwrap();
            assert_eq!(ring.last_id(), id - 1);
            ring.append(&frame(id)).unwrap();
        }
        assert_eq!(files(directory.path()).unwrap().len(), 20);
        // Whoever has less room from now on keeps less.
        let ring = Ring::open(directory.path(), 1000).unwrap();
        assert!(size_of(directory.path()) <= 1000);
        assert_eq!(ring.last_id(), 20);
    }

    #[test]
    fn nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recordings");
        Ring::open(&path, 4000).unwrap().append(&frame(1)).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let (_, file) = &files(&path).unwrap()[0];
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn whatever_lies_there_does_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in [("segment-000000000001", &b"garbage"[..]), ("segment-x", b""), ("other", b"")]
        {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        let mut ring = Ring::open(directory.path(), 4000).unwrap();
        assert_eq!(ring.last_id(), 0);
        ring.append(&frame(1)).unwrap();
        assert_eq!(Ring::open(directory.path(), 4000).unwrap().last_id(), 1);
    }
}
