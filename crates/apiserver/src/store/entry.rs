//! An object as the store keeps it, and as it is handed in.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::key::{Key, path};
use super::log::RowError;
use super::metadata::{self, ObjectMetadata, Pairs};

/// One object at one revision: its complete bytes, as clients see it.
#[derive(Debug)]
pub struct Entry {
    key: Key,
    revision: u64,
    bytes: Bytes,
    metadata: ObjectMetadata,
    /// Where the text of the resource version begins in the bytes.
    offset: u32,
    is_deleted: bool,
}

impl Entry {
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// When it was written; the same as its `metadata.resourceVersion`.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The whole object as compact JSON.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }

    /// Whether this is the last state of an object that was deleted at this revision.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// The object with another revision in the place of its own: as it was last seen by someone who sees it no longer.
    pub fn bytes_at(&self, revision: u64) -> Bytes {
        let (head, tail) = self.around_revision();
        splice(head, revision, tail)
    }

    /// What a draft becomes when it is written at a revision.
    pub(super) fn written(key: Key, draft: Draft, revision: u64) -> Self {
        let (head, tail) = draft.bytes.split_at(draft.offset as usize);
        let bytes = splice(head, revision, tail);
        Self { key, revision, bytes, metadata: draft.metadata, offset: draft.offset, is_deleted: false }
    }

    /// What an object is when it has been deleted at a revision.
    pub(super) fn deleted(&self, revision: u64) -> Self {
        Self {
            key: self.key.clone(),
            revision,
            bytes: self.bytes_at(revision),
            metadata: self.metadata.clone(),
            offset: self.offset,
            is_deleted: true,
        }
    }

    /// What was stored; or why it cannot have been.
    pub(super) fn loaded(
        key: Key,
        revision: u64,
        is_deleted: bool,
        bytes: &[u8],
        fields: Option<Box<Pairs>>,
    ) -> Result<Self, RowError> {
        let read = metadata::read(bytes).map_err(RowError::Object)?;
        if read.resource_version != revision.to_string() {
            return Err(RowError::ResourceVersion(read.resource_version.to_owned()));
        }
        let is = |said: Option<&str>, own: &str| said.is_none_or(|said| said == own);
        if !is(read.name.as_deref(), key.name()) || !is(read.namespace.as_deref(), key.namespace()) {
            let (namespace, name) = (read.namespace.unwrap_or_default(), read.name.unwrap_or_default());
            return Err(RowError::Name(path(&namespace, &name).into_owned()));
        }
        let offset = u32::try_from(read.offset).map_err(|_| RowError::TooLarge)?;
        let metadata = ObjectMetadata { fields, ..read.metadata };
        Ok(Self { key, revision, bytes: Bytes::copy_from_slice(bytes), metadata, offset, is_deleted })
    }

    /// Whether a draft would write what is here already.
    pub(super) fn is_same_as(&self, draft: &Draft) -> bool {
        let (head, tail) = self.around_revision();
        let (draft_head, draft_tail) = draft.bytes.split_at(draft.offset as usize);
        !self.is_deleted && head == draft_head && tail == draft_tail
    }

    fn around_revision(&self) -> (&[u8], &[u8]) {
        let start = self.offset as usize;
        let digits = self.bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (&self.bytes[..start], &self.bytes[start + digits..])
    }
}

fn splice(head: &[u8], revision: u64, tail: &[u8]) -> Bytes {
    let revision = revision.to_string();
    // The revision has no fixed width, because clients compare it as a number without leading zeros; so it is spliced.
    let mut bytes = Vec::with_capacity(head.len() + revision.len() + tail.len());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(revision.as_bytes());
    bytes.extend_from_slice(tail);
    Bytes::from(bytes)
}

/// An object that waits for its revision.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Compact JSON whose `metadata.resourceVersion` is empty.
    bytes: Box<[u8]>,
    metadata: ObjectMetadata,
    offset: u32,
}

/// The largest object that can be stored.
const LARGEST: usize = 64 << 20;

/// Why something is no object that can be stored.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    #[error("cannot store an object without metadata")]
    Metadata,
    #[error("cannot store an object of {size} bytes: at most {LARGEST} are possible")]
    TooLarge { size: usize },
    #[error("cannot store an object with such metadata")]
    UnreadableMetadata(#[source] serde_json::Error),
}

impl Draft {
    /// Encode an object. Its resource version, if it has one, is ignored.
    pub fn new(object: &Map<String, Value>) -> Result<Self, DraftError> {
        let bytes = encode(object)?;
        if bytes.len() > LARGEST {
            return Err(DraftError::TooLarge { size: bytes.len() });
        }
        // Reads from the bytes what is known already, on purpose: what is accepted now can be loaded later.
        let read = metadata::read(&bytes).map_err(DraftError::UnreadableMetadata)?;
        let offset = u32::try_from(read.offset).map_err(|_| DraftError::TooLarge { size: bytes.len() })?;
        let metadata = read.metadata;
        Ok(Self { bytes: bytes.into(), metadata, offset })
    }

    /// Keep fields to select by with the object. What opens the store must supply the same ([`super::Options::fields`]).
    #[must_use]
    pub fn with_fields(mut self, fields: Pairs) -> Self {
        self.metadata.fields = (!fields.is_empty()).then(|| Box::new(fields));
        self
    }

    pub fn metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }

    /// The object's size, without its revision.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The object as it would be at a revision: what a dry run answers.
    pub fn at(&self, revision: u64) -> Bytes {
        let (head, tail) = self.bytes.split_at(self.offset as usize);
        splice(head, revision, tail)
    }
}

/// Write the object with an empty resource version, each key in its place.
fn encode(object: &Map<String, Value>) -> Result<Vec<u8>, DraftError> {
    const METADATA: &str = "metadata";
    const RESOURCE_VERSION: &str = "resourceVersion";
    let metadata = object.get(METADATA).and_then(Value::as_object).ok_or(DraftError::Metadata)?;
    let mut bytes = Vec::with_capacity(1024);
    write_object(&mut bytes, object.iter(), METADATA, |bytes| {
        let others = metadata.iter().filter(|(key, _)| *key != RESOURCE_VERSION);
        let empty = Value::String(String::new());
        let name = RESOURCE_VERSION.to_owned();
        let mut fields: Vec<_> = others.chain([(&name, &empty)]).collect();
        fields.sort_unstable_by_key(|(key, _)| *key);
        write_object(bytes, fields.into_iter(), "", |_| Ok(()))
    })
    .map_err(DraftError::UnreadableMetadata)?;
    Ok(bytes)
}

/// Write an object; the value of one key is written by someone who knows better.
fn write_object<'a>(
    bytes: &mut Vec<u8>,
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    special: &str,
    write_special: impl Fn(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    bytes.push(b'{');
    for (index, (key, value)) in fields.enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut *bytes, key)?;
        bytes.push(b':');
        if key == special {
            write_special(bytes)?;
        } else {
            serde_json::to_writer(&mut *bytes, value)?;
        }
    }
    bytes.push(b'}');
    Ok(())
}

/// One change to one object.
#[derive(Clone, Debug)]
pub struct Operation {
    pub key: Key,
    pub expect: Expect,
    pub change: Change,
}

impl Operation {
    /// Put an object that must not be there yet.
    pub fn create(key: Key, draft: Draft) -> Self {
        Self { key, expect: Expect::Absent, change: Change::Put(draft) }
    }

    /// Put an object in the place of what is at a revision.
    pub fn update(key: Key, revision: u64, draft: Draft) -> Self {
        Self { key, expect: Expect::Revision(revision), change: Change::Put(draft) }
    }

    /// Delete the object that is at a revision.
    pub fn delete(key: Key, revision: u64) -> Self {
        Self { key, expect: Expect::Revision(revision), change: Change::Delete }
    }

    /// How much of the queue this takes.
    pub(super) fn size(&self) -> usize {
        match &self.change {
            Change::Put(draft) => draft.size(),
            Change::Delete | Change::Nothing => 0,
        }
    }
}

/// What must be at a key for an operation to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Present,
    Revision(u64),
    Any,
}

impl Expect {
    pub(super) fn is_met_by(self, current: Option<&Arc<Entry>>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Revision(revision) => current.is_some_and(|entry| entry.revision == revision),
            Self::Any => true,
        }
    }
}

/// What to do at a key.
#[derive(Clone, Debug)]
pub enum Change {
    /// Put this there. If it is there already nothing is written.
    Put(Draft),
    /// Delete what is there; refused if nothing is.
    Delete,
    /// Leave what is there as it is: for what must hold while something else is changed.
    Nothing,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::key::Collection;
    use super::*;

    fn draft(object: &Value) -> Draft {
        Draft::new(object.as_object().unwrap()).unwrap()
    }

    #[test]
    fn revision_is_spliced_where_it_belongs_and_nowhere_else() {
        let object = json!({
            "data": {"resourceVersion": "", "metadata": {"resourceVersion": ""}},
            "metadata": {"annotations": {"a": "\"resourceVersion\":\"\""}, "name": "n", "resourceVersion": "7", "uid": "u"},
        });
        let bytes = draft(&object).at(42);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(bytes, serde_json::to_vec(&expected).unwrap());
    }

    #[test]
    fn deletion_keeps_the_last_state_and_exchanges_the_revision() {
        let key = Collection::new("c", 0, 0).key("", "n");
        let entry = Entry::written(key, draft(&json!({"metadata": {"name": "n"}, "spec": 1})), 99);
        let deleted = entry.deleted(100);
        assert_eq!(deleted.bytes(), &br#"{"metadata":{"name":"n","resourceVersion":"100"},"spec":1}"#[..]);
    }

    #[test]
    fn objects_that_could_not_be_loaded_again_are_refused() {
        for object in [json!({}), json!({"metadata": 1}), json!({"metadata": {"labels": {"a": 1}}})] {
            assert!(Draft::new(object.as_object().unwrap()).is_err(), "{object}");
        }
    }
}
