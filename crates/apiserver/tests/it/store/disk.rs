//! A log that survives the store, keeps what it was told in the simplest way, and fails on demand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use ferroplane_apiserver::store::{Batch, Log, LogError, Marks, Row, RowError, Store};

use super::fixtures::Contents;

/// How the next append fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Nothing is written, and everybody knows.
    Full,
    /// Nothing is written, but nobody knows.
    Lost,
    /// Everything is written, but nobody knows.
    Unknown,
    /// Everything is written, but for want of room not that it is.
    Unacknowledged,
}

/// What is on the disk. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Contained>>);

#[derive(Default)]
struct Contained {
    rows: BTreeMap<u64, Stored>,
    marks: Marks,
    fault: Option<Fault>,
}

struct Stored {
    collection: String,
    namespace: String,
    name: String,
    is_deleted: bool,
    object: Vec<u8>,
}

/// A way to write to a disk; looks over the shoulder of the store that it belongs to.
pub(crate) struct DiskLog {
    disk: Disk,
    store: Arc<OnceLock<Store>>,
}

impl Disk {
    pub(crate) fn log(&self, store: Arc<OnceLock<Store>>) -> Box<dyn Log> {
        Box::new(DiskLog { disk: self.clone(), store })
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        self.0.lock().unwrap().fault = Some(fault);
    }

    /// What the rows say is in a collection, found in the most simple-minded way.
    pub(crate) fn contents(&self, collection: &str) -> Contents {
        let mut contents = Contents::new();
        for (revision, row) in &self.0.lock().unwrap().rows {
            let path = format!("{}/{}", row.namespace, row.name);
            if row.collection != collection {
                continue;
            }
            if row.is_deleted {
                contents.remove(&path);
            } else {
                contents.insert(path, (*revision, String::from_utf8(row.object.clone()).unwrap()));
            }
        }
        contents
    }
}

impl DiskLog {
    /// Nothing of what is only being written may be visible.
    fn check_nothing_is_visible_yet(&self, batch: &Batch<'_>) {
        let Some(store) = self.store.get() else { return };
        for event in batch.events {
            assert!(store.revision() < event.revision(), "the revision was announced before it was durable");
            let key = event.entry().key();
            let shown = store.get(key).map(|entry| entry.revision());
            assert!(
                shown.is_none_or(|shown| shown < event.revision()),
                "{key} was shown before it was durable"
            );
            let mut watcher = store.watch(key.collection(), store.revision()).unwrap();
            assert!(watcher.take().unwrap().is_empty(), "{key} was sent before it was durable");
        }
    }
}

impl Log for DiskLog {
    fn marks(&mut self) -> Result<Marks, LogError> {
        let contained = self.disk.0.lock().unwrap();
        let newest = contained.rows.keys().next_back().copied().unwrap_or(0);
        Ok(Marks { revision: contained.marks.revision.max(newest), ..contained.marks })
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row<'_>) -> Result<(), RowError>) -> Result<(), LogError> {
        for (revision, row) in &self.disk.0.lock().unwrap().rows {
            let Stored { collection, namespace, name, is_deleted, object } = row;
            let (revision, is_deleted) = (*revision, *is_deleted);
            visit(Row { revision, collection, namespace, name, is_deleted, object }).unwrap();
        }
        Ok(())
    }

    fn append(&mut self, batch: &Batch<'_>) -> Result<(), LogError> {
        self.check_nothing_is_visible_yet(batch);
        let mut contained = self.disk.0.lock().unwrap();
        let file = PathBuf::from("disk");
        let failed =
            || LogError::Failed { action: "write to", file: "disk".into(), source: "injected".into() };
        let fault = contained.fault.take();
        match fault {
            Some(Fault::Full) => return Err(LogError::Full { file }),
            Some(Fault::Lost) => return Err(failed()),
            Some(Fault::Unknown | Fault::Unacknowledged) | None => contained.write(batch),
        }
        match fault {
            Some(Fault::Unacknowledged) => {
                let source = Box::new(LogError::Full { file: file.clone() });
                Err(LogError::Unacknowledged { file, source })
            }
            Some(_) => Err(failed()),
            None => Ok(()),
        }
    }

    fn tidy(&mut self, _is_urgent: bool) -> Result<bool, LogError> {
        Ok(false)
    }
}

impl Contained {
    fn write(&mut self, batch: &Batch<'_>) {
        for event in batch.events {
            let (entry, key) = (event.entry(), event.entry().key());
            let row = Stored {
                collection: key.collection().name().to_owned(),
                namespace: key.namespace().to_owned(),
                name: key.name().to_owned(),
                is_deleted: entry.is_deleted(),
                object: entry.bytes().to_vec(),
            };
            assert!(self.rows.insert(entry.revision(), row).is_none(), "a revision was given out twice");
        }
        for revision in batch.forget {
            assert!(self.rows.remove(revision).is_some(), "a row was forgotten twice");
        }
        if !batch.forget.is_empty() {
            assert!(self.marks.floor <= batch.marks.floor && self.marks.revision <= batch.marks.revision);
            self.marks = batch.marks;
        }
    }
}
