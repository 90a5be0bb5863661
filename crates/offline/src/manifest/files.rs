//! Finds manifests: in a file, in a directory and all below it, or on standard input.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Error, Located, Manifest, Node, yaml};

/// Where manifests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestSource {
    File(PathBuf),
    Stdin,
}

impl ManifestSource {
    /// Where a relative path in this source starts.
    pub fn directory(&self) -> PathBuf {
        match self {
            Self::File(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            },
            Self::Stdin => PathBuf::from("."),
        }
    }
}

impl fmt::Display for ManifestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

/// Reads manifests, and remembers which files they came from.
#[derive(Debug, Default)]
pub struct Files {
    /// Every file and directory that was looked into, and what it looked like just before.
    seen: BTreeMap<PathBuf, Look>,
    /// Standard input can be read only once.
    has_read_stdin: bool,
}

impl Files {
    /// Every object in a file, in a directory and all below it, or on standard input (`-`).
    pub fn load(&mut self, path: &Path) -> Result<Vec<Manifest>, Error> {
        self.load_documents(path, MANIFESTS)
    }

    /// The same, in files with these extensions if it is a directory.
    pub(crate) fn load_documents(
        &mut self,
        path: &Path,
        extensions: &[&str],
    ) -> Result<Vec<Manifest>, Error> {
        let mut manifests = Vec::new();
        for source in self.sources(path, extensions)? {
            let text = self.read(&source)?;
            let (source, text): (_, Arc<str>) = (Arc::new(source), text.into());
            let nodes = yaml::parse(&text).map_err(|bad| Located::new(&source, bad.line, bad.message))?;
            for node in nodes.into_iter().flat_map(Node::unwrap_list) {
                manifests.push(Manifest::new(source.clone(), text.clone(), node, 0)?);
            }
        }
        Ok(manifests)
    }

    /// The one object in a file.
    pub(crate) fn load_one(&mut self, path: &Path, what: &str) -> Result<Manifest, Error> {
        let mut manifests = self.load(path)?;
        match manifests.len() {
            1 => Ok(manifests.remove(0)),
            0 => Err(Error::Nothing { path: path.to_owned(), what: what.to_owned() }),
            _ => Err(manifests[1].error(&[], format!("expected one {what}, found another object")).into()),
        }
    }

    /// The text of a file that is not a manifest.
    pub(crate) fn load_text(&mut self, path: &Path) -> Result<String, Error> {
        self.see(path);
        self.read(&ManifestSource::File(path.to_owned()))
    }

    /// The texts of all files in a directory and all below it, by their paths in it. Hidden ones do not count, as everywhere. Whatever
    /// links lead to has to be in the directory that surrounds it.
    pub(crate) fn load_texts(
        &mut self,
        directory: &Path,
        within: &Path,
    ) -> Result<BTreeMap<String, String>, Error> {
        self.see(directory);
        let mut found = Vec::new();
        self.walk(directory, &mut |_| true, &mut found, MAX_DEPTH)?;
        let root = std::fs::canonicalize(within).map_err(|source| unreadable(within, source))?;
        let mut texts = BTreeMap::new();
        for source in found {
            let ManifestSource::File(path) = &source else { continue };
            let real = std::fs::canonicalize(path).map_err(|source| unreadable(path, source))?;
            if !real.starts_with(&root) {
                let message = format!("the file is a link to a file outside of {}", within.display());
                return Err(Located::new(&source, None, message).into());
            }
            let name = path.strip_prefix(directory).unwrap_or(path).to_string_lossy().into_owned();
            texts.insert(name, self.read(&source)?);
        }
        Ok(texts)
    }

    /// Remembers that a file or directory is not there, so that it counts as a change when it is.
    pub(crate) fn miss(&mut self, path: &Path) {
        self.see(path);
    }

    /// The files of manifests that a path stands for.
    pub fn find(&mut self, path: &Path) -> Result<Vec<ManifestSource>, Error> {
        self.sources(path, MANIFESTS)
    }

    fn sources(&mut self, path: &Path, extensions: &[&str]) -> Result<Vec<ManifestSource>, Error> {
        if path == Path::new("-") {
            return Ok(vec![ManifestSource::Stdin]);
        }
        self.see(path);
        let info = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if !info.is_dir() {
            return Ok(vec![ManifestSource::File(path.to_owned())]);
        }
        let mut found = Vec::new();
        let mut is_wanted = |path: &Path| {
            path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known))
        };
        self.walk(path, &mut is_wanted, &mut found, MAX_DEPTH)?;
        if found.is_empty() {
            return Err(Error::NoFiles { path: path.to_owned(), extensions: extensions.join(" or ") });
        }
        Ok(found)
    }

    fn walk(
        &mut self,
        directory: &Path,
        is_wanted: &mut impl FnMut(&Path) -> bool,
        found: &mut Vec<ManifestSource>,
        depth: usize,
    ) -> Result<(), Error> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Error::TooDeep(directory.to_owned()));
        };
        let entries = std::fs::read_dir(directory).map_err(|source| unreadable(directory, source))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        // A directory gives its entries in any order, and what is rendered or told must not depend on it.
        paths.sort();
        for path in paths {
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if is_hidden {
                continue;
            }
            if path.is_dir() {
                self.see(&path);
                self.walk(&path, is_wanted, found, depth)?;
            } else if is_wanted(&path) {
                self.see(&path);
                found.push(ManifestSource::File(path));
            }
        }
        Ok(())
    }

    /// What a file says.
    pub(crate) fn read(&mut self, source: &ManifestSource) -> Result<String, Error> {
        match source {
            ManifestSource::File(path) => {
                let bytes = std::fs::read(path).map_err(|source| unreadable(path, source))?;
                String::from_utf8(bytes).map_err(|error| {
                    Located::new(source, line_of_bad_text(&error), "the file is not UTF-8 text").into()
                })
            }
            ManifestSource::Stdin if self.has_read_stdin => Err(Error::StandardInputTwice),
            ManifestSource::Stdin => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(Error::StandardInput)?;
                self.has_read_stdin = true;
                Ok(text)
            }
        }
    }

    /// Waits until any file looks different from just before it was read.
    pub async fn until_changed(&self) {
        while !self.have_changed() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn have_changed(&self) -> bool {
        self.seen.iter().any(|(path, before)| look(path) != *before)
    }

    /// Looking before reading: what changes while it is read has changed.
    fn see(&mut self, path: &Path) {
        self.seen.entry(path.to_owned()).or_insert_with(|| look(path));
    }
}

/// When a file was last written, and how large it is. Nothing if it is not there.
type Look = Option<(SystemTime, u64)>;

fn look(path: &Path) -> Look {
    let info = std::fs::metadata(path).ok()?;
    Some((info.modified().ok()?, info.len()))
}

/// What the names of files with manifests end in.
const MANIFESTS: &[&str] = &["yaml", "yml", "json"];

/// How often files are checked. Asking the operating system to tell would miss network file systems.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How deep directories may nest.
const MAX_DEPTH: usize = 32;

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.to_owned(), source }
}

fn line_of_bad_text(error: &std::string::FromUtf8Error) -> Option<u64> {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    u64::try_from(good.split(|byte| *byte == b'\n').count()).ok()
}
