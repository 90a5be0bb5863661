//! A file that makes room: when it is full it becomes `NAME.1`, what was `NAME.1` becomes `NAME.2`, and so on.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::private_file;

pub(super) struct RotatingFile {
    path: PathBuf,
    /// None after an error: it is opened again for the next line.
    file: Option<File>,
    size: u64,
    most: u64,
    files: usize,
}

impl RotatingFile {
    pub(super) fn open(path: &Path, most: u64, files: usize) -> io::Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            private_file::create_directory(directory)?;
        }
        let mut file = Self { path: path.to_owned(), file: None, size: 0, most, files };
        file.reopen()?;
        Ok(file)
    }

    /// Writes whole lines. None of them is split between two files.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let result = self.try_write(lines);
        if result.is_err() {
            self.file = None;
        }
        result
    }

    fn try_write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        // A batch that is larger than a file still gets one: a line that does not fit is worse than a file that is too long.
        if self.size > 0 && self.size + lines.len() as u64 > self.most {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        // To append: if somebody cuts the file short by hand, lines go on at its end.
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        // The mode above counts only for a new file; one that is there may be readable by others.
        file.set_permissions(Permissions::from_mode(0o600))?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_data()?;
        }
        // The oldest one is replaced.
        for number in (1..self.files).rev() {
            rename_if_there(&self.numbered(number), &self.numbered(number + 1))?;
        }
        match self.files {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, self.numbered(1))?,
        }
        self.reopen()
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(self.path.as_os_str());
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Drop for RotatingFile {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = file.sync_data();
        }
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn full_file_makes_room_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log/audit.log");
        let mut file = RotatingFile::open(&path, 8, 2).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "a very long line\n", "six\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        let folder = path.parent().unwrap();
        assert_eq!(names(folder), ["audit.log", "audit.log.1", "audit.log.2"]);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(read("audit.log"), "six\n");
        assert_eq!(read("audit.log.1"), "a very long line\n");
        assert_eq!(read("audit.log.2"), "four\n");
    }

    #[test]
    fn file_goes_on_where_it_ended_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "old\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        RotatingFile::open(&path, 100, 0).unwrap().write(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old\nnew\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn file_is_opened_again_after_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4, 1).unwrap();
        file.write(b"one\n").unwrap();
        // A directory stands where the full file is to go.
        fs::create_dir_all(directory.path().join("audit.log.1/x")).unwrap();
        file.write(b"two\n").unwrap_err();
        fs::remove_dir_all(directory.path().join("audit.log.1")).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn nothing_is_kept_if_nothing_is_to_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4, 0).unwrap();
        file.write(b"one\n").unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(names(directory.path()), ["audit.log"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }
}
