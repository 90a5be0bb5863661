//! The metadata of an object, read without reading the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cache_key;

/// The metadata of an object, as far as caches and their listeners need it.
#[derive(Debug, Deserialize)]
pub struct ObjectHeader<'a> {
    #[serde(borrow)]
    pub metadata: ObjectMetadata<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetadata<'a> {
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    pub owner_references: Option<Vec<OwnerReference<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference<'a> {
    #[serde(borrow, default)]
    pub api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    #[serde(default)]
    pub controller: Option<bool>,
}

impl<'a> ObjectHeader<'a> {
    /// None if the bytes are no object.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        #[cfg(test)]
        count::increment();
        serde_json::from_slice(bytes).ok()
    }

    /// Grows with every change. Zero if the resource version is no number.
    pub fn version(&self) -> u64 {
        // A number in all API servers; apimachinery compares them so, too (`util/resourceversion`).
        self.metadata.resource_version.parse().unwrap_or_default()
    }

    /// Its key in the cache of its kind.
    pub fn key(&self) -> String {
        cache_key(&self.metadata.namespace, &self.metadata.name)
    }

    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The owner that controls it.
    pub fn controller(&self) -> Option<&OwnerReference<'a>> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(AsRef::as_ref)
    }
}

/// How often a header was read on this thread, for a test that it is read once.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn increment() {
        READ.set(READ.get() + 1);
    }

    pub(crate) fn read() -> usize {
        READ.get()
    }
}
