//! Reading content, which is verified before it is handed out.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::time::SystemTime;

use ferroplane_api::image::Digest;

use super::directory::is_at;
use super::{Error, Store};
use crate::Hasher;

/// Verified content. It stays readable when the store drops it.
#[derive(Debug)]
pub struct BlobReader {
    file: File,
    size: u64,
}

impl Store {
    /// Whether there is content of this name. It may turn out to be damaged when it is read.
    pub fn contains(&self, digest: &Digest) -> bool {
        fs::symlink_metadata(self.blob_path(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Open content. Reads it once to verify it; what does not have its digest is removed.
    pub fn read(&self, digest: &Digest) -> Result<BlobReader, Error> {
        let mut file = self.open_blob(digest)?;
        let path = self.blob_path(digest);
        let mut hasher = Hasher::new(digest.algorithm());
        let size = hasher.update_from(&mut file).map_err(Error::io("read", &path))?;
        if hasher.finish() != *digest {
            self.remove_if_at(digest, &file)?;
            return Err(Error::Corrupt { digest: digest.clone() });
        }
        file.seek(SeekFrom::Start(0)).map_err(Error::io("read", &path))?;
        // What was used last is dropped last. Who may not write the time does without.
        let _ = file.set_modified(SystemTime::now());
        Ok(BlobReader { file, size })
    }

    /// Read a small document.
    pub fn read_to_vec(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, Error> {
        let mut reader = self.read(digest)?;
        if reader.size > limit {
            return Err(Error::TooLarge { size: reader.size, limit });
        }
        let mut content = Vec::new();
        reader.read_to_end(&mut content).map_err(Error::io("read", &self.blob_path(digest)))?;
        Ok(content)
    }

    fn open_blob(&self, digest: &Digest) -> Result<File, Error> {
        let path = self.blob_path(digest);
        match fs::symlink_metadata(&path) {
            // Nothing but a file: a link would lead out of the store, and to open a pipe would wait for a writer.
            Ok(metadata) if metadata.is_file() => File::open(&path).map_err(Error::io("open", &path)),
            Ok(_) => Err(Error::Missing { digest: digest.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Missing { digest: digest.clone() })
            }
            Err(error) => Err(Error::io("open", &path)(error)),
        }
    }

    /// Another process may have replaced the damaged content meanwhile.
    fn remove_if_at(&self, digest: &Digest, file: &File) -> Result<(), Error> {
        let _lock = self.lock()?;
        let path = self.blob_path(digest);
        if is_at(file, &path) {
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        Ok(())
    }
}

impl BlobReader {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// This many bytes from there, or fewer at the end.
    pub(crate) fn read_at(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = length.min(self.size.saturating_sub(offset));
        let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut content, offset)?;
        Ok(content)
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for BlobReader {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
