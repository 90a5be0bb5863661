//! Compiled code on disk, so that the next process need not compile it again.
//!
//! # Invariants
//! * The directory and the key in it belong to our user alone, or the cache is refused.
//! * What was not sealed with the key is never run: a file that is foreign, damaged or of another engine is compiled anew.
//! * Only this process seals: code that it compiled, or that its helper compiled for it.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ferroplane_precompiled::Key;
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use crate::error::Error;

/// Bytes of all files together beyond which those that were not used for longest are deleted.
const LIMIT: u64 = 1 << 30;

/// The file with the key.
const KEY: &str = "key";

/// How the files of code end.
const EXTENSION: &str = "native";

/// What code is compiled to: a module or a component.
pub(crate) trait Native: Sized {
    fn compile(engine: &Engine, code: &[u8]) -> wasmtime::Result<Self>;
    fn to_bytes(&self) -> wasmtime::Result<Vec<u8>>;
    /// Reads sealed bytes back. Nothing if they are not ours, an error if this engine cannot use them.
    fn open(engine: &Engine, key: &Key, purpose: &[u8], sealed: &[u8]) -> Option<wasmtime::Result<Self>>;
}

impl Native for Module {
    fn compile(engine: &Engine, code: &[u8]) -> wasmtime::Result<Self> {
        Self::from_binary(engine, code)
    }

    fn to_bytes(&self) -> wasmtime::Result<Vec<u8>> {
        self.serialize()
    }

    fn open(engine: &Engine, key: &Key, purpose: &[u8], sealed: &[u8]) -> Option<wasmtime::Result<Self>> {
        ferroplane_precompiled::module(engine, key, purpose, sealed)
    }
}

impl Native for Component {
    fn compile(engine: &Engine, code: &[u8]) -> wasmtime::Result<Self> {
        Self::from_binary(engine, code)
    }

    fn to_bytes(&self) -> wasmtime::Result<Vec<u8>> {
        self.serialize()
    }

    fn open(engine: &Engine, key: &Key, purpose: &[u8], sealed: &[u8]) -> Option<wasmtime::Result<Self>> {
        ferroplane_precompiled::component(engine, key, purpose, sealed)
    }
}

/// Compiled code on disk.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Nothing is kept without one.
    path: Option<PathBuf>,
    key: Key,
    /// The engine that code is compiled for: version, machine and configuration.
    engine: u64,
}

impl Cache {
    /// Open a directory, or make it. Refuses one that others can write or read.
    pub(crate) fn open(path: &Path, engine: &Engine) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Cache { path: path.to_owned(), problem };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| refuse(format!("it cannot be made: {error}")))?;
        // A directory that exists was left as it is. A link to one is refused: others may be able to change where it leads.
        let metadata = fs::symlink_metadata(path).map_err(|error| refuse(error.to_string()))?;
        if !metadata.is_dir() {
            return Err(refuse("it is not a directory".to_owned()));
        }
        if !is_private(&metadata) {
            return Err(refuse(
                "others may read or write it; remove it, or run `chmod 700` if it is yours".to_owned(),
            ));
        }
        let key = key(path).map_err(|error| refuse(format!("its key cannot be read: {error}")))?;
        Ok(Self { path: Some(path.to_owned()), key, engine: hash_of(engine) })
    }

    /// A cache that keeps nothing, with a key of its own.
    pub(crate) fn unkept(engine: &Engine) -> io::Result<Self> {
        Ok(Self { path: None, key: Key::new(random()?), engine: hash_of(engine) })
    }

    /// Code that was compiled before.
    pub(crate) fn get<N: Native>(&self, engine: &Engine, digest: [u8; 32]) -> Option<N> {
        let sealed = read(&self.file(self.path.as_ref()?, digest))?;
        N::open(engine, &self.key, &self.purpose(digest), &sealed)?.ok()
    }

    /// Keeps code that this process compiled.
    pub(crate) fn keep<N: Native>(&self, digest: [u8; 32], native: &N) -> wasmtime::Result<()> {
        if let Some(path) = &self.path {
            self.store(path, digest, &self.key.seal(&self.purpose(digest), &native.to_bytes()?));
        }
        Ok(())
    }

    /// Code that our helper compiled, which is kept, too.
    pub(crate) fn adopt<N: Native>(
        &self,
        engine: &Engine,
        digest: [u8; 32],
        native: Vec<u8>,
    ) -> wasmtime::Result<N> {
        let purpose = self.purpose(digest);
        let sealed = self.key.seal(&purpose, &native);
        // It may be large, and is copied once more.
        drop(native);
        let opened = N::open(engine, &self.key, &purpose, &sealed).expect("it was sealed above")?;
        if let Some(path) = &self.path {
            self.store(path, digest, &sealed);
        }
        Ok(opened)
    }

    fn purpose(&self, digest: [u8; 32]) -> Vec<u8> {
        // Code that was sealed for one digest and engine does not open for another, wherever its file is moved.
        [&digest[..], &self.engine.to_le_bytes()].concat()
    }

    fn file(&self, directory: &Path, digest: [u8; 32]) -> PathBuf {
        let digest = digest.map(|byte| format!("{byte:02x}")).concat();
        directory.join(format!("{digest}-{:016x}.{EXTENSION}", self.engine))
    }

    /// Keeps code for the next process. One that cannot be kept is compiled again, which is not a failure.
    fn store(&self, directory: &Path, digest: [u8; 32], sealed: &[u8]) {
        if let Err(error) = self.write(directory, digest, sealed).and_then(|()| trim(directory)) {
            tracing::warn!(path = %directory.display(), %error, "cannot keep compiled WebAssembly");
        }
    }

    fn write(&self, directory: &Path, digest: [u8; 32], sealed: &[u8]) -> io::Result<()> {
        // Written beside its place and moved there whole: two processes may do so at once.
        let beside =
            directory.join(format!("writing-{}-{:02x}{:02x}", std::process::id(), digest[0], digest[1]));
        let mut file = private().write(true).create(true).truncate(true).open(&beside)?;
        let written = file.write_all(sealed).and_then(|()| fs::rename(&beside, self.file(directory, digest)));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let mut sealed = Vec::new();
    file.read_to_end(&mut sealed).ok()?;
    // Set here, because file systems that are mounted without access times do not.
    let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
    Some(sealed)
}

/// Deletes the files beyond the limit that were not used for longest, and what a process that was killed left behind.
fn trim(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        // Without the key, none of the files could be opened any more.
        if path.file_name().is_some_and(|name| name != KEY) {
            let used = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((used, metadata.len(), path));
        }
    }
    files.sort();
    let mut total = files.iter().map(|(_, len, _)| len).sum::<u64>();
    for (_, len, path) in files {
        if total <= LIMIT {
            break;
        }
        fs::remove_file(path)?;
        total -= len;
    }
    Ok(())
}

/// The key of a directory. The first process makes it, and so does one that finds less than a key.
fn key(directory: &Path) -> io::Result<Key> {
    let path = directory.join(KEY);
    let is_damaged = match read_key(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
        result => return result,
    };
    let (secret, name) = (random::<32>()?, random::<8>()?);
    // Written beside its place, so that a process that is killed leaves no part of a key. Its own number is no name: in two containers, it is the same.
    let beside = directory.join(format!("writing-key-{:016x}", u64::from_le_bytes(name)));
    let made = write_key(&beside, &secret)
        .and_then(|()| if is_damaged { fs::rename(&beside, &path) } else { link(&beside, &path) });
    let _ = fs::remove_file(&beside);
    made?;
    // Read back even if it was just made: of two processes at once, both have to get the same.
    read_key(&path)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_key(path: &Path) -> io::Result<Key> {
    let mut file = File::open(path)?;
    if !is_private(&file.metadata()?) {
        return Err(io::Error::other("others may read or write it"));
    }
    let mut secret = [0; 32];
    file.read_exact(&mut secret)?;
    Ok(Key::new(secret))
}

fn write_key(path: &Path, secret: &[u8]) -> io::Result<()> {
    let mut file = private().write(true).create_new(true).open(path)?;
    file.write_all(secret).and_then(|()| file.sync_all())
}

/// Gives a file a second name, unless another process has taken it.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // Not every file system has links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(from, to),
        _ => Ok(()),
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Whether our user alone owns it and may read or write it: the six bits of group and others are zero.
fn is_private(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode().trailing_zeros() >= 6
}

/// What an engine compiles for.
fn hash_of(engine: &Engine) -> u64 {
    let mut hasher = StableHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// Hashes the same way in every process.
struct StableHasher(Sha256);

impl std::hash::Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.clone().finalize();
        u64::from_le_bytes(hash[..8].try_into().expect("a hash has more than eight bytes"))
    }
}
