//! Content that must not be removed: while a process runs ([`Pin`]), or until it is released (roots).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ferroplane_api::image::Digest;
use uuid::Uuid;

use super::directory::{Lock, PARTIAL, PINS, ROOTS, create_private, write_new};
use super::{Error, Store};
use crate::Hasher;

/// Keeps content in the store until it is dropped or its process ends.
#[derive(Debug)]
pub struct Pin {
    store: Store,
    file: File,
    path: PathBuf,
}

impl Store {
    /// Start to keep content. Add digests before looking whether they are there: what is found then stays.
    pub fn pin(&self) -> Result<Pin, Error> {
        let _lock = self.lock()?;
        let path = self.part(PINS).join(Uuid::new_v4().to_string());
        let file = create_private(&path).map_err(Error::io("create", &path))?;
        file.try_lock().map_err(|error| Error::io("lock", &path)(error.into()))?;
        Ok(Pin { store: self.clone(), file, path })
    }

    /// Keep content for whatever has this name, across restarts, instead of what was kept for it before.
    pub fn keep(&self, name: &str, digests: &[Digest]) -> Result<(), Error> {
        let lines: Vec<String> = digests.iter().map(ToString::to_string).collect();
        let _lock = self.lock()?;
        write_new(&self.part(PARTIAL), &self.root_path(name), lines.join("\n").as_bytes())
    }

    /// Keep nothing for this name any more.
    pub fn release(&self, name: &str) -> Result<(), Error> {
        let _lock = self.lock()?;
        let path = self.root_path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// All content that must not be removed now.
    pub(super) fn kept(&self, _lock: &Lock) -> Result<HashSet<Digest>, Error> {
        let mut kept = HashSet::new();
        for path in files(&self.part(ROOTS))? {
            kept.extend(digests(&path)?);
        }
        for path in files(&self.part(PINS))? {
            if is_abandoned(&path) {
                let _ = fs::remove_file(&path);
            } else {
                kept.extend(digests(&path)?);
            }
        }
        Ok(kept)
    }

    /// Names are foreign input, and may be anything.
    fn root_path(&self, name: &str) -> PathBuf {
        self.part(ROOTS).join(Hasher::digest(name.as_bytes()).hex())
    }
}

impl Pin {
    pub fn add(&mut self, digest: &Digest) -> Result<(), Error> {
        let _lock = self.store.lock()?;
        let line = format!("{digest}\n");
        // Not synchronised: after a power failure, no process is left that needs it.
        self.file.write_all(line.as_bytes()).map_err(Error::io("write", &self.path))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The process that wrote it holds its lock.
pub(super) fn is_abandoned(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(Error::io("list", directory))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(Error::io("list", directory))).collect()
}

fn digests(path: &Path) -> Result<Vec<Digest>, Error> {
    match fs::read_to_string(path) {
        Ok(lines) => Ok(lines.lines().filter_map(|line| line.parse().ok()).collect()),
        // Its process dropped it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}
