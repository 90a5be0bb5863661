//! A page of a list, whose items can be kept without parsing them.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api_client::JsonObject;
use crate::body_chunks::BodyChunks;
use crate::{Error, Resource};

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    chunks: BodyChunks,
    items: Vec<Range<usize>>,
    /// The version at which a watch continues.
    pub resource_version: String,
    /// What to ask for the next page with. None after the last page.
    pub continuation: Option<String>,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMetadata,
    // Servers written in Go may send null instead of an empty list.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continuation: Option<String>,
}

impl Page {
    pub(crate) fn read(chunks: BodyChunks) -> Result<Self, Error> {
        let list: List<'_> = serde_json::from_slice(chunks.text()).map_err(Error::invalid_answer)?;
        let items = list.items.into_iter().flatten().map(|item| chunks.range(item.get())).collect();
        let ListMetadata { resource_version, continuation } = list.metadata;
        let continuation = continuation.filter(|token| !token.is_empty());
        Ok(Self { chunks, items, resource_version, continuation })
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Every item, as the server sent it.
    pub fn items(&self) -> impl Iterator<Item = Bytes> {
        self.items.iter().map(|range| self.chunks.part(range.clone()))
    }

    /// Every item that is an object, as JSON. Items do not say what they are, so their kind is added.
    pub fn objects(&self, resource: &Resource) -> Result<Vec<JsonObject>, Error> {
        let text = self.chunks.text();
        let read = |range: &Range<usize>| {
            let mut object: JsonObject =
                serde_json::from_slice(&text[range.clone()]).map_err(Error::invalid_answer)?;
            resource.add_kind(&mut object);
            Ok(object)
        };
        self.items.iter().map(read).collect()
    }
}
