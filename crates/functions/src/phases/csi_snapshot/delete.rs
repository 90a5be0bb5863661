//! Deletes a snapshot and waits until it is gone, or the content of one. That there is none is fine.

use ferroplane_engine::action::{Address, Answer, Move, Need, Phase, PhaseContract, PhaseFunction, Request};
use serde::{Deserialize, Serialize};

use super::{cluster_scoped, snapshot};
use crate::phases::arguments::Arguments;
use crate::phases::deletion::{Deleted, delete};
use crate::phases::moves::{Failure, NextMove, done, perform, settle};

/// DeleteCSISnapshot and DeleteCSISnapshotContent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DeleteCsiSnapshot {
    Snapshot,
    Content,
}

/// The checkpoint of a deletion that is not waited for: deleting twice is deleting once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Deleting {
    Delete,
}

impl PhaseFunction for DeleteCsiSnapshot {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(self.next(phase))
    }

    fn contract(&self) -> PhaseContract {
        let required: &'static [&'static str] = match self {
            Self::Snapshot => &["name", "namespace"],
            Self::Content => &["name"],
        };
        PhaseContract { required, optional: &[], outputs: &[], needs: &[Need::Api] }
    }
}

impl DeleteCsiSnapshot {
    fn next(self, phase: &Phase<'_>) -> NextMove {
        let arguments = Arguments(phase.arguments);
        let name = arguments.text("name")?;
        match self {
            Self::Content => content(phase, &cluster_scoped("volumesnapshotcontents", name)),
            Self::Snapshot => match delete(phase, &snapshot(arguments.text("namespace")?, name))? {
                Deleted::Next(next) => Ok(next),
                Deleted::WasAbsent | Deleted::Gone => Ok(done([])),
            },
        }
    }
}

fn content(phase: &Phase<'_>, target: &Address) -> NextMove {
    match phase.answers {
        [] => Ok(perform(&Deleting::Delete, vec![Request::Delete { target: target.clone(), uid: None }])),
        [Answer::Absent | Answer::Object { .. }] => Ok(done([])),
        answers => Err(Failure::unexpected(answers)),
    }
}
