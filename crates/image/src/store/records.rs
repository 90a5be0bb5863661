//! Which content a reference had when it was pulled last: a tag can be used again without its registry.

use std::fs;
use std::io;
use std::path::PathBuf;

use ferroplane_api::image::Reference;
use serde::{Deserialize, Serialize};

use super::directory::{Lock, PARTIAL, REFERENCES, write_new};
use super::pins::files;
use super::{Error, Store};
use crate::{Descriptor, Hasher};

#[derive(Serialize, Deserialize)]
struct Record {
    reference: String,
    descriptor: Descriptor,
}

impl Store {
    /// Remember what a reference leads to.
    pub fn record(&self, reference: &Reference, descriptor: &Descriptor) -> Result<(), Error> {
        let record = Record { reference: reference.to_string(), descriptor: descriptor.clone() };
        let content = serde_json::to_vec(&record).expect("a record has nothing but text and numbers");
        let _lock = self.lock()?;
        write_new(&self.part(PARTIAL), &self.record_path(reference), &content)
    }

    /// What a reference led to, if that is still there.
    pub fn recall(&self, reference: &Reference) -> Result<Option<Descriptor>, Error> {
        let path = self.record_path(reference);
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        // A record that cannot be read is one that is not there: the registry is asked again.
        let record = serde_json::from_slice(&content).ok();
        let record = record.filter(|record: &Record| record.reference == reference.to_string());
        Ok(record.map(|record| record.descriptor).filter(|descriptor| self.contains(&descriptor.digest)))
    }

    /// Forget references whose content is gone.
    pub(super) fn drop_records(&self, _lock: &Lock) -> Result<(), Error> {
        for path in files(&self.part(REFERENCES))? {
            let record = fs::read(&path).ok().and_then(|content| serde_json::from_slice(&content).ok());
            if !record.is_some_and(|record: Record| self.contains(&record.descriptor.digest)) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    fn record_path(&self, reference: &Reference) -> PathBuf {
        self.part(REFERENCES).join(Hasher::digest(reference.to_string().as_bytes()).hex())
    }
}
