//! A recorded reconcile, and how to replay it.

use std::collections::HashMap;

use bytes::Bytes;
use ferroplane_engine::{Inputs, ReplayMismatch, TranscriptEntry, Turn, replay};
use ferroplane_wire::tag;
use serde_json::Value;

use crate::decode::Decoder;
use crate::format::{Body, Digest, Head};
use crate::outcome_snapshot::outcome_snapshot;
use crate::phase_calls::RecordedCall;

/// A reconcile that was recorded.
#[derive(Debug, Clone)]
pub struct Recording {
    pub head: Head,
    /// The runs of the pipeline: functions are asked a second time about what they have just created.
    pub takes: Vec<RecordedRun>,
    /// The calls of functions of phases, if it is about an ActionSet.
    pub phase_calls: Vec<RecordedCall>,
    /// The ActionSet before its status was written. Null if it is about another kind.
    pub action_set: Value,
    /// What was said of it in the end: conditions and events, and the status of an ActionSet. Null if nothing was.
    pub settlement: Value,
    /// Whether its status was written, because it was not so already.
    pub is_written: bool,
}

/// One run of a pipeline.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    pub inputs: Inputs,
    /// What was said to the engine.
    pub notes: Vec<TranscriptEntry>,
    /// Its result, as JSON. Empty if it was aborted.
    pub outcome: Vec<u8>,
    /// Composed resources that the API server would not have.
    pub unsynced: Vec<String>,
    /// How many composed resources were written.
    pub written: u32,
    /// Whether nothing of it was done: a candidate of a rollout, say, was only tried.
    pub is_trial: bool,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    #[error("a part of it is missing")]
    Incomplete,
    #[error("it is damaged")]
    Garbled,
    #[error("a later release recorded something in it that this one does not know")]
    Later,
    #[error(transparent)]
    Pipeline(#[from] ferroplane_engine::Unreadable),
}

/// The result of replaying a run.
#[derive(Debug)]
pub struct Replayed {
    /// The new result, as JSON. Empty if the run did not end.
    pub outcome: Vec<u8>,
    /// Whether that is what was recorded, byte for byte.
    pub is_same: bool,
    /// How many requests to functions were compared with what was recorded of them.
    pub compared: usize,
    /// The steps that were asked something else than was recorded.
    pub unlike: Vec<String>,
    /// Where the run took another course.
    pub astray: Option<ReplayMismatch>,
}

impl Recording {
    /// The last run that was carried out; the last one at all if none was.
    pub fn decisive_run(&self) -> Option<&RecordedRun> {
        self.takes.iter().rfind(|take| !take.is_trial).or(self.takes.last())
    }

    pub(crate) fn decode(head: Head, body: Body, blobs: &HashMap<Digest, Bytes>) -> Result<Self, Damaged> {
        let decoder = Decoder(blobs);
        let (mut takes, mut phase_calls) = (Vec::new(), Vec::new());
        for mut take in body.takes {
            match take.phase_call.take() {
                Some(call) => phase_calls.push(decoder.phase_call(call)?),
                None => takes.push(decoder.take(take)?),
            }
        }
        let action_set = decoder.json(&body.action_set)?;
        let settlement = serde_json::from_slice(&body.settlement).unwrap_or_default();
        Ok(Self { head, takes, phase_calls, action_set, settlement, is_written: body.is_written })
    }
}

impl RecordedRun {
    /// Have the run again, with the answers that were recorded.
    pub fn replay(&self) -> Replayed {
        let (mut compared, mut unlike) = (0, Vec::new());
        let outcome = replay(self.inputs.clone(), self.notes.iter().cloned(), |turn, note| {
            if let Turn::Call(call) = turn
                && !note.tag.is_empty()
            {
                compared += 1;
                // The engine computes the tag of the request that it makes now, so that any difference in
                // what a function would see shows, even if its answer is replayed.
                if tag(call.request()) != note.tag {
                    unlike.push(call.step().to_owned());
                }
            }
        });
        let (outcome, astray) = match outcome {
            Ok(outcome) => (outcome_snapshot(&outcome), None),
            // Whatever was cut short is as far as it was.
            Err(astray) if astray.is_cut_short && self.outcome.is_empty() => (Vec::new(), None),
            Err(astray) => (Vec::new(), Some(astray)),
        };
        let is_same = astray.is_none() && unlike.is_empty() && outcome == self.outcome;
        Replayed { outcome, is_same, compared, unlike, astray }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ferroplane_engine::{Cause, CompositeSubject, EngineInput, Layout, Pipeline};
    use ferroplane_wire::Struct;
    use serde_json::json;

    use super::*;
    use crate::format::RunMessage;

    #[test]
    fn recording_with_something_that_this_release_does_not_know_is_refused() {
        let body = Body { takes: vec![RunMessage::default()], ..Body::default() };
        let refused = Recording::decode(Head::default(), body, &HashMap::new());
        assert!(matches!(refused, Err(Damaged::Later)), "{refused:?}");
    }

    /// A run of one step to which this was said.
    fn take(said: Option<EngineInput>) -> RecordedRun {
        let steps = json!([{"step": "one", "functionRef": {"name": "f"}}]);
        let inputs = Inputs {
            subject: CompositeSubject::new(Struct::default(), Layout::Modern).into(),
            pipeline: Arc::new(Pipeline::read(&steps, &Value::Null).unwrap()),
            remembered: Vec::new(),
            context: None,
            grants: Arc::default(),
        };
        let notes = said.into_iter().map(TranscriptEntry::new).collect();
        RecordedRun { inputs, notes, outcome: Vec::new(), unsynced: Vec::new(), written: 0, is_trial: false }
    }

    fn failed() -> EngineInput {
        EngineInput::Failed { cause: Cause::FunctionTimeout, reason: "no".to_owned() }
    }

    #[test]
    fn run_that_was_cut_short_is_as_far_as_it_was() {
        let replayed = take(None).replay();
        assert!(replayed.is_same && replayed.astray.is_none());
        // But not one that came to an end and was recorded as if it had not.
        let replayed = take(Some(failed())).replay();
        assert!(!replayed.is_same);
    }

    #[test]
    fn run_that_comes_to_something_else_is_different() {
        let mut take = take(Some(failed()));
        take.outcome = take.replay().outcome;
        assert!(take.replay().is_same);
        take.notes[0].tag = "other".to_owned();
        assert_eq!(take.replay().unlike, ["one"]);
        take.notes[0].tag.clear();
        take.outcome.pop();
        assert!(!take.replay().is_same);
        take.notes.clear();
        assert!(take.replay().astray.is_some());
    }
}
