//! How clients see what is stored: in the version that they ask for, whole, in part, or as rows.

use std::sync::Arc;

use bytes::Bytes;
use ferroplane_cancellation::milestone;
use ferroplane_schema::status::Status;
use ferroplane_schema::table::{self, Include, Instant, Options, Printer};
use serde_json::{Map, Value};

use crate::negotiate::{Amount, Form, Presentation};
use crate::registry::{Origin, Resource, Version};
use crate::store::Store;
use crate::webhooks::Converter;

/// A resource in a version.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) resource: Arc<Resource>,
    index: usize,
}

/// An object as a version has it.
#[derive(Debug, Clone)]
pub(crate) enum VersionedObject {
    /// As it is stored, or was converted elsewhere.
    Bytes(Bytes),
    Object(Map<String, Value>),
}

impl VersionedObject {
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Object(object) => Bytes::from(Value::Object(object).to_string()),
        }
    }

    pub(crate) fn into_object(self) -> Map<String, Value> {
        match self {
            Self::Bytes(bytes) => parse(&bytes),
            Self::Object(object) => object,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.into_object())
    }
}

/// How rows are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) include: Include,
    pub(crate) now: Instant,
}

impl View {
    /// A version that is served; nothing if it is not.
    pub(crate) fn of(resource: &Arc<Resource>, version: &str) -> Option<Self> {
        let is_wanted = |candidate: &Version| candidate.is_served && candidate.name == version;
        let index = resource.versions.iter().position(is_wanted)?;
        Some(Self { resource: Arc::clone(resource), index })
    }

    /// The version that is stored, whether it is served or not.
    pub(crate) fn stored(resource: &Arc<Resource>) -> Self {
        Self { resource: Arc::clone(resource), index: resource.storage }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.resource.versions[self.index]
    }

    /// A stored object as this version has it, for versions that need no webhook to be converted. What is stored as
    /// clients see it is handed out as it is.
    pub(crate) fn convert_locally(&self, stored: &Bytes) -> VersionedObject {
        // The common case, and the reason why objects are stored as bytes: nothing is parsed.
        if self.version().is_verbatim {
            return VersionedObject::Bytes(stored.clone());
        }
        milestone();
        let mut object = self.revived(stored);
        self.version().adopt(&mut object);
        VersionedObject::Object(object)
    }

    /// A stored object as this version has it.
    pub(crate) async fn convert(&self, stored: &Bytes, store: &Store) -> Result<VersionedObject, Status> {
        let converted = self.convert_by_webhook(std::slice::from_ref(stored), store).await?;
        let converted = converted.and_then(|converted| converted.into_iter().next());
        Ok(converted.map_or_else(|| self.convert_locally(stored), VersionedObject::Bytes))
    }

    /// Stored objects as this version has them, if that takes a webhook.
    pub(crate) async fn convert_by_webhook(
        &self,
        stored: &[Bytes],
        store: &Store,
    ) -> Result<Option<Vec<Bytes>>, Status> {
        let version = self.version();
        let Some(converter) = self.converter() else { return Ok(None) };
        let prepare = |stored: &Bytes| self.revived(stored);
        let finish = |object: &mut Map<String, Value>| version.behaviour.adopt(object);
        let api_version = version.behaviour.api_version();
        // It is a rare thing to do, and not to be carried about by every request.
        let conversion = converter.convert_stored(stored, api_version, &prepare, &finish, store);
        Box::pin(conversion).await.map(Some)
    }

    /// The webhook that converts what is stored to this version, if it takes one.
    pub(crate) fn converter(&self) -> Option<&Converter> {
        self.resource.converter.as_ref().filter(|_| !self.version().is_verbatim)
    }

    /// A stored object in the version in which it is stored.
    fn revived(&self, stored: &Bytes) -> Map<String, Value> {
        let mut object = parse(stored);
        self.resource.revive(&mut object);
        object
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.resource.origin, Origin::Custom { .. })
    }

    /// What Kubernetes calls the type of an object, or of a list of them.
    pub(crate) fn type_name(&self, amount: Amount) -> String {
        let list = if amount == Amount::Many { "List" } else { "" };
        if self.is_custom() {
            return format!("*unstructured.Unstructured{list}");
        }
        let group = self.resource.group.split('.').next().filter(|group| !group.is_empty());
        format!("*{}.{}{list}", group.unwrap_or("core"), self.resource.names.kind)
    }

    /// One object in the presentation that a client wants.
    pub(crate) fn present(
        &self,
        presentation: Presentation,
        object: &Value,
        options: Options,
        rows: Rows,
    ) -> Value {
        present(&self.version().printer, presentation, object, options, rows)
    }
}

/// One object in the presentation that a client wants. The printer makes its row.
pub(crate) fn present(
    printer: &Printer,
    presentation: Presentation,
    object: &Value,
    options: Options,
    rows: Rows,
) -> Value {
    match presentation {
        Presentation::Objects(_) => object.clone(),
        Presentation::Metadata(_, version, _) => with_version(table::partial(object), version),
        Presentation::Table(_, version) => {
            let table = printer.table([object], &list_metadata_of(object), options, rows.now);
            with_version(table, version)
        }
    }
}

impl Presentation {
    pub(crate) fn form(self) -> Form {
        match self {
            Self::Objects(form) | Self::Table(form, _) | Self::Metadata(form, ..) => form,
        }
    }
}

pub(crate) fn with_version(mut value: Value, version: &str) -> Value {
    if version == "v1" {
        return value;
    }
    let api_version = format!("meta.k8s.io/{version}");
    for row in value.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        if row["object"]["kind"] == "PartialObjectMetadata" {
            row["object"]["apiVersion"] = api_version.as_str().into();
        }
    }
    value["apiVersion"] = api_version.into();
    value
}

/// What is stored has been written by us, so that it can be read.
fn parse(stored: &Bytes) -> Map<String, Value> {
    serde_json::from_slice(stored).expect("what is stored is the JSON of an object")
}

/// A table of one object carries its resource version.
fn list_metadata_of(object: &Value) -> Value {
    let mut metadata = Map::new();
    if let Some(version) = object["metadata"].get("resourceVersion") {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    Value::Object(metadata)
}
