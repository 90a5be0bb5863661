//! Deletes an object, once, and waits until it is gone.
//!
//! The uid of the object is in the checkpoint before it is deleted: whatever bears its name after a crash and is not it stays.

use ferroplane_api::meta;
use ferroplane_engine::action::{Address, Answer, Move, Phase, Request};
use serde::{Deserialize, Serialize};

use super::moves::{Failure, checkpoint, perform, wait};

/// How far a deletion is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
pub(super) enum Deletion {
    /// The object is looked for. The uid is known once it was seen.
    Look { uid: Option<String> },
    /// It is being deleted.
    Delete { uid: String },
}

/// What a deletion came to.
#[derive(Debug, PartialEq)]
pub(super) enum Deleted {
    /// There is more to do.
    Next(Move),
    /// There was no such object.
    WasAbsent,
    /// It is gone.
    Gone,
}

/// What to do next about an object that is to be deleted.
pub(super) fn delete(phase: &Phase<'_>, target: &Address) -> Result<Deleted, Failure> {
    let state = checkpoint(phase)?.unwrap_or(Deletion::Look { uid: None });
    delete_from(&state, phase.answers, target, |state| state)
}

/// The same as part of something larger, whose checkpoint is made of the one of the deletion.
pub(super) fn delete_from<S: Serialize>(
    state: &Deletion,
    answers: &[Answer],
    target: &Address,
    whole: impl Fn(Deletion) -> S,
) -> Result<Deleted, Failure> {
    let look = |uid: Option<String>| {
        Deleted::Next(perform(&whole(Deletion::Look { uid }), vec![Request::Get(target.clone())]))
    };
    let remove = |uid: &str| {
        let request = Request::Delete { target: target.clone(), uid: Some(uid.to_owned()) };
        Deleted::Next(perform(&whole(Deletion::Delete { uid: uid.to_owned() }), vec![request]))
    };
    let waits = |uid: &str| {
        let state = whole(Deletion::Look { uid: Some(uid.to_owned()) });
        Deleted::Next(wait(&state, None, vec![target.clone()]))
    };
    Ok(match (state, answers) {
        (Deletion::Look { uid }, []) => look(uid.clone()),
        (Deletion::Look { uid: None }, [Answer::Absent]) => Deleted::WasAbsent,
        (_, [Answer::Absent]) => Deleted::Gone,
        (Deletion::Look { uid }, [Answer::Object { object, .. }]) => match uid {
            // Another object has its name by now.
            Some(uid) if meta::uid(object) != uid => Deleted::Gone,
            Some(uid) if meta::is_being_deleted(object) => waits(uid),
            _ => remove(meta::uid(object)),
        },
        // Whether it was deleted before the plane stopped, only looking can tell.
        (Deletion::Delete { uid }, []) => look(Some(uid.clone())),
        (Deletion::Delete { uid }, [Answer::Object { .. }]) => waits(uid),
        (Deletion::Delete { uid }, [Answer::Refused(refused)]) if refused.is_conflict() => {
            look(Some(uid.clone()))
        }
        _ => return Err(Failure::unexpected(answers)),
    })
}
