//! CSI snapshots: CreateCSISnapshot, CreateCSISnapshotStatic, RestoreCSISnapshot, DeleteCSISnapshot and DeleteCSISnapshotContent.
//!
//! Follow Kanister 0.119, `pkg/function/create_csi_snapshot.go` and its siblings. A snapshot gets ready where a CSI snapshot controller
//! makes it ready.

mod create;
mod delete;
mod restore;

use ferroplane_api::Object;
use ferroplane_engine::action::{Address, Answer, Move, ResourceName};

use super::arguments::Arguments;
use super::moves::{Failure, NextMove, describe, done, text_at};
pub(super) use create::{CreateCsiSnapshot, CreateCsiSnapshotStatic};
pub(super) use delete::DeleteCsiSnapshot;
pub(super) use restore::RestoreCsiSnapshot;

const API_VERSION: &str = "snapshot.storage.k8s.io/v1";
const MANAGER: &str = "ferroplane-csisnapshot";
/// What a snapshot controller says when it will try again by itself.
const TRANSIENT: &str = "the object has been modified";

fn snapshot(namespace: &str, name: &str) -> Address {
    Address {
        kind: ResourceName::resource(API_VERSION, "volumesnapshots"),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn cluster_scoped(resource: &str, name: &str) -> Address {
    Address {
        kind: ResourceName::resource(API_VERSION, resource),
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// What a snapshot is by now.
enum SnapshotState {
    Ready,
    /// A controller still works on it.
    Pending,
}

fn state_of(snapshot: &Object, address: &Address) -> Result<SnapshotState, Failure> {
    let status = snapshot.get("status");
    let error = text_at(snapshot, &["status", "error", "message"]);
    if status.and_then(|status| status.get("readyToUse")) == Some(&true.into()) {
        return Ok(SnapshotState::Ready);
    }
    if !error.is_empty() && !error.contains(TRANSIENT) {
        return Err(Failure::new(format!("{} failed: {error}", describe(address))));
    }
    Ok(SnapshotState::Pending)
}

/// What a snapshot that is ready gives to later phases.
fn output(snapshot: &Object, pvc: Option<&str>) -> Move {
    let (name, namespace) =
        (text_at(snapshot, &["metadata", "name"]), text_at(snapshot, &["metadata", "namespace"]));
    let fields = [
        ("name", Some(name)),
        ("pvc", pvc),
        ("namespace", Some(namespace)),
        ("restoreSize", Some(text_at(snapshot, &["status", "restoreSize"]))),
        ("snapshotContent", Some(text_at(snapshot, &["status", "boundVolumeSnapshotContentName"]))),
    ];
    done(fields.into_iter().filter_map(|(key, value)| Some((key, value?.to_owned()))))
}

/// Labels that the user wants on an object.
fn labelled(mut object: Object, arguments: Arguments<'_>) -> Result<Object, Failure> {
    let labels = arguments.text_map("labels")?;
    if !labels.is_empty() {
        let metadata = object.entry("metadata").or_insert_with(|| Object::new().into());
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("labels".to_owned(), labels.into());
        }
    }
    Ok(object)
}

fn is_taken(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused(refused) if refused.already_exists())
}

fn absent(address: &Address) -> NextMove {
    Err(Failure::new(format!("{} does not exist", describe(address))))
}

#[cfg(test)]
pub(super) mod tests;
