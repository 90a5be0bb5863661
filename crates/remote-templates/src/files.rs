//! Collects the files of a directory, within limits.

use std::collections::BTreeMap;

use crate::{Error, Limits};

/// The files of a directory, by their paths in it.
#[derive(Debug)]
pub(crate) struct Files<'d> {
    directory: &'d str,
    limits: Limits,
    texts: BTreeMap<String, String>,
    bytes: u64,
}

impl<'d> Files<'d> {
    /// No files yet, of this directory.
    pub(crate) fn new(directory: &'d str, limits: Limits) -> Self {
        Self { directory, limits, texts: BTreeMap::new(), bytes: 0 }
    }

    /// The same without any files.
    pub(crate) fn empty(&self) -> Self {
        Self::new(self.directory, self.limits)
    }

    /// The path in the directory of a file that is wanted. Hidden files are not, nor those elsewhere.
    pub(crate) fn wanted(&self, path: &[u8]) -> Option<String> {
        let path = std::str::from_utf8(path).ok()?;
        let path = path.strip_prefix("./").unwrap_or(path).trim_start_matches('/');
        let inner = match self.directory {
            "" => path,
            directory => path.strip_prefix(directory)?.strip_prefix('/')?,
        };
        let is_plain = inner.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        is_plain.then(|| inner.to_owned())
    }

    /// Whether there is room for a file of this size.
    pub(crate) fn check_room(&self, size: u64) -> Result<(), Error> {
        if self.bytes.saturating_add(size) > self.limits.bytes {
            return Err(Error::TooLarge { limit: self.limits.bytes });
        }
        if self.texts.len() >= self.limits.files {
            return Err(Error::TooMany { limit: self.limits.files });
        }
        Ok(())
    }

    /// Add a file, in place of one with the same path.
    pub(crate) fn add(&mut self, path: String, content: Vec<u8>) -> Result<(), Error> {
        self.remove(&path);
        self.check_room(content.len() as u64)?;
        let text = String::from_utf8(content).map_err(|_| Error::NoText { name: path.clone() })?;
        self.bytes += text.len() as u64;
        self.texts.insert(path, text);
        Ok(())
    }

    /// Add the files of an upper layer, in place of those with the same paths.
    pub(crate) fn cover_with(&mut self, upper: Files<'_>) -> Result<(), Error> {
        upper.texts.into_iter().try_for_each(|(path, text)| self.add(path, text.into_bytes()))
    }

    /// Remove what is at a path of which the directory is a part, or which is a part of the directory.
    pub(crate) fn remove_outer(&mut self, path: &str) {
        let path = path.strip_prefix("./").unwrap_or(path).trim_matches('/');
        let is_around = |rest: &str| path.is_empty() || rest.is_empty() || rest.starts_with('/');
        if self.directory.strip_prefix(path).is_some_and(is_around) {
            self.remove("");
        } else if let Some(inner) = self.wanted(path.as_bytes()) {
            self.remove(&inner);
        }
    }

    /// Remove a file, or a directory with all its files.
    fn remove(&mut self, path: &str) {
        let is_gone = |name: &str| {
            name.strip_prefix(path)
                .is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        let gone: Vec<_> = self.texts.keys().filter(|name| is_gone(name)).cloned().collect();
        for name in gone {
            self.bytes -= self.texts.remove(&name).map_or(0, |text| text.len() as u64);
        }
    }

    /// All of them.
    pub(crate) fn finish(self) -> Result<BTreeMap<String, String>, Error> {
        if self.texts.is_empty() {
            return Err(Error::Empty { directory: self.directory.to_owned() });
        }
        Ok(self.texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_of_the_directory_are_wanted() {
        let files = Files::new("a/b", Limits::default());
        for (path, wanted) in [
            ("a/b/c.yaml", Some("c.yaml")),
            ("./a/b/d/c", Some("d/c")),
            ("/a/b/c", Some("c")),
            ("a/b", None),
            ("a/bc/d", None),
            ("a/b/.hidden", None),
            ("a/b/.git/x", None),
            ("a/b/../x", None),
            ("a/b//x", None),
        ] {
            assert_eq!(files.wanted(path.as_bytes()).as_deref(), wanted, "{path}");
        }
        assert_eq!(files.wanted(b"a/b/\xff"), None);
        assert_eq!(Files::new("", Limits::default()).wanted(b"x").as_deref(), Some("x"));
    }

    #[test]
    fn limits_hold_for_all_files_together() {
        let limits = Limits { bytes: 10, files: 2, ..Limits::default() };
        let mut files = Files::new("", limits);
        files.add("a".to_owned(), b"12345678".to_vec()).unwrap();
        assert!(matches!(files.add("b".to_owned(), b"123".to_vec()), Err(Error::TooLarge { limit: 10 })));
        // What is replaced does not count.
        files.add("a".to_owned(), b"1234567890".to_vec()).unwrap();
        files.remove("a");
        files.add("a/x".to_owned(), b"1".to_vec()).unwrap();
        files.add("b".to_owned(), b"2".to_vec()).unwrap();
        assert!(matches!(files.add("c".to_owned(), Vec::new()), Err(Error::TooMany { limit: 2 })));
        files.remove("a");
        assert!(matches!(files.add("c".to_owned(), vec![0xff]), Err(Error::NoText { .. })));
        assert_eq!(files.finish().unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn what_an_upper_layer_removes_is_gone() {
        let left = |removed: &str| {
            let mut files = Files::new("a/b", Limits::default());
            for path in ["c", "d/e", "de"] {
                files.add(path.to_owned(), Vec::new()).unwrap();
            }
            files.remove_outer(removed);
            files.texts.into_keys().collect::<Vec<_>>().join(" ")
        };
        for (removed, expected) in [
            ("a/b/c", "d/e de"),
            ("./a/b/d", "c de"),
            ("a/b", ""),
            ("a", ""),
            ("", ""),
            ("a/bc", "c d/e de"),
            ("x", "c d/e de"),
        ] {
            assert_eq!(left(removed), expected, "{removed}");
        }
    }
}
