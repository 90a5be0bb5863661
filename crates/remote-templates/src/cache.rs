//! Keeps what was fetched in a directory, so that a restart needs no network.
//!
//! A file is named by the digest of what it was fetched from, which names its content by a digest in turn: it is never out of date.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ferroplane_image::Hasher;
use serde::{Deserialize, Serialize};

use crate::{Error, Limits};

/// The most that is kept. What was not used for longest goes first.
const CAPACITY: usize = 256;

#[derive(Serialize, Deserialize)]
struct Entry {
    remote: String,
    files: BTreeMap<String, String>,
    /// Of the files, because nothing else notices a disk that lost some of them.
    digest: String,
}

/// A directory with what was fetched.
#[derive(Debug, Clone)]
pub(crate) struct Cache(PathBuf);

impl Cache {
    /// The directory is made if it is not there. Only the user may look into it.
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
        Ok(Self(directory.to_owned()))
    }

    /// What was fetched from there, if it is here and whole.
    pub(crate) fn get(&self, remote: &str, limits: Limits) -> Option<BTreeMap<String, String>> {
        let path = self.path(remote);
        // A file that is larger than all that may be fetched is none of ours. JSON takes up to six bytes for one.
        let size = fs::metadata(&path).ok()?.len();
        let text = (size < limits.bytes.saturating_mul(6) + (1 << 20)).then(|| fs::read(&path).ok())??;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        let is_whole = entry.remote == remote && entry.digest == digest_of(&entry.files);
        fs::File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .ok();
        is_whole.then_some(entry.files)
    }

    /// Keep what was fetched from there.
    pub(crate) fn put(&self, remote: &str, files: &BTreeMap<String, String>) -> Result<(), Error> {
        let entry = Entry { remote: remote.to_owned(), files: files.clone(), digest: digest_of(files) };
        let text = serde_json::to_vec(&entry).map_err(std::io::Error::from)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.0)?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(self.path(remote)).map_err(|error| error.error)?;
        self.make_room()
    }

    fn make_room(&self) -> Result<(), Error> {
        let entries = fs::read_dir(&self.0)?.flatten();
        let mut known: Vec<_> = entries
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        known.sort();
        let surplus = known.len().saturating_sub(CAPACITY);
        for (_, path) in known.drain(..surplus) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn path(&self, remote: &str) -> PathBuf {
        self.0.join(format!("{}.json", Hasher::digest(remote.as_bytes()).hex()))
    }
}

fn digest_of(files: &BTreeMap<String, String>) -> String {
    Hasher::digest(serde_json::to_string(files).unwrap_or_default().as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> BTreeMap<String, String> {
        [("a.yaml".to_owned(), text.to_owned())].into()
    }

    #[test]
    fn what_is_kept_is_given_back_if_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(&directory.path().join("templates")).unwrap();
        let limits = Limits::default();
        assert_eq!(cache.get("x", limits), None);
        cache.put("x", &files("one")).unwrap();
        assert_eq!(cache.get("x", limits), Some(files("one")));
        assert_eq!(cache.get("y", limits), None);
        // A file that a user changed, cut off, or put under another name is not taken.
        let path = cache.path("x");
        let whole = fs::read_to_string(&path).unwrap();
        fs::copy(&path, cache.path("y")).unwrap();
        for broken in [whole.replace("one", "two"), whole[..20].to_owned(), String::new()] {
            fs::write(&path, broken).unwrap();
            assert_eq!(cache.get("x", limits), None);
        }
        assert_eq!(cache.get("y", limits), None);
        let mode = fs::metadata(directory.path().join("templates")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn directory_does_not_grow_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        for number in 0..CAPACITY + 5 {
            cache.put(&number.to_string(), &files("x")).unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), CAPACITY);
        assert!(cache.get(&(CAPACITY + 4).to_string(), Limits::default()).is_some());
    }
}
