//! What an object says about itself before it says anything else, read without reading the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::mirror::key;

/// The metadata of an object, as far as following it needs to know.
#[derive(Debug, Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    pub(crate) owner_references: Option<Vec<Owner<'a>>>,
}

/// Who an object belongs to.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner<'a> {
    #[serde(borrow, default)]
    pub(crate) api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(default)]
    pub(crate) controller: Option<bool>,
}

impl<'a> Head<'a> {
    /// None if the bytes are no object.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Grows with every change. Zero if it cannot be told.
    pub(crate) fn version(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or_default()
    }

    /// What it is called among the objects of its kind.
    pub(crate) fn key(&self) -> String {
        key(&self.metadata.namespace, &self.metadata.name)
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The owner that controls it.
    pub(crate) fn controller(&self) -> Option<&Owner<'a>> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(AsRef::as_ref)
    }
}
