//! Lists the YAML files of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::SourceError;
use super::pattern::Pattern;
use crate::contents::MAX_BYTES;

/// How deep directories may be in each other.
const MAX_DEPTH: usize = 32;

/// A file that was read.
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The YAML files below a directory, in the order of their paths, without a directory in it and without what matches a pattern.
pub(super) fn list(
    root: &Path,
    without: Option<&Path>,
    ignore: &[String],
) -> Result<Vec<SourceFile>, SourceError> {
    let ignore: Result<Vec<Pattern>, _> = ignore.iter().map(|pattern| Pattern::parse(pattern)).collect();
    // A directory that does not exist has no other name.
    let without = without.and_then(|path| fs::canonicalize(path).ok());
    let mut walk = Walk { root, without, ignore: ignore?, files: Vec::new(), bytes: 0 };
    walk.directory(root, 0)?;
    Ok(walk.files)
}

struct Walk<'a> {
    root: &'a Path,
    without: Option<PathBuf>,
    ignore: Vec<Pattern>,
    files: Vec<SourceFile>,
    bytes: usize,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) -> Result<(), SourceError> {
        if depth > MAX_DEPTH {
            let (path, reason) = (directory.to_owned(), "directories are nested too deep");
            return Err(SourceError::Text { path, reason });
        }
        let failed = |source| SourceError::Io { action: "list", path: directory.to_owned(), source };
        let entries: Result<Vec<_>, _> = fs::read_dir(directory).map_err(failed)?.collect();
        let mut paths: Vec<PathBuf> = entries.map_err(failed)?.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        for path in paths {
            self.entry(&path, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, depth: usize) -> Result<(), SourceError> {
        let failed = |source| SourceError::Io { action: "read", path: path.to_owned(), source };
        if self.is_ignored(path) {
            return Ok(());
        }
        // A link to a directory could lead anywhere, also to where it is itself.
        let is_link = fs::symlink_metadata(path).map_err(failed)?.is_symlink();
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            // A link that leads nowhere is nothing that counts unless it is named like something that does.
            Err(_) if !is_yaml(path) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        if metadata.is_dir() {
            return if is_link || is_hidden(path) || self.is_left_out(path) {
                Ok(())
            } else {
                self.directory(path, depth + 1)
            };
        }
        if metadata.is_file() && is_yaml(path) && metadata.len() > 0 { self.file(path) } else { Ok(()) }
    }

    fn file(&mut self, path: &Path) -> Result<(), SourceError> {
        let wrong = |reason| SourceError::Text { path: path.to_owned(), reason };
        let content = fs::read(path).map_err(|source| SourceError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        self.bytes += content.len();
        if self.bytes > MAX_BYTES {
            return Err(wrong("the files of the package are longer than 200 MiB together"));
        }
        let text = String::from_utf8(content).map_err(|_| wrong("it is not UTF-8 text"))?;
        self.files.push(SourceFile { path: path.to_owned(), text });
        Ok(())
    }

    fn is_left_out(&self, path: &Path) -> bool {
        self.without.is_some() && fs::canonicalize(path).ok() == self.without
    }

    fn is_ignored(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(self.root).unwrap_or(path).to_string_lossy();
        self.ignore.iter().any(|pattern| pattern.matches(&relative))
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}
