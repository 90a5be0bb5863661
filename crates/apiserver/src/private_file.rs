//! Files that only their owner may read: keys, tokens, certificates that belong to them.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// What no file of ours comes near: whatever is longer is not ours.
const LONGEST: u64 = 1 << 20;

/// Makes a directory, and those above it, for the owner alone. One that exists stays as it is.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file as a whole: after a crash there is the old one or the new one.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Temporary files are made for their owner alone.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// The content, or none if there is no such file.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long"));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_read() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, file) = (directory.path().join("a/b"), directory.path().join("a/b/key"));
        create_directory(&inner).unwrap();
        write(&file, b"one").unwrap();
        write(&file, b"two").unwrap();
        assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
        assert_eq!(read(&file).unwrap().as_deref(), Some("two"));
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
    }

    #[test]
    fn missing_file_is_not_an_error_and_a_huge_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        assert_eq!(read(&file).unwrap(), None);
        File::create(&file).unwrap().set_len(LONGEST + 1).unwrap();
        read(&file).unwrap_err();
    }
}
