//! Reads recordings, from a directory or a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ferroplane_segments::segment_files;

use crate::format::{Blob, Body, Digest, Head};
use crate::frame::{self, Batch, FORMAT, batches};
use crate::recording::{Damaged, Recording};

/// What recordings bring along.
type Blobs = HashMap<Digest, Bytes>;

/// Recordings.
#[derive(Debug)]
pub struct Archive(Vec<Segment>);

#[derive(Debug)]
enum Segment {
    Memory(Vec<u8>),
    File(PathBuf),
}

/// Recordings that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the recordings in `{}`", path.display())]
pub struct Unreadable {
    path: PathBuf,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Unreadable {
    fn new(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { path: path.to_owned(), source: source.into() }
    }
}

impl Archive {
    pub(crate) fn of(segments: Vec<Vec<u8>>) -> Self {
        Self(segments.into_iter().map(Segment::Memory).collect())
    }

    /// The recordings in a directory, or in a file that was exported.
    pub fn open(path: &Path) -> Result<Self, Unreadable> {
        if path.is_dir() {
            let segments = segment_files(path, FORMAT).map_err(|error| Unreadable::new(path, error))?;
            return Ok(Self(segments.into_iter().map(|(_, path)| Segment::File(path)).collect()));
        }
        let bytes = std::fs::read(path).map_err(|error| Unreadable::new(path, error))?;
        FORMAT.check(&bytes).map_err(|error| Unreadable::new(path, error))?;
        if !FORMAT.is_header_of(&bytes) {
            return Err(Unreadable::new(path, "it is not a recording of this version"));
        }
        Ok(Self::of(vec![bytes]))
    }

    /// All recordings, oldest first.
    pub fn heads(&self) -> Result<Vec<Head>, Unreadable> {
        let mut heads = Vec::new();
        for segment in &self.0 {
            heads.extend(batches(&segment.read()?).flat_map(|batch| batch.heads));
        }
        Ok(heads)
    }

    /// A recording by its number. None if it is not there (any more).
    pub fn get(&self, id: u64) -> Result<Option<Result<Recording, Damaged>>, Unreadable> {
        Ok(self.find(id)?.map(|(head, body, blobs)| Recording::decode(head, body, &blobs)))
    }

    /// A recording as a file of its own.
    pub fn export(&self, id: u64) -> Result<Option<Vec<u8>>, Unreadable> {
        let Some((head, mut body, blobs)) = self.find(id)? else { return Ok(None) };
        let mut wanted: Vec<_> = blobs.into_iter().collect();
        // A map has no order, and the same recording should always be exported as the same bytes.
        wanted.sort_unstable_by_key(|(digest, _)| *digest);
        let needed = crate::decode::needed(&body);
        let blob = |(digest, content): (Digest, Bytes)| Blob { digest: digest.to_vec().into(), content };
        body.blobs = wanted.into_iter().filter(|(digest, _)| needed.contains(digest)).map(blob).collect();
        Ok(Some([&FORMAT.header()[..], &frame::write(vec![head], vec![body])].concat()))
    }

    /// All recordings as one file.
    pub fn export_all(&self) -> Result<Vec<u8>, Unreadable> {
        let mut file = FORMAT.header().to_vec();
        for segment in &self.0 {
            let bytes = segment.read()?;
            for batch in batches(&bytes) {
                file.extend_from_slice(batch.bytes);
            }
        }
        Ok(file)
    }

    /// Look at every recording, oldest first.
    pub fn each(&self, mut look: impl FnMut(Result<Recording, Damaged>)) -> Result<(), Unreadable> {
        for segment in &self.0 {
            let mut blobs = Blobs::new();
            for (head, mut body) in batches(&segment.read()?).flat_map(Batch::into_recordings) {
                take_blobs(&mut body, &mut blobs);
                look(Recording::decode(head, body, &blobs));
            }
        }
        Ok(())
    }

    /// A recording, and everything that recordings up to it brought along.
    fn find(&self, id: u64) -> Result<Option<(Head, Body, Blobs)>, Unreadable> {
        // The newest first: most questions are about what happened just now.
        for segment in self.0.iter().rev() {
            let bytes = segment.read()?;
            // Heads are not compressed, so that segments without the recording cost no decompression.
            if !batches(&bytes).any(|batch| batch.has(id)) {
                continue;
            }
            let mut blobs = Blobs::new();
            for (head, mut body) in batches(&bytes).flat_map(Batch::into_recordings) {
                // From the start of the segment: a recording refers to what earlier ones in it brought along,
                // and never beyond.
                take_blobs(&mut body, &mut blobs);
                if head.id == id {
                    return Ok(Some((head, body, blobs)));
                }
            }
        }
        Ok(None)
    }
}

/// Takes out of a recording what it brings along.
fn take_blobs(body: &mut Body, blobs: &mut Blobs) {
    for Blob { digest, content } in std::mem::take(&mut body.blobs) {
        if let Ok(digest) = Digest::try_from(&digest[..]) {
            blobs.insert(digest, content);
        }
    }
}

impl Segment {
    fn read(&self) -> Result<Cow<'_, [u8]>, Unreadable> {
        match self {
            Self::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(Cow::Owned(bytes)),
                // It was the oldest, and has gone meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Cow::Borrowed(&[])),
                Err(error) => Err(Unreadable::new(path, error)),
            },
        }
    }
}
