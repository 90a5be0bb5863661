//! A file that makes room: when it is full it is renamed after the time, `audit.log` to `audit-2026-01-31T12-30-00.000.log`, and a new
//! one begins. kube-apiserver names its files the same way.
//!
//! # Guarantees
//! * Only the owner may read it, and links are not followed: a user who may write to the directory cannot have another file written.
//! * Every line is whole, whatever happens: one that was cut short, by a crash or a full disk, is removed.
//! * A full file becomes an old one by a single renaming. After a crash at any moment, no line is lost that was written.

mod backups;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::geteuid;

use self::backups::Backups;
use crate::private_file;

/// How often to look for files that have become too old.
const AGE_CHECK: Duration = Duration::from_hours(1);

/// How far back the beginning of a line is looked for. No line is longer.
const LONGEST_LINE: u64 = 1 << 20;

pub(super) struct RotatingFile {
    path: PathBuf,
    /// None after an error: it is opened again for the next line.
    file: Option<File>,
    size: u64,
    most: u64,
    backups: Backups,
    checked: Instant,
}

impl RotatingFile {
    /// Opens a file that may have so many bytes, with so many full ones beside it, or all, which may be so old, or of any age.
    pub(super) fn open(
        path: &Path,
        most: u64,
        files: Option<usize>,
        age: Option<Duration>,
    ) -> io::Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            private_file::create_directory(directory)?;
        }
        let backups = Backups::new(path, files, age);
        let checked = Instant::now();
        let mut file = Self { path: path.to_owned(), file: None, size: 0, most, backups, checked };
        file.reopen()?;
        file.backups.prune();
        Ok(file)
    }

    /// Writes whole lines. None of them is split between two files.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.checked.elapsed() > AGE_CHECK {
            self.checked = Instant::now();
            self.backups.prune();
        }
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
        if let Err(error) = file.write_all(lines) {
            // What was written of it is counted as lost, so that it must not stay.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size += lines.len() as u64;
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        let mut file = open_private(&self.path)?;
        self.size = end_of_lines(&mut file)?;
        if self.size < file.metadata()?.len() {
            tracing::warn!(path = %self.path.display(), "the audit log ended with an incomplete line, which was removed");
            file.set_len(self.size)?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_data()?;
        }
        fs::rename(&self.path, self.backups.next())?;
        self.reopen()?;
        self.backups.prune();
        Ok(())
    }
}

impl Drop for RotatingFile {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = file.sync_data();
        }
    }
}

/// Opens a file to append to, which only we may read and write, and which is nothing but a file.
fn open_private(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    // To append: if a user truncates the file, lines continue at its end. Without blocking: a pipe would wait for a reader.
    let opened =
        OpenOptions::new().create(true).read(true).append(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => refused("it is a symbolic link"),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused("it is not a regular file; `-` is standard output"));
    }
    if metadata.nlink() > 1 {
        return Err(refused("it has another name, by which others may have it written"));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    // The mode above counts only for a new file; one that is there may be readable by others.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Where the last whole line ends.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let start = size.saturating_sub(LONGEST_LINE);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(LONGEST_LINE).read_to_end(&mut tail)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position as u64 + 1);
    // A file without any lines is none of ours, and is left as it is.
    Ok(if end == 0 && start > 0 { size } else { start + end })
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
        let mut file = RotatingFile::open(&path, 8, Some(2), None).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "a very long line\n", "six\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        let folder = path.parent().unwrap();
        let names = names(folder);
        // The older one first, and the current one last.
        let contents: Vec<_> =
            names.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
        assert_eq!(contents, ["four\n", "a very long line\n", "six\n"]);
        assert!(names[0] < names[1] && names[0].starts_with("audit-20"), "{names:?}");
        let modes =
            names.iter().map(|name| folder.join(name).metadata().unwrap().permissions().mode() & 0o777);
        assert!(modes.into_iter().all(|mode| mode == 0o600));
    }

    #[test]
    fn file_goes_on_where_it_ended_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "old\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        RotatingFile::open(&path, 100, Some(0), None).unwrap().write(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old\nnew\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn file_is_opened_again_after_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("log");
        let path = folder.join("audit.log");
        let mut file = RotatingFile::open(&path, 4, Some(1), None).unwrap();
        file.write(b"one\n").unwrap();
        // There is no way to where the full file is to go.
        fs::rename(&folder, directory.path().join("elsewhere")).unwrap();
        file.write(b"two\n").unwrap_err();
        fs::rename(directory.path().join("elsewhere"), &folder).unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(names(&folder).len(), 2);
    }

    #[test]
    fn nothing_is_kept_if_nothing_is_to_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4, Some(0), None).unwrap();
        file.write(b"one\n").unwrap();
        file.write(b"two\n").unwrap();
        assert_eq!(names(directory.path()), ["audit.log"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn all_files_are_kept_if_nobody_says_how_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4, None, None).unwrap();
        for _ in 0..30 {
            file.write(b"one\n").unwrap();
        }
        assert_eq!(names(directory.path()).len(), 30);
    }

    #[test]
    fn old_files_go_and_those_of_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - Duration::from_hours(49);
        let mine = ["audit-2020-01-31T12-30-00.000.log", "audit-2020-01-31T12-30-00.001.log", "audit.log.7"];
        for name in
            mine.into_iter().chain(["audit-notes.log", "other-2020-01-31T12-30-00.000.log", "audit.log.gz"])
        {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(old).unwrap();
        }
        File::open(directory.path().join(mine[1]))
            .unwrap()
            .set_modified(std::time::SystemTime::now())
            .unwrap();
        let path = directory.path().join("audit.log");
        drop(RotatingFile::open(&path, 100, None, Some(Duration::from_hours(48))).unwrap());
        let left = [
            "audit-2020-01-31T12-30-00.001.log",
            "audit-notes.log",
            "audit.log",
            "audit.log.gz",
            "other-2020-01-31T12-30-00.000.log",
        ];
        assert_eq!(names(directory.path()), left);
    }

    #[test]
    fn line_that_was_cut_short_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "whole\n{\"cut").unwrap();
        RotatingFile::open(&path, 100, Some(1), None).unwrap().write(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nnext\n");
        fs::write(&path, "{\"cut").unwrap();
        RotatingFile::open(&path, 100, Some(1), None).unwrap().write(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "next\n");
    }

    #[test]
    fn crash_while_files_are_rotated_loses_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4, Some(2), None).unwrap();
        file.write(b"one\n").unwrap();
        // The full file is renamed, and the next one was not begun.
        fs::rename(&path, file.backups.next()).unwrap();
        std::mem::forget(file);
        let mut file = RotatingFile::open(&path, 4, Some(2), None).unwrap();
        file.write(b"two\n").unwrap();
        // The next one was begun, and the oldest is still there.
        file.write(b"six\n").unwrap();
        fs::write(directory.path().join("audit-2020-01-31T12-30-00.000.log"), "old\n").unwrap();
        std::mem::forget(file);
        drop(RotatingFile::open(&path, 4, Some(2), None).unwrap());
        let names = names(directory.path());
        let contents: Vec<_> =
            names.iter().map(|name| fs::read_to_string(directory.path().join(name)).unwrap()).collect();
        assert_eq!(contents, ["one\n", "two\n", "six\n"]);
    }

    #[test]
    fn links_pipes_and_files_with_other_names_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "mine\n").unwrap();
        let mode = || victim.metadata().unwrap().permissions().mode() & 0o777;
        fs::set_permissions(&victim, Permissions::from_mode(0o644)).unwrap();
        let symbolic = directory.path().join("symbolic.log");
        std::os::unix::fs::symlink(&victim, &symbolic).unwrap();
        let hard = directory.path().join("hard.log");
        fs::hard_link(&victim, &hard).unwrap();
        let pipe = directory.path().join("pipe.log");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, why) in [(symbolic, "symbolic link"), (hard, "another name"), (pipe, "")] {
            let error = RotatingFile::open(&path, 100, None, None).err().expect("it is no file of ours");
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), mode()), ("mine\n", 0o644));
    }

    #[test]
    fn link_that_appears_where_the_next_file_begins_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4, Some(2), None).unwrap();
        file.write(b"one\n").unwrap();
        let victim = directory.path().join("victim");
        fs::rename(&path, directory.path().join("taken")).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        file.file = None;
        file.write(b"two\n").unwrap_err();
        assert!(!victim.exists());
    }
}
