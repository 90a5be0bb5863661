//! What a segment begins with: what it is, and in which version of its format.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::frame::{Frame, frames};

const NAME: usize = 14;
const HEADER: usize = NAME + 2;

/// What segments hold, and the version that is written. Its header has 16 bytes: name, version, line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFormat {
    name: [u8; NAME],
    version: u8,
    /// The oldest version that is read.
    oldest: u8,
}

/// A file that a later release wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has version {version} of the format, this program knows {known}; use a newer Ferroplane")]
pub struct LaterVersion {
    pub version: u8,
    pub known: u8,
}

impl FileFormat {
    pub const fn new(name: [u8; NAME], version: u8) -> Self {
        Self { name, version, oldest: version }
    }

    /// The same format, where segments of earlier versions are read, too, from this one on. Their frames have to mean the same.
    #[must_use]
    pub const fn reading_from(self, oldest: u8) -> Self {
        Self { oldest, ..self }
    }

    /// What a segment begins with.
    pub fn header(&self) -> [u8; HEADER] {
        let mut header = [b'\n'; HEADER];
        header[..NAME].copy_from_slice(&self.name);
        header[NAME] = self.version;
        header
    }

    /// Refuses what a later release wrote, by its first bytes. What is no segment at all is none of a later release either.
    pub fn check(&self, start: &[u8]) -> Result<(), LaterVersion> {
        match start.strip_prefix(&self.name) {
            Some([version, b'\n', ..]) if *version > self.version => {
                Err(LaterVersion { version: *version, known: self.version })
            }
            _ => Ok(()),
        }
    }

    /// The same of a file. One that has gone meanwhile is none of a later release.
    pub(crate) fn check_file(&self, path: &Path) -> io::Result<Result<(), LaterVersion>> {
        let mut start = Vec::with_capacity(HEADER);
        match File::open(path).and_then(|file| file.take(HEADER as u64).read_to_end(&mut start)) {
            Ok(_) => Ok(self.check(&start)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(())),
            Err(error) => Err(error),
        }
    }

    /// Whether something is a segment of this format, in a version that is read.
    pub fn is_header_of(&self, segment: &[u8]) -> bool {
        self.after_header(segment).is_some()
    }

    fn after_header<'a>(&self, segment: &'a [u8]) -> Option<&'a [u8]> {
        match segment.strip_prefix(&self.name)? {
            [version, b'\n', rest @ ..] if (self.oldest..=self.version).contains(version) => Some(rest),
            _ => None,
        }
    }

    /// The frames of a segment until its end, or until something is not what was written.
    pub fn frames<'a>(&self, segment: &'a [u8]) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let rest = self.after_header(segment).unwrap_or_default();
        frames(rest, segment.len() - rest.len())
    }
}
