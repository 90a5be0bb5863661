//! Lists, whole or page by page, as of one moment.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_cancellation::checkpoint;
use ferroplane_schema::status::Status;
use ferroplane_schema::table::{self, Options};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::selection::Selection;
use super::view::{Rows, VersionedObject, View, with_version};
use crate::negotiate::{Form, Presentation};
use crate::options::{Continue, ListOptions};
use crate::response::{self, Body, ObjectList, PIECE};
use crate::store::{Entry, Snapshot, Store};

/// About as much as a list has besides its objects.
const HEAD: usize = 256;

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) revision: u64,
    pub(crate) continues: Option<Continue>,
    pub(crate) remaining: Option<usize>,
    /// How many bytes the objects have as they are stored.
    pub(crate) size: usize,
    /// The same objects as the client's version has them, if it took a webhook to know.
    converted: Option<Vec<Bytes>>,
}

impl Page {
    /// The next objects of a snapshot that are wanted.
    pub(crate) async fn read(
        snapshot: &Snapshot,
        selection: &Selection,
        options: &ListOptions,
        store: &Store,
    ) -> Result<Self, Status> {
        let all = if selection.needs_conversion() {
            Some(convert_all(snapshot, selection, store).await?)
        } else {
            None
        };
        let is_wanted = |entry: &Arc<Entry>| {
            let converted = all.as_ref().and_then(|all| all.get(entry.key().path()));
            selection.matches(entry, converted)
        };
        let mut page = Self::select(snapshot, selection, options, is_wanted);
        let stored: Vec<_> = match selection.view.converter() {
            Some(_) => page.entries.iter().map(|entry| entry.bytes().clone()).collect(),
            None => Vec::new(),
        };
        page.converted = selection.view.convert_by_webhook(&stored, store).await?;
        Ok(page)
    }

    fn select(
        snapshot: &Snapshot,
        selection: &Selection,
        options: &ListOptions,
        is_wanted: impl Fn(&Arc<Entry>) -> bool,
    ) -> Self {
        let revision = snapshot.revision();
        if let Some((namespace, name)) = selection.single() {
            // If there can be only one object, it need not be looked for.
            let found = snapshot.get(namespace, name).filter(|entry| is_wanted(entry));
            let size = found.map_or(0, |entry| entry.bytes().len());
            let entries = found.into_iter().cloned().collect();
            return Self { entries, revision, continues: None, remaining: None, size, converted: None };
        }
        let place = selection.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let place = place.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let behind = options.continues.as_ref().map(|continues| format!("{place}{}", continues.behind));
        let mut range = snapshot.range(selection.namespace.as_deref(), behind.as_deref());
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        // Without selectors, every object of the range is in the list, and none has to be checked.
        let is_everything = selection.is_everything();
        let mut entries = Vec::with_capacity(if is_everything { range.len().min(limit) } else { 0 });
        let mut size = 0;
        let mut continues = None;
        let mut remaining = None;
        while let Some(entry) = range.next() {
            if entries.len() == limit {
                let last: Option<&Arc<Entry>> = entries.last();
                let behind = last.and_then(|last| last.key().path().strip_prefix(&place)).unwrap_or_default();
                continues = Some(Continue { revision: Some(revision), behind: behind.to_owned() });
                // With a selector every object behind this page would have to be checked. Kubernetes leaves it out, too.
                remaining = selection.is_everything().then_some(range.len() + 1);
                break;
            }
            checkpoint();
            if is_everything || is_wanted(entry) {
                size += entry.bytes().len();
                entries.push(Arc::clone(entry));
            }
        }
        // A list that may continue with newer objects continues doing so.
        if let (Some(next), Some(Continue { revision: None, .. })) = (&mut continues, &options.continues) {
            next.revision = None;
        }
        Self { entries, revision, continues, remaining, size, converted: None }
    }

    /// The objects as the client's version has them.
    fn seen(&self, view: &View) -> impl Iterator<Item = VersionedObject> {
        self.entries.iter().enumerate().map(move |(index, entry)| {
            checkpoint();
            match &self.converted {
                Some(converted) => VersionedObject::Bytes(converted[index].clone()),
                None => view.convert_locally(entry.bytes()),
            }
        })
    }

    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        if let Some(continues) = &self.continues {
            metadata.insert("continue".to_owned(), continues.token().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        metadata.insert("resourceVersion".to_owned(), self.revision.to_string().into());
        metadata
    }

    /// The page as a response. Clients in this process may share the objects of the store.
    pub(crate) fn into_response(
        self,
        view: &View,
        presentation: Presentation,
        rows: Rows,
        shares_objects: bool,
    ) -> Response<Body> {
        let mut metadata = self.metadata();
        if view.is_custom() && matches!(presentation, Presentation::Objects(_)) {
            // Lists of custom resources always say how they continue.
            metadata.entry("continue").or_insert_with(|| "".into());
        }
        let metadata = Value::Object(metadata);
        match presentation {
            Presentation::Objects(Form::Json) => {
                response::json(StatusCode::OK, self.json(view, &metadata, shares_objects))
            }
            Presentation::Objects(form) => {
                let items: Vec<_> = self.seen(view).map(VersionedObject::into_value).collect();
                let mut list = view.list_head(&metadata);
                list.insert("items".to_owned(), items.into());
                response::document(StatusCode::OK, form, &Value::Object(list))
            }
            Presentation::Metadata(form, version, _) => {
                let objects: Vec<_> = self.seen(view).map(VersionedObject::into_value).collect();
                let list = with_version(table::partial_list(&objects, &metadata), version);
                response::document(StatusCode::OK, form, &list)
            }
            Presentation::Table(form, version) => {
                let objects: Vec<_> = self.seen(view).map(VersionedObject::into_value).collect();
                let options = Options { include: rows.include, has_headers: true };
                let table = view.version().printer.table(&objects, &metadata, options, rows.now);
                response::document(StatusCode::OK, form, &with_version(table, version))
            }
        }
    }

    /// Whether the objects go to the client as they are stored, so that the list can be put together while it is sent.
    ///
    /// Clients in this process are given the objects themselves.
    pub(crate) fn is_made_while_sent(
        &self,
        view: &View,
        presentation: Presentation,
        shares_objects: bool,
    ) -> bool {
        let is_as_stored = view.version().is_verbatim && self.converted.is_none();
        is_as_stored && !shares_objects && presentation == Presentation::Objects(Form::Json)
    }

    /// The list as JSON. Objects that are stored as clients see them are not parsed.
    fn json(self, view: &View, metadata: &Value, shares_objects: bool) -> Body {
        let head = Value::Object(view.list_head(metadata)).to_string();
        // The head is an object without its items.
        let head = format!("{}}},\"items\":[", head.trim_end_matches('}'));
        if self.is_made_while_sent(view, Presentation::Objects(Form::Json), shares_objects) {
            return Body::List(ObjectList::new(head.into(), self.entries, self.size));
        }
        let mut chunks = BodyChunks::of(if shares_objects { 0 } else { self.size });
        chunks.push(head.as_bytes());
        for (index, seen) in self.seen(view).enumerate() {
            let separator: &'static [u8] = if index > 0 { b"," } else { b"" };
            let object = seen.into_bytes();
            if shares_objects {
                chunks.push_shared(Bytes::from_static(separator));
                chunks.push_shared(object);
            } else {
                chunks.push(separator);
                chunks.push(&object);
            }
        }
        chunks.push(b"]}\n");
        chunks.finish()
    }
}

impl View {
    fn list_head(&self, metadata: &Value) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("apiVersion".to_owned(), self.version().behaviour.api_version().into());
        head.insert("kind".to_owned(), self.resource.names.list_kind.clone().into());
        head.insert("metadata".to_owned(), metadata.clone());
        head
    }
}

/// Joins small chunks to larger ones, unless they are shared.
#[derive(Debug)]
struct BodyChunks {
    whole: VecDeque<Bytes>,
    open: Vec<u8>,
    /// How large a chunk is made at once. One that grows with what is added is copied again and again.
    capacity: usize,
}

impl BodyChunks {
    /// For about so many bytes that are not shared.
    fn of(size: usize) -> Self {
        let room = HEAD + size + size / 64;
        Self { whole: VecDeque::new(), open: Vec::new(), capacity: room.min(PIECE) }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.open.len() + bytes.len() > PIECE && !self.open.is_empty() {
            self.whole.push_back(std::mem::take(&mut self.open).into());
        }
        if self.open.capacity() == 0 {
            self.open.reserve_exact(self.capacity.max(bytes.len()));
        }
        self.open.extend_from_slice(bytes);
    }

    /// A chunk as it is. A cache that keeps it takes no memory of its own.
    fn push_shared(&mut self, bytes: Bytes) {
        if !self.open.is_empty() {
            self.whole.push_back(std::mem::take(&mut self.open).into());
        }
        if !bytes.is_empty() {
            self.whole.push_back(bytes);
        }
    }

    fn finish(mut self) -> Body {
        self.whole.push_back(self.open.into());
        Body::Chunks(self.whole)
    }
}

/// All objects of a namespace as the client's version has them, by their paths.
async fn convert_all(
    snapshot: &Snapshot,
    selection: &Selection,
    store: &Store,
) -> Result<HashMap<String, Bytes>, Status> {
    let entries: Vec<_> = snapshot.range(selection.namespace.as_deref(), None).cloned().collect();
    let stored: Vec<_> = entries.iter().map(|entry| entry.bytes().clone()).collect();
    let converted = selection.view.convert_by_webhook(&stored, store).await?.unwrap_or_default();
    Ok(entries.iter().map(|entry| entry.key().path().to_owned()).zip(converted).collect())
}

/// What says that a page is no longer available, with a token to continue in spite of that.
pub(crate) fn expired(behind: &str) -> Response<Body> {
    let status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let mut document = status.to_json();
    let token = Continue { revision: None, behind: behind.to_owned() }.token();
    document["metadata"] = json!({ "continue": token });
    response::document(StatusCode::GONE, Form::Json, &document)
}
