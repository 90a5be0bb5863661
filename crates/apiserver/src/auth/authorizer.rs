//! Who may do what: the roles and bindings that are stored, as they are now.

use std::sync::{RwLock, RwLockReadGuard};

use serde_json::{Map, Value};
use tracing::warn;

use crate::auth::rbac::{Policy, RbacKind};
use crate::store::{Entry, Event, EventKind, Store};

/// The policy, which follows the store.
#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    policy: RwLock<Policy>,
}

impl Authorizer {
    /// One whose rules about all custom resources leave these groups out.
    pub(crate) fn reserving(groups: Vec<String>) -> Self {
        Self { policy: RwLock::new(Policy::reserving(groups)) }
    }

    pub(crate) fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        // What a panic left half done would be a right too few.
        self.policy.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Learns what is stored.
    pub(crate) fn load(&self, store: &Store) {
        for collection in store.collections() {
            let Some(kind) = kind_of(collection.name()) else { continue };
            for entry in &store.snapshot(&collection) {
                self.put(kind, entry);
            }
        }
    }

    /// Follows the store. A right that was removed is gone before the request that removed it is answered.
    pub(crate) fn observe(&self, event: &Event) {
        let entry = event.entry();
        let Some(kind) = kind_of(entry.key().collection().name()) else { return };
        if event.kind() == EventKind::Deleted {
            let key = entry.key();
            self.write(|policy| policy.remove(kind, key.namespace(), key.name()));
        } else {
            self.put(kind, entry);
        }
    }

    fn put(&self, kind: RbacKind, entry: &Entry) {
        let object = serde_json::from_slice::<Map<String, Value>>(entry.bytes());
        let learned = object.and_then(|object| self.write(|policy| policy.put(kind, &object)));
        if let Err(error) = learned {
            warn!(object = %entry.key(), %error, "cannot read a role or binding; it grants nothing");
        }
    }

    fn write<T>(&self, change: impl FnOnce(&mut Policy) -> T) -> T {
        change(&mut self.policy.write().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

fn kind_of(collection: &str) -> Option<RbacKind> {
    let (group, plural) = collection.split_once('/')?;
    RbacKind::of(group, plural)
}
