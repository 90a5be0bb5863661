//! A directory of unpacked images, shared by every process that uses it.
//!
//! | Path | Content |
//! |---|---|
//! | `HEX.lock` | locked exclusively by who unpacks or removes the image, shared by who uses it; its time is that of the last use |
//! | `HEX.partial/` | an image that is being unpacked or removed |
//! | `HEX/rootfs/` | the file system of the image whose manifest has this digest |
//! | `HEX/unpacked.json` | since which boot it is there, and its size |
//!
//! # Invariants
//! * What has its final name was unpacked completely and verified. Files are not synchronised, which would take longer than to unpack
//!   them: what an earlier boot of the machine left is unpacked again.
//! * A process that ends at any point leaves `HEX.partial` at most, which the next one that looks removes.
//! * What is used is not removed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Error, Limits, Summary, Unpacker};
use crate::compression::Compression;
use crate::store::{self, Store};
use crate::{Digest, Image};

/// Unpacked images in a directory. Its calls block on the disk.
#[derive(Debug, Clone)]
pub struct Roots {
    directory: PathBuf,
    limits: Limits,
    owner: Option<u32>,
}

/// An unpacked image. It stays where it is until this is dropped.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    _lock: File,
}

impl Root {
    /// The root directory of the image. It must not be written to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Why an image is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot unpack image {image}: cannot read layer {layer}")]
    Layer { image: Digest, layer: Digest, source: Box<store::Error> },
    #[error("cannot unpack image {image}, layer {layer}")]
    Unpack { image: Digest, layer: Digest, source: Box<Error> },
    #[error("cannot unpack image {image}")]
    Image { image: Digest, source: Box<Error> },
}

impl RootsError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// What is written beside an image when it is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    boot: String,
    bytes: u64,
    #[serde(default)]
    owner: Option<u32>,
}

impl Roots {
    /// Use a directory, which is created if need be and which only we may look into. Removes what interrupted processes left.
    pub fn open(directory: impl AsRef<Path>, limits: Limits) -> Result<Self, RootsError> {
        let directory = directory.as_ref().to_owned();
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        created.map_err(RootsError::io("create", &directory))?;
        let private = fs::set_permissions(&directory, Permissions::from_mode(0o700));
        private.map_err(RootsError::io("make private", &directory))?;
        let roots = Self { directory, limits, owner: None };
        roots.remove_partial()?;
        Ok(roots)
    }

    /// Give what is unpacked to this user, who runs it. What was unpacked for another one is unpacked again.
    #[must_use]
    pub fn for_owner(self, owner: Option<u32>) -> Self {
        Self { owner, ..self }
    }

    /// The unpacked image. It is unpacked if necessary; concurrent requests for the same image wait.
    pub fn get(&self, store: &Store, image: &Image) -> Result<Root, RootsError> {
        let name = image.digest.hex();
        loop {
            let lock = self.lock(name, File::lock_shared)?;
            if self.is_complete(name) {
                // Only the order in which images are removed depends on it.
                let _ = lock.set_modified(SystemTime::now());
                return Ok(Root { path: self.directory.join(name).join(ROOT), _lock: lock });
            }
            // A shared lock does not become an exclusive one at once: another process may come first, so it is looked for again.
            drop(lock);
            let _lock = self.lock(name, File::lock)?;
            if !self.is_complete(name) {
                self.unpack(name, store, image)?;
            }
        }
    }

    /// Remove images that nothing uses, the one that was used longest ago first, until the rest has no more bytes than this.
    /// Returns how many were removed.
    pub fn collect(&self, max_bytes: u64) -> Result<usize, RootsError> {
        let mut found: Vec<(SystemTime, String, u64)> = Vec::new();
        for name in self.names()?.into_iter().filter(|name| !name.contains('.')) {
            let used = fs::metadata(self.path(&name, LOCK)).and_then(|metadata| metadata.modified());
            let bytes = self.marker(&name).map_or(0, |marker| marker.bytes);
            found.push((used.unwrap_or(SystemTime::UNIX_EPOCH), name, bytes));
        }
        found.sort();
        let mut total: u64 = found.iter().map(|(_, _, bytes)| bytes).sum();
        let mut removed = 0;
        for (_, name, bytes) in found {
            if total > max_bytes && self.remove(&name)? {
                total -= bytes;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Remove an image unless something uses it.
    fn remove(&self, name: &str) -> Result<bool, RootsError> {
        let Some(_lock) = self.try_lock(name)? else { return Ok(false) };
        let (path, partial) = (self.directory.join(name), self.path(name, PARTIAL));
        remove_directory(&partial)?;
        // Under this name it is removed by the next one if we do not get to the end.
        fs::rename(&path, &partial).map_err(RootsError::io("rename", &path))?;
        remove_directory(&partial)?;
        // Last, and still locked: who waits for this lock must not find the image half removed.
        self.remove_lock(name)?;
        Ok(true)
    }

    fn remove_partial(&self) -> Result<(), RootsError> {
        for file in self.names()? {
            let Some(name) = file.strip_suffix(PARTIAL) else { continue };
            // Who holds the lock has not been interrupted.
            let Some(_lock) = self.try_lock(name)? else { continue };
            remove_directory(&self.directory.join(&file))?;
            if !self.directory.join(name).exists() {
                self.remove_lock(name)?;
            }
        }
        Ok(())
    }

    /// Unpack beside the final place, and rename at the end. The caller holds the lock.
    fn unpack(&self, name: &str, store: &Store, image: &Image) -> Result<(), RootsError> {
        let (path, partial) = (self.directory.join(name), self.path(name, PARTIAL));
        remove_directory(&partial)?;
        let result = self.unpack_to(&partial, store, image).and_then(|()| {
            // What is there was left by an earlier boot, or belongs to another owner.
            remove_directory(&path)?;
            fs::rename(&partial, &path).map_err(RootsError::io("rename", &partial))
        });
        if result.is_err() {
            let _ = remove_directory(&partial);
        }
        result
    }

    fn unpack_to(&self, partial: &Path, store: &Store, image: &Image) -> Result<(), RootsError> {
        let root = partial.join(ROOT);
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&root);
        // As a directory that an image does not list: its own user has to get in. No other user can enter the parent directory.
        let opened = created.and_then(|()| fs::set_permissions(&root, Permissions::from_mode(0o755)));
        opened.map_err(RootsError::io("create", &root))?;
        let summary = unpack_for(store, image, &root, self.limits.clone(), self.owner)?;
        let boot = boot().unwrap_or_else(|| {
            // Where nothing tells one boot from another, everything has to be on the disk before the marker says that it is there.
            rustix::fs::sync();
            SYNCHRONISED.to_owned()
        });
        let marker = Marker { boot, bytes: summary.file_bytes, owner: self.owner };
        let text = serde_json::to_vec(&marker).expect("a marker has nothing but text and numbers");
        fs::write(partial.join(MARKER), text).map_err(RootsError::io("write", partial))
    }

    /// Whether the image is there, and whether it is since the machine was started.
    fn is_complete(&self, name: &str) -> bool {
        let is_of_this_boot = |marker: Marker| marker.boot == SYNCHRONISED || Some(marker.boot) == boot();
        self.marker(name).filter(|marker| marker.owner == self.owner).is_some_and(is_of_this_boot)
    }

    fn marker(&self, name: &str) -> Option<Marker> {
        let text = fs::read(self.directory.join(name).join(MARKER)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn names(&self) -> Result<Vec<String>, RootsError> {
        let list = || {
            fs::read_dir(&self.directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()
        };
        let names = list().map_err(RootsError::io("list", &self.directory))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn path(&self, name: &str, suffix: &str) -> PathBuf {
        self.directory.join(format!("{name}{suffix}"))
    }

    /// Take the lock of an image, however long another process holds it.
    fn lock(&self, name: &str, lock: impl Fn(&File) -> io::Result<()>) -> Result<File, RootsError> {
        let path = self.path(name, LOCK);
        loop {
            let file = open_lock(&path)?;
            lock(&file).map_err(RootsError::io("lock", &path))?;
            // Who removed the image removed its lock as well, while we waited for it.
            if is_at(&file, &path) {
                return Ok(file);
            }
        }
    }

    fn try_lock(&self, name: &str) -> Result<Option<File>, RootsError> {
        let path = self.path(name, LOCK);
        let file = open_lock(&path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => Ok(Some(file)),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(RootsError::io("lock", &path)(error)),
        }
    }

    fn remove_lock(&self, name: &str) -> Result<(), RootsError> {
        let path = self.path(name, LOCK);
        fs::remove_file(&path).map_err(RootsError::io("remove", &path))
    }
}

/// Unpack an image to an empty directory.
pub fn unpack_image(
    store: &Store,
    image: &Image,
    root: &Path,
    limits: Limits,
) -> Result<Summary, RootsError> {
    unpack_for(store, image, root, limits, None)
}

fn unpack_for(
    store: &Store,
    image: &Image,
    root: &Path,
    limits: Limits,
    owner: Option<u32>,
) -> Result<Summary, RootsError> {
    let of_image = |error| RootsError::Image { image: image.digest.clone(), source: Box::new(error) };
    let mut unpacker = Unpacker::new(root, limits).map_err(of_image)?.for_owner(owner);
    for (descriptor, diff_id) in image.layers() {
        let layer = || descriptor.digest.clone();
        let refused = |error| RootsError::Unpack {
            image: image.digest.clone(),
            layer: layer(),
            source: Box::new(error),
        };
        let media_type = &descriptor.media_type;
        let compression = Compression::of_media_type(media_type)
            .ok_or_else(|| refused(Error::MediaType(media_type.clone())))?;
        let content = store.read(&descriptor.digest).map_err(|error| RootsError::Layer {
            image: image.digest.clone(),
            layer: layer(),
            source: Box::new(error),
        })?;
        unpacker.layer(content, compression, diff_id).map_err(refused)?;
    }
    unpacker.finish().map_err(of_image)
}

const LOCK: &str = ".lock";
const PARTIAL: &str = ".partial";
const ROOT: &str = "rootfs";
const MARKER: &str = "unpacked.json";
/// In the place of a boot that is not known.
const SYNCHRONISED: &str = "synchronised";

/// Changes whenever the machine starts.
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

fn open_lock(path: &Path) -> Result<File, RootsError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(RootsError::io("open", path))
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

/// Never follows a link, and fails on nothing that we unpacked.
fn remove_directory(path: &Path) -> Result<(), RootsError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RootsError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
