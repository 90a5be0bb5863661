//! The full files beside the current one.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};

/// How the time of a file is written.
const FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// What a time looks like, with zeros for its digits.
const SHAPE: &str = "0000-00-00T00-00-00.000";

#[derive(Debug)]
pub(super) struct Backups {
    directory: PathBuf,
    /// The name of the current file, and its two parts.
    name: String,
    stem: String,
    extension: String,
    most: Option<usize>,
    age: Option<Duration>,
}

impl Backups {
    pub(super) fn new(path: &Path, most: Option<usize>, age: Option<Duration>) -> Self {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let extension =
            path.extension().map_or_else(String::new, |end| format!(".{}", end.to_string_lossy()));
        Self {
            directory: directory.unwrap_or(Path::new(".")).to_owned(),
            name: text(path.file_name()),
            stem: text(path.file_stem()),
            extension,
            most,
            age,
        }
    }

    /// What a file that is full now is renamed to.
    pub(super) fn next(&self) -> PathBuf {
        let mut now = Timestamp::now();
        loop {
            let name = format!("{}-{}{}", self.stem, now.strftime(FORMAT), self.extension);
            let path = self.directory.join(name);
            // A second one in the same millisecond must not take the place of the first.
            if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return path;
            }
            now += SignedDuration::from_millis(1);
        }
    }

    /// Removes what is too old, or one too many. What cannot be removed now is tried again with the next one.
    pub(super) fn prune(&self) {
        let Ok(names) = self.names() else { return };
        let too_many = self.most.map_or(0, |most| names.len().saturating_sub(most));
        for (index, (_, name)) in names.iter().enumerate() {
            let path = self.directory.join(name);
            let is_wanted = index >= too_many && !self.is_too_old(&path);
            if !is_wanted && let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old audit log");
            }
        }
    }

    /// The names of full files, the oldest first.
    fn names(&self) -> io::Result<Vec<(u64, OsString)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            if let Some(order) = name.to_str().and_then(|name| self.order(name)) {
                names.push((order, name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// When a file was full, as a number that grows with time. Nothing for files that are none of ours.
    fn order(&self, name: &str) -> Option<u64> {
        if let Some(number) = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('.')) {
            // `audit.log.1`, as earlier versions had it: the larger, the older, and all of them older than those with a time.
            let is_number = number.len() <= 4 && number.bytes().all(|digit| digit.is_ascii_digit());
            return is_number.then(|| number.parse().ok()).flatten().map(|number: u64| 10_000 - number);
        }
        let time = name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.extension)?;
        let has_shape = time.len() == SHAPE.len()
            && time.bytes().zip(SHAPE.bytes()).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                shape => byte == shape,
            });
        let digits: String = time.chars().filter(char::is_ascii_digit).collect();
        has_shape.then(|| digits.parse().ok()).flatten()
    }

    fn is_too_old(&self, path: &Path) -> bool {
        let Some(age) = self.age else { return false };
        // When it was last written, which is when it was full.
        let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        let oldest = SystemTime::now().checked_sub(age);
        modified.ok().zip(oldest).is_some_and(|(modified, oldest)| modified < oldest)
    }
}
