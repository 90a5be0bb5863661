//! Unpacking layers, as honest tools write them and as nobody should.

mod contents;
mod hostile;
mod property;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ferroplane_image::Hasher;
use ferroplane_image::compression::Compression;
use ferroplane_image::unpack::{Error, Limits, Summary, Unpacker};
use tempfile::TempDir;

/// A directory to unpack to, with things around it that nobody may touch.
pub(crate) struct Surroundings {
    directory: TempDir,
}

const SENTINEL: &str = "nobody touches this";

impl Surroundings {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir_all(directory.path().join("images/root")).unwrap();
        fs::create_dir(directory.path().join("secrets")).unwrap();
        for name in ["sentinel", "images/sentinel", "secrets/sentinel"] {
            fs::write(directory.path().join(name), SENTINEL).unwrap();
        }
        Self { directory }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("images/root")
    }

    /// The absolute path of something that is not ours.
    pub(crate) fn outside(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Nothing around the root was changed, and the root can be deleted.
    pub(crate) fn check(&self) {
        let mut found = list(self.directory.path());
        found.retain(|path| !path.starts_with("images/root/"));
        assert_eq!(
            found,
            ["images", "images/root", "images/sentinel", "secrets", "secrets/sentinel", "sentinel"]
        );
        for name in ["sentinel", "images/sentinel", "secrets/sentinel"] {
            let metadata = fs::metadata(self.directory.path().join(name)).unwrap();
            assert_eq!(metadata.nlink(), 1, "{name} has another name");
            assert_eq!(fs::read_to_string(self.directory.path().join(name)).unwrap(), SENTINEL, "{name}");
        }
        check_modes(&self.root());
        fs::remove_dir_all(self.root()).unwrap();
    }
}

/// The process that runs the tests as root could delete anything, so the modes are checked.
fn check_modes(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.permissions().mode();
    assert!(metadata.is_symlink() || mode & 0o7000 == 0, "{} has mode {mode:o}", path.display());
    if metadata.is_dir() {
        assert_eq!(mode & 0o700, 0o700, "{} cannot be deleted", path.display());
        for entry in fs::read_dir(path).unwrap() {
            check_modes(&entry.unwrap().path());
        }
    } else {
        assert!(metadata.is_file() || metadata.is_symlink(), "{} is something else", path.display());
    }
}

/// All paths below a directory, sorted.
pub(crate) fn list(directory: &Path) -> Vec<String> {
    fn visit(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                visit(&entry.path(), &format!("{path}/"), found);
            }
            found.push(path);
        }
    }
    let mut found = Vec::new();
    visit(directory, "", &mut found);
    found.sort();
    found
}

/// Unpack plain layers.
pub(crate) fn unpack(root: &Path, layers: &[Vec<u8>], limits: Limits) -> Result<Summary, Error> {
    let mut unpacker = Unpacker::new(root, limits)?;
    for layer in layers {
        unpacker.layer(layer.as_slice(), Compression::None, &Hasher::digest(layer))?;
    }
    unpacker.finish()
}

/// An error and all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}
