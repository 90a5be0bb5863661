//! The observed state of an object, and the record of it on an operation.

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use super::fields::{FieldPath, state_of};
use super::names::{DELETED, watched};
use crate::operation::history::created_at;

/// The prefix of an operation's field manager. The operation's UID follows.
const MANAGER_PREFIX: &str = "ops.crossplane.io/operation/";
/// The state of an object that was deleted, or is no longer selected.
const GONE: &str = "gone";
/// As many characters of a UID distinguish two objects of one name.
const SHORT_UID: usize = 8;

/// The observed state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Its namespace and name.
    pub key: String,
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) state: String,
    /// The UIDs of operations that have written to it.
    pub(super) writers: Vec<String>,
    /// When it was created, in seconds since 1970.
    pub(super) created: i64,
}

impl Sighting {
    /// The state of an existing object.
    pub fn of(object: &Object, fields: &[FieldPath]) -> Self {
        Self {
            key: key(meta::namespace(object), meta::name(object)),
            uid: short(meta::uid(object)),
            // Kubernetes calls versions opaque; since 1.35 it promises that they are numbers which grow, and etcd's
            // have always been.
            version: meta::resource_version(object).parse().unwrap_or_default(),
            state: state_of(object, fields),
            writers: writers_of(object),
            created: created_at(object),
        }
    }

    /// The state of a deleted object, with the last version that was observed.
    pub(super) fn gone(key: &str, uid: &str, version: u64) -> Self {
        let (key, uid) = (key.to_owned(), uid.to_owned());
        Self { key, uid, version, state: GONE.to_owned(), writers: Vec::new(), created: 0 }
    }

    /// Whether it was deleted or is no longer selected.
    pub fn is_gone(&self) -> bool {
        self.state == GONE
    }

    /// Whether an existing object is the one that is no longer selected.
    pub fn is_of(&self, object: &Object) -> bool {
        self.uid == short(meta::uid(object))
    }

    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

pub(super) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn short(uid: &str) -> String {
    // The dot separates the parts of a record. UIDs of Kubernetes contain none, but a client could choose one.
    uid.chars().take(SHORT_UID).map(|letter| if letter == '.' { '-' } else { letter }).collect()
}

fn writers_of(object: &Object) -> Vec<String> {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
    let managers =
        entries.into_iter().flatten().filter_map(|entry| entry.get("manager").and_then(Value::as_str));
    managers.filter_map(|manager| Some(manager.strip_prefix(MANAGER_PREFIX)?.to_owned())).collect()
}

/// The record of the object that an operation was created for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerNote {
    /// The namespace and name of the object.
    pub key: String,
    /// Empty if Crossplane made the operation.
    pub(super) uid: String,
    pub(super) version: u64,
    /// Empty if Crossplane made the operation.
    pub(super) state: String,
    /// How many operations in a row were created because the one before changed the object.
    pub(super) depth: u32,
    /// Increases with every operation that a `WatchOperation` creates. Zero if Crossplane created it.
    pub(super) sequence: u64,
}

impl TriggerNote {
    pub(super) fn new(sighting: &Sighting, depth: u32, sequence: u64) -> Self {
        let Sighting { key, uid, version, state, .. } = sighting.clone();
        Self { key, uid, version, state, depth, sequence }
    }

    /// Read it from an operation. None if it has none, such as one that a user created.
    pub fn of(operation: &Object) -> Option<Self> {
        let name = watched(operation, "name");
        // Crossplane sets this annotation, too, but no state.
        if name.is_empty() {
            return None;
        }
        let key = key(watched(operation, "namespace"), name);
        let mut parts = meta::annotation(operation, keys::WATCHED_STATE).split('.');
        let note = (|| {
            let (uid, version) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            let (state, depth) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            let sequence = parts.next()?.parse().ok()?;
            Some(Self { key: key.clone(), uid, version, state, depth, sequence })
        })();
        let version = watched(operation, "resourceversion");
        note.or_else(|| {
            // Crossplane records no version of a deletion: there is nothing to compare.
            let version = version.parse().ok().filter(|_| version != DELETED)?;
            Some(Self { key, uid: String::new(), version, state: String::new(), depth: 0, sequence: 0 })
        })
    }

    /// Write it to an operation.
    pub fn write(&self, operation: &mut Object) {
        let Self { uid, version, state, depth, sequence, .. } = self;
        let text = format!("{uid}.{version}.{state}.{depth}.{sequence}");
        meta::set_annotation(operation, keys::WATCHED_STATE, &text);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state == GONE
    }

    /// Whether both are about the same state of the same object.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key
            && self.uid == other.uid
            && self.version == other.version
            && self.state == other.state
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operation::watch::annotate_watched;

    fn object() -> Object {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a", "namespace": "n", "uid": "0123456789", "resourceVersion": "12",
            "managedFields": [{"manager": "kubectl"}, {"manager": "ops.crossplane.io/operation/u1"}],
        }});
        object.as_object().unwrap().clone()
    }

    #[test]
    fn note_is_read_as_it_was_written() {
        let sighting = Sighting::of(&object(), &[]);
        assert_eq!((sighting.key.as_str(), sighting.version), ("n/a", 12));
        assert_eq!((sighting.namespace(), sighting.name()), ("n", "a"));
        assert_eq!(sighting.writers, ["u1"]);
        assert!(sighting.is_of(&object()) && !sighting.is_gone());
        let mut operation = Object::new();
        annotate_watched(&mut operation, &object());
        let note = TriggerNote::new(&sighting, 3, 8);
        note.write(&mut operation);
        assert_eq!(TriggerNote::of(&operation), Some(note));
    }

    #[test]
    fn note_of_an_operation_that_crossplane_made_has_a_version_only() {
        let mut operation = Object::new();
        assert_eq!(TriggerNote::of(&operation), None);
        annotate_watched(&mut operation, &object());
        let note = TriggerNote::of(&operation).unwrap();
        assert_eq!((note.key.as_str(), note.version, note.uid.as_str()), ("n/a", 12, ""));
    }
}
