//! `OpenAPI` documents: one for each version of each group, which clients check objects with and explain fields by.
//!
//! Documents are made when a client asks. Their hashes come from what defines the resources, not from the documents, so
//! that the index costs nothing however many there are.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use ferroplane_schema::builtin;
use ferroplane_schema::structural::openapi;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use crate::registry::{Catalogue, Origin};

/// What the protobuf form of version 2 is called.
pub(crate) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Documents that have been asked for, by path, with the hash of what they were made of.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    made: Mutex<HashMap<String, (String, Bytes)>>,
}

/// A version of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GroupVersion<'g> {
    group: &'g str,
    version: &'g str,
}

impl<'g> GroupVersion<'g> {
    /// Reads a path such as `apis/apps/v1` or `api/v1`.
    fn parse(path: &'g str) -> Option<Self> {
        match path.split('/').collect::<Vec<_>>()[..] {
            ["api", version] => Some(Self { group: "", version }),
            ["apis", group, version] => Some(Self { group, version }),
            _ => None,
        }
    }

    fn path(self) -> String {
        match self {
            Self { group: "", version } => format!("api/{version}"),
            Self { group, version } => format!("apis/{group}/{version}"),
        }
    }
}

/// The OpenAPI document of a version of a group.
pub(crate) enum Found {
    Document {
        bytes: Bytes,
        is_immutable: bool,
    },
    /// It has changed: where it is now.
    Moved(String),
}

impl Documents {
    /// Where the documents are.
    pub(crate) fn index(catalogue: &Catalogue) -> Value {
        let mut paths = Map::new();
        for group in catalogue.groups() {
            for version in catalogue.versions(group) {
                let subject = GroupVersion { group, version };
                let path = subject.path();
                let url = format!("/openapi/v3/{path}?hash={}", hash(catalogue, subject));
                paths.insert(path, json!({"serverRelativeURL": url}));
            }
        }
        json!({ "paths": paths })
    }

    /// The document below a path, if a client that knows its hash wants that one.
    pub(crate) fn find(&self, catalogue: &Catalogue, path: &str, wanted: &str) -> Option<Found> {
        let subject = GroupVersion::parse(path)?;
        if !catalogue.has_version(subject.group, subject.version) {
            return None;
        }
        let hash = hash(catalogue, subject);
        // A document with a hash in its address never changes, so that clients may keep it for ever; an old hash is sent on.
        if !wanted.is_empty() && wanted != hash {
            return Some(Found::Moved(format!("/openapi/v3/{path}?hash={hash}")));
        }
        let bytes = self.document(catalogue, subject, &hash);
        Some(Found::Document { bytes, is_immutable: !wanted.is_empty() })
    }

    /// Everything in one document of version 2, for clients that know no other.
    pub(crate) fn version_2(&self, catalogue: &Catalogue, is_protobuf: bool) -> Bytes {
        let path = if is_protobuf { "v2 in protobuf" } else { "v2" };
        self.kept(path.to_owned(), &catalogue.edition.to_string(), || {
            let document = version_2(catalogue);
            if is_protobuf {
                openapi::version_2_in_protobuf(&document)
            } else {
                document.to_string().into_bytes()
            }
        })
    }

    fn document(&self, catalogue: &Catalogue, subject: GroupVersion<'_>, hash: &str) -> Bytes {
        self.kept(subject.path(), hash, || version_3(catalogue, subject).to_string().into_bytes())
    }

    /// A document that is made on demand, if its sources have changed since the last request.
    fn kept(&self, path: String, hash: &str, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        // A panic in another request leaves at worst a document that will be made again.
        let lock = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_of, bytes)) = lock().get(&path)
            && made_of == hash
        {
            return bytes.clone();
        }
        let bytes = Bytes::from(make());
        lock().insert(path, (hash.to_owned(), bytes.clone()));
        bytes
    }
}

fn hash(catalogue: &Catalogue, subject: GroupVersion<'_>) -> String {
    let mut hash = Sha512::new();
    for resource in catalogue.resources(subject.group) {
        if resource.served(subject.version).is_some() {
            hash.update(resource.names.plural.as_bytes());
            hash.update([0]);
            hash.update(resource.fingerprint.as_bytes());
            hash.update([0]);
        }
    }
    hash.finalize().iter().fold(String::with_capacity(128), |mut text, byte| {
        text.push_str(&format!("{byte:02X}"));
        text
    })
}

fn version_3(catalogue: &Catalogue, subject: GroupVersion<'_>) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    if let Some(mut document) = builtin::openapi::version_3(subject.group, subject.version) {
        move_into(&mut paths, document.get_mut("paths"));
        move_into(&mut schemas, document.pointer_mut("/components/schemas"));
    }
    for resource in catalogue.resources(subject.group) {
        let Origin::Custom { definition, .. } = &resource.origin else { continue };
        let Some(mut document) = openapi::version_3(definition, subject.version) else { continue };
        move_into(&mut paths, document.get_mut("paths"));
        move_into(&mut schemas, document.pointer_mut("/components/schemas"));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn move_into(all: &mut Map<String, Value>, part: Option<&mut Value>) {
    if let Some(Value::Object(part)) = part.map(Value::take) {
        all.extend(part);
    }
}

fn version_2(catalogue: &Catalogue) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for group in catalogue.groups() {
        for version in catalogue.versions(group) {
            let Some(mut document) = builtin::openapi::version_2(group, version) else { continue };
            move_into(&mut paths, document.get_mut("paths"));
            move_into(&mut definitions, document.get_mut("definitions"));
        }
    }
    for resource in catalogue.all() {
        let Origin::Custom { definition, .. } = &resource.origin else { continue };
        for version in resource.versions.iter().filter(|version| version.is_served) {
            let Some(mut document) = openapi::version_2(definition, &version.name) else { continue };
            move_into(&mut paths, document.get_mut("paths"));
            move_into(&mut definitions, document.get_mut("definitions"));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "definitions": definitions,
    })
}
