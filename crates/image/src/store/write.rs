//! Writing content, which gets its name when it is complete, verified and on the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ferroplane_api::image::{Algorithm, Digest};
use uuid::Uuid;

use super::directory::{PARTIAL, create_private, is_at, synchronise};
use super::{Error, Store};
use crate::{Descriptor, Hasher};

/// Takes content. What is not committed is dropped, or kept so that the transfer can continue later.
#[derive(Debug)]
pub struct BlobWriter {
    store: Store,
    file: File,
    path: PathBuf,
    hasher: Hasher,
    written: u64,
    limit: u64,
    expected: Option<Descriptor>,
    /// Whether an unfinished file is of use to the next one who writes this content.
    is_resumable: bool,
}

impl Store {
    /// Write content whose digest is not known yet, at most `limit` bytes of it. Room for all of it is made at once.
    pub fn writer(&self, limit: u64) -> Result<BlobWriter, Error> {
        self.private_writer(limit.min(self.limits.max_blob_bytes), None)
    }

    /// Write content whose digest and size are known. Continues where an earlier writer of the same content stopped: see
    /// [`BlobWriter::written`].
    pub fn resume(&self, descriptor: &Descriptor) -> Result<BlobWriter, Error> {
        let (size, limit) = (descriptor.size, self.limits.max_blob_bytes);
        if size > limit {
            return Err(Error::TooLarge { size, limit });
        }
        match self.take_partial(descriptor)? {
            Some(writer) => Ok(writer),
            None => self.private_writer(size, Some(descriptor)),
        }
    }

    /// Store content that is in memory.
    pub fn write(&self, content: &[u8]) -> Result<Digest, Error> {
        let mut writer = self.writer(content.len() as u64)?;
        writer.append(content)?;
        writer.commit()
    }

    fn private_writer(&self, limit: u64, expected: Option<&Descriptor>) -> Result<BlobWriter, Error> {
        let lock = self.lock()?;
        self.make_room(&lock, limit)?;
        let path = self.part(PARTIAL).join(format!("new-{limit}-{}", Uuid::new_v4()));
        let file = create_private(&path).map_err(Error::io("create", &path))?;
        // Locked before another process can see it: eviction removes files that nothing locks.
        file.try_lock().map_err(|error| Error::io("lock", &path)(error.into()))?;
        Ok(self.new_writer(file, path, limit, expected))
    }

    /// Take over what was written so far, unless another writer is still at it.
    fn take_partial(&self, descriptor: &Descriptor) -> Result<Option<BlobWriter>, Error> {
        let Descriptor { digest, size, .. } = descriptor;
        let name = format!("{}-{}-{size}", digest.algorithm().name(), digest.hex());
        let path = self.part(PARTIAL).join(name);
        let lock = self.lock()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        // Another writer has it, or has just given it its final name.
        if file.try_lock().is_err() || !is_at(&file, &path) {
            return Ok(None);
        }
        let mut writer = self.new_writer(file, path, *size, Some(descriptor));
        // The name of the file is its reservation already.
        self.make_room(&lock, 0)?;
        drop(lock);
        writer.is_resumable = true;
        writer.read_what_is_there().map_err(Error::io("read", &writer.path))?;
        Ok(Some(writer))
    }

    fn new_writer(&self, file: File, path: PathBuf, limit: u64, expected: Option<&Descriptor>) -> BlobWriter {
        let algorithm = expected.map_or(Algorithm::Sha256, |descriptor| descriptor.digest.algorithm());
        BlobWriter {
            store: self.clone(),
            file,
            path,
            hasher: Hasher::new(algorithm),
            written: 0,
            limit,
            expected: expected.cloned(),
            is_resumable: false,
        }
    }
}

impl BlobWriter {
    /// How many bytes there are already.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Add content. Refuses more than there may be.
    pub fn append(&mut self, content: &[u8]) -> Result<(), Error> {
        let size = self.written + content.len() as u64;
        if size > self.limit {
            return Err(Error::TooLarge { size, limit: self.limit });
        }
        if let Err(error) = self.file.write_all(content) {
            // What has filled the disk must not stay there: everything else needs the room, too.
            self.is_resumable &= error.kind() != io::ErrorKind::StorageFull;
            return Err(Error::io("write", &self.path)(error));
        }
        self.hasher.update(content);
        self.written = size;
        Ok(())
    }

    /// Start again, with nothing.
    pub fn restart(&mut self) -> Result<(), Error> {
        let restarted = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        restarted.map_err(Error::io("truncate", &self.path))?;
        self.hasher = Hasher::new(self.hasher.algorithm());
        self.written = 0;
        Ok(())
    }

    /// Verify the content and give it its name.
    pub fn commit(mut self) -> Result<Digest, Error> {
        // What turned out to be something else is no beginning that another writer could continue.
        let digest = self.verify().inspect_err(|_| self.is_resumable = false)?;
        let path = self.store.blob_path(&digest);
        // Before the rename: after a power failure, the name must not lead to content that never reached the disk.
        self.file.sync_all().map_err(Error::io("write", &self.path))?;
        let _lock = self.store.lock()?;
        fs::rename(&self.path, &path).map_err(Error::io("write", &path))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        synchronise(directory).map_err(Error::io("write", directory))?;
        Ok(digest)
    }

    fn verify(&self) -> Result<Digest, Error> {
        let actual = self.hasher.clone().finish();
        let Some(Descriptor { digest, size, .. }) = &self.expected else { return Ok(actual) };
        if self.written != *size {
            return Err(Error::Size { digest: digest.clone(), expected: *size, actual: self.written });
        }
        if actual != *digest {
            return Err(Error::Mismatch { expected: digest.clone(), actual });
        }
        Ok(actual)
    }

    fn read_what_is_there(&mut self) -> io::Result<()> {
        self.written = self.hasher.update_from(&mut self.file)?;
        // More than the whole content cannot be its beginning.
        if self.written > self.limit {
            self.restart().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Write for BlobWriter {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.append(content).map_err(io::Error::other)?;
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // After a commit there is nothing at this path, or already the file of another process.
        if !self.is_resumable && is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
