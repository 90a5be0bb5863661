//! Takes a snapshot of a volume, or makes one known that a storage system has already, and waits until it can be used.

use ferroplane_api::Object;
use ferroplane_engine::action::{
    Address, Answer, Move, Need, Phase, PhaseContract, PhaseFunction, Request, ResourceName,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    API_VERSION, MANAGER, SnapshotState, absent, cluster_scoped, is_taken, labelled, output, snapshot,
    state_of,
};
use crate::phases::arguments::Arguments;
use crate::phases::moves::{
    Failure, NextMove, address_of, checkpoint, describe, is_own, named, perform, settle, suffix, taken,
    text_at, wait,
};

const LONGEST_NAME: usize = 253;

/// CreateCSISnapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CreateCsiSnapshot;

/// CreateCSISnapshotStatic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CreateCsiSnapshotStatic;

/// How far the creation of a snapshot is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Creating {
    /// What it is made of is read.
    Look,
    /// It is created. The policy is that of the class.
    #[serde(rename_all = "camelCase")]
    Create { deletion_policy: Option<String> },
    /// It is read, until it is ready.
    Wait,
}

impl PhaseFunction for CreateCsiSnapshot {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(dynamic(phase))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["pvc", "namespace", "snapshotClass"],
            optional: &["name", "labels"],
            outputs: &["name", "pvc", "namespace", "restoreSize", "snapshotContent"],
            needs: &[Need::Api],
        }
    }
}

impl PhaseFunction for CreateCsiSnapshotStatic {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(static_(phase))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["name", "namespace", "driver", "snapshotHandle", "snapshotClass"],
            optional: &[],
            outputs: &["name", "namespace", "restoreSize", "snapshotContent"],
            needs: &[Need::Api],
        }
    }
}

fn dynamic(phase: &Phase<'_>) -> NextMove {
    let arguments = Arguments(phase.arguments);
    let (pvc, namespace) = (arguments.text("pvc")?, arguments.text("namespace")?);
    let class = arguments.text("snapshotClass")?;
    let name = match arguments.optional_text("name")? {
        Some(name) => name.to_owned(),
        None => named(&format!("{pvc}-snapshot"), &suffix(phase, "snapshot"), LONGEST_NAME),
    };
    let object = object(json!({
        "apiVersion": API_VERSION, "kind": "VolumeSnapshot", "metadata": {"name": name, "namespace": namespace},
        "spec": {"volumeSnapshotClassName": class, "source": {"persistentVolumeClaimName": pvc}},
    }));
    let object = labelled(object, arguments)?;
    let volume = Address {
        kind: ResourceName::resource("v1", "persistentvolumeclaims"),
        namespace: namespace.to_owned(),
        name: pvc.to_owned(),
    };
    let address = snapshot(namespace, &name);
    match (checkpoint(phase)?, phase.answers) {
        (None | Some(Creating::Look), []) => Ok(perform(&Creating::Look, vec![Request::Get(volume)])),
        (Some(Creating::Look), [Answer::Absent]) => absent(&volume),
        // A phase that was interrupted while it created the snapshot creates it again: the name is the same.
        (Some(Creating::Look), [Answer::Object { .. }]) | (Some(Creating::Create { .. }), []) => {
            Ok(create(None, vec![object]))
        }
        (state, answers) => follow(phase, state.as_ref(), answers, &address, Some(pvc)),
    }
}

fn static_(phase: &Phase<'_>) -> NextMove {
    let arguments = Arguments(phase.arguments);
    let (name, namespace) = (arguments.text("name")?, arguments.text("namespace")?);
    let (driver, handle) = (arguments.text("driver")?, arguments.text("snapshotHandle")?);
    let class = arguments.text("snapshotClass")?;
    let content = named(&format!("{name}-content"), &suffix(phase, "content"), LONGEST_NAME);
    let objects = |policy: &str| {
        let content_object = json!({
            "apiVersion": API_VERSION, "kind": "VolumeSnapshotContent", "metadata": {"name": content},
            "spec": {
                "deletionPolicy": policy, "driver": driver, "source": {"snapshotHandle": handle},
                "volumeSnapshotClassName": class, "volumeSnapshotRef": {"name": name, "namespace": namespace},
            },
        });
        let snapshot_object = json!({
            "apiVersion": API_VERSION, "kind": "VolumeSnapshot", "metadata": {"name": name, "namespace": namespace},
            "spec": {"volumeSnapshotClassName": class, "source": {"volumeSnapshotContentName": content}},
        });
        // The content first: a snapshot whose content is missing is an error for its controller.
        vec![object(content_object), object(snapshot_object)]
    };
    let class_address = cluster_scoped("volumesnapshotclasses", class);
    let address = snapshot(namespace, name);
    match (checkpoint(phase)?, phase.answers) {
        (None | Some(Creating::Look), []) => Ok(perform(&Creating::Look, vec![Request::Get(class_address)])),
        (Some(Creating::Look), [Answer::Absent]) => absent(&class_address),
        (Some(Creating::Look), [Answer::Object { object, .. }]) => {
            let policy = text_at(object, &["deletionPolicy"]);
            if policy.is_empty() {
                return Err(Failure::new(format!("{} has no deletionPolicy", describe(&class_address))));
            }
            Ok(create(Some(policy), objects(policy)))
        }
        (Some(Creating::Create { deletion_policy: Some(policy) }), []) => {
            Ok(create(Some(&policy), objects(&policy)))
        }
        (state, answers) => follow(phase, state.as_ref(), answers, &address, None),
    }
}

fn create(deletion_policy: Option<&str>, objects: Vec<Object>) -> Move {
    let requests =
        objects.into_iter().map(|object| Request::Create { object, field_manager: MANAGER.to_owned() });
    perform(&Creating::Create { deletion_policy: deletion_policy.map(str::to_owned) }, requests.collect())
}

/// From the creation on until the snapshot is ready.
fn follow(
    phase: &Phase<'_>,
    state: Option<&Creating>,
    answers: &[Answer],
    address: &Address,
    pvc: Option<&str>,
) -> NextMove {
    let look = || perform(&Creating::Wait, vec![Request::Get(address.clone())]);
    match (state, answers) {
        (Some(Creating::Wait), []) => Ok(look()),
        (Some(Creating::Create { .. }), answers) => {
            let refused =
                answers.iter().find(|answer| matches!(answer, Answer::Refused(_)) && !is_taken(answer));
            match refused {
                Some(_) => Err(Failure::unexpected(answers)),
                // Whose it is, if it exists already, is checked below.
                None => Ok(look()),
            }
        }
        (Some(Creating::Wait), [Answer::Object { object, .. }]) => {
            if !is_own(phase, object) {
                return Err(taken(&address_of(object)));
            }
            match state_of(object, address)? {
                SnapshotState::Ready => Ok(output(object, pvc)),
                SnapshotState::Pending => Ok(wait(&Creating::Wait, None, vec![address.clone()])),
            }
        }
        (_, [Answer::Absent]) => {
            Err(Failure::new(format!("{} was deleted before it was ready", describe(address))))
        }
        (_, answers) => Err(Failure::unexpected(answers)),
    }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
