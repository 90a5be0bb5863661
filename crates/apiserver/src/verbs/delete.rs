//! Deletes objects: at once, or when nothing keeps them any more.

use std::sync::Arc;

use bytes::Bytes;
use ferroplane_schema::status::{Details, Resource, Status};
use serde_json::{Map, Value, json};

use super::subject::Subject;
use super::write::{ObjectLocation, storage_failure, yield_to_cancellation};
use crate::admission::Admission;
use crate::clock;
use crate::options::{DeleteOptions, Propagation};
use crate::registry::DeletionStrategy;
use crate::store::{Change, Draft, Entry, Expect, Operation, SubmitError};

/// How often a deletion that others keep overtaking is tried.
const ATTEMPTS: usize = 100;
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// How a deletion ended.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// Whether nothing keeps it.
    pub(crate) is_gone: bool,
    /// Its last state, or how it is now.
    pub(crate) bytes: Bytes,
    pub(crate) subject: Subject,
    pub(crate) warnings: Vec<String>,
}

/// Deletes the object at a location.
pub(crate) async fn delete(
    admission: &Admission<'_>,
    location: &ObjectLocation,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let store = admission.store;
    let key = location.key(store, &location.name);
    for _ in 0..ATTEMPTS {
        let Some(entry) = store.get(&key) else {
            return Err(Status::not_found(&location.view.resource.identity, &location.name));
        };
        if let Some(deleted) = attempt(admission, location, &entry, options).await? {
            return Ok(deleted);
        }
    }
    Err(Status::modified(&location.view.resource.identity, &location.name))
}

async fn attempt(
    admission: &Admission<'_>,
    location: &ObjectLocation,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Result<Option<Deleted>, Status> {
    let object: Map<String, Value> = serde_json::from_slice(entry.bytes())
        .map_err(|error| Status::internal(&format!("cannot read the stored object: {error}")))?;
    // In each attempt anew: what others changed meanwhile may be just what the client wanted to rule out.
    check_preconditions(location, &object, options)?;
    let mut warnings = admission.delete(location, entry).await?;
    let deletion = location.view.resource.deletion;
    if let (Some(warning), None) = (deletion.warning, options.propagation) {
        warnings.insert(0, warning.to_owned());
    }
    let begun = begin(object.clone(), deletion, options)?;
    // What is only marked for deletion has another generation since.
    let subject = Subject::of(begun.as_ref().unwrap_or(&object));
    let is_gone = begun.is_none();
    if options.is_dry_run {
        let pretended = begun.map(|object| Bytes::from(Value::Object(object).to_string()));
        let bytes = pretended.unwrap_or_else(|| entry.bytes().clone());
        return Ok(Some(Deleted { is_gone, bytes, subject, warnings }));
    }
    let change = match begun {
        // It is being deleted already. Nothing changes, so that nothing is written, and no watcher is woken.
        Some(begun) if begun == object => {
            return Ok(Some(Deleted { is_gone, bytes: entry.bytes().clone(), subject, warnings }));
        }
        Some(begun) => Change::Put(Draft::new(&begun).map_err(|error| Status::internal(&error.to_string()))?),
        None => Change::Delete,
    };
    let expect = Expect::Revision(entry.revision());
    yield_to_cancellation().await;
    match admission.store.submit(vec![Operation { key: entry.key().clone(), expect, change }]).await {
        Ok(entries) => {
            let bytes = entries.first().map(|entry| entry.bytes().clone()).unwrap_or_default();
            Ok(Some(Deleted { is_gone, bytes, subject, warnings }))
        }
        Err(SubmitError::Refused(_)) => Ok(None),
        Err(error) => Err(storage_failure(&error)),
    }
}

fn check_preconditions(
    location: &ObjectLocation,
    object: &Map<String, Value>,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let Some(Value::Object(metadata)) = object.get("metadata") else { return Ok(()) };
    let resource = &location.view.resource;
    let identity = &Resource::new(&resource.group, &resource.names.kind);
    let preconditions = [
        ("UID", &options.uid, "uid", "deleted and then recreated"),
        ("ResourceVersion", &options.resource_version, "resourceVersion", "modified"),
    ];
    for (what, wanted, name, event) in preconditions {
        let found = metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) else { continue };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might \
             have been {event}"
        );
        return Err(Status::conflict(identity, &location.name, &why));
    }
    Ok(())
}

/// The object as it is while something keeps it; nothing if it can go at once.
fn begin(
    mut object: Map<String, Value>,
    deletion: DeletionStrategy,
    options: &DeleteOptions,
) -> Result<Option<Map<String, Value>>, Status> {
    let mut finalizers = finalizers(&object);
    follow_propagation(&mut finalizers, options.propagation, deletion);
    let is_begun = object.get("metadata").is_some_and(|metadata| !metadata["deletionTimestamp"].is_null());
    if let Some(cleanup) = deletion.finalizer.filter(|_| !is_begun)
        && !finalizers.iter().any(|finalizer| finalizer == cleanup)
    {
        finalizers.push(cleanup.to_owned());
    }
    let is_held = deletion.has_spec_finalizers && has_spec_finalizers(&object);
    if finalizers.is_empty() && !is_held {
        return Ok(None);
    }
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return Err(Status::internal("the stored object has no metadata"));
    };
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    if !is_begun {
        metadata.insert("deletionTimestamp".to_owned(), clock::timestamp().into());
        if deletion.is_graceful {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            }
        }
        if let Some(phase) = deletion.phase {
            let status = object.entry("status").or_insert_with(|| json!({}));
            status["phase"] = phase.into();
        }
    }
    Ok(Some(object))
}

fn finalizers(object: &Map<String, Value>) -> Vec<String> {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    finalizers.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What is to become of what the object owns is noted in its finalizers. Nothing said leaves it as it is noted, or as it is
/// usual.
fn follow_propagation(
    finalizers: &mut Vec<String>,
    propagation: Option<Propagation>,
    deletion: DeletionStrategy,
) {
    let is_noted = finalizers.iter().any(|finalizer| finalizer == ORPHAN || finalizer == FOREGROUND);
    let usual = deletion.default_propagation.filter(|_| !is_noted);
    let Some(propagation) = propagation.or(usual) else { return };
    finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
    }
}

fn has_spec_finalizers(object: &Map<String, Value>) -> bool {
    let finalizers = object.get("spec").and_then(|spec| spec.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
}

/// What a client is notified of an object that is gone.
pub(crate) fn success(location: &ObjectLocation, stored: &Bytes) -> Status {
    let object: Value = serde_json::from_slice(stored).unwrap_or_default();
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    Status::success(Some(Details {
        resource: location.view.resource.identity.clone(),
        name: text("name"),
        uid: text("uid"),
        ..Details::default()
    }))
}
