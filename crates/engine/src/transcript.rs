//! Everything that the engine was given in a run, so that the run can be replayed without calling anything.

use ferroplane_api::Cause;
use ferroplane_wire::v1::RunFunctionResponse;

use crate::conversation::{Answer, Turn, start};
use crate::inputs::Inputs;
use crate::outcome::Outcome;

/// An input of the engine.
#[derive(Debug, Clone)]
pub enum EngineInput {
    /// The objects that it wanted to read.
    Provided(Vec<Answer>),
    /// What a function answered.
    Answered(RunFunctionResponse),
    /// A cached response that was still valid.
    Recalled(RunFunctionResponse),
    /// Why a function did not respond: the cause, and the error with all its sources.
    Failed { cause: Cause, reason: String },
}

/// An input of the engine, and the request that it belongs to.
#[derive(Debug, Clone)]
pub struct TranscriptEntry {
    /// The tag of the request. Empty if it was not a request, or not the first one of its step.
    pub tag: String,
    pub input: EngineInput,
}

impl TranscriptEntry {
    pub fn new(input: EngineInput) -> Self {
        Self { tag: String::new(), input }
    }
}

/// Why a run could not be replayed: the engine asks for something else than in the recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the replay differs from the recording at turn {turn}: {asks}, but {recorded}")]
pub struct ReplayMismatch {
    /// Counted from one.
    pub turn: usize,
    pub asks: String,
    pub recorded: &'static str,
    /// Whether only the end of the recording is missing: everything before agrees.
    pub is_cut_short: bool,
}

/// Replay a run. `look` is called with every turn and its recorded input.
pub fn replay(
    inputs: Inputs,
    notes: impl IntoIterator<Item = TranscriptEntry>,
    mut look: impl FnMut(&Turn, &TranscriptEntry),
) -> Result<Outcome, ReplayMismatch> {
    let mut turn = start(inputs);
    let mut number = 1;
    for note in notes {
        look(&turn, &note);
        turn = advance(turn, note.input).map_err(|(asks, recorded)| ReplayMismatch {
            turn: number,
            asks,
            recorded,
            is_cut_short: false,
        })?;
        number += 1;
    }
    match turn {
        Turn::Done(outcome) => Ok(*outcome),
        turn => Err(ReplayMismatch {
            turn: number,
            asks: asks(&turn),
            recorded: "nothing more was recorded",
            is_cut_short: true,
        }),
    }
}

fn advance(turn: Turn, input: EngineInput) -> Result<Turn, (String, &'static str)> {
    match (turn, input) {
        (Turn::Fetch(fetch), EngineInput::Provided(answers)) if fetch.wants().len() == answers.len() => {
            Ok(fetch.provide(answers))
        }
        (Turn::Call(call), EngineInput::Answered(response)) => Ok(call.answer(response)),
        (Turn::Call(call), EngineInput::Recalled(response)) => Ok(call.accept(response)),
        (Turn::Call(call), EngineInput::Failed { cause, reason }) => Ok(call.fail(cause, reason)),
        (turn, input) => Err((asks(&turn), what(&input))),
    }
}

fn asks(turn: &Turn) -> String {
    match turn {
        Turn::Call(call) => format!("step `{}` is to be called", call.step()),
        Turn::Fetch(fetch) => format!("{} objects are to be read", fetch.wants().len()),
        Turn::Done(_) => "the pipeline has ended".to_owned(),
    }
}

fn what(input: &EngineInput) -> &'static str {
    match input {
        EngineInput::Provided(_) => "something else was read",
        EngineInput::Answered(_) | EngineInput::Recalled(_) => "a function answered",
        EngineInput::Failed { .. } => "a function failed",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ferroplane_wire::Struct;
    use ferroplane_wire::v1::ResourceSelector;
    use serde_json::json;

    use super::*;
    use crate::inputs::{CompositeSubject, Layout, Requirement};
    use crate::pipeline::Pipeline;

    fn inputs() -> Inputs {
        let steps = json!([{"step": "one", "functionRef": {"name": "f"}}]);
        let composite = json!({"apiVersion": "e.org/v1", "kind": "X", "metadata": {
            "name": "x", "labels": {"crossplane.io/composite": "x"},
        }});
        Inputs {
            subject: CompositeSubject::new(
                Struct::try_from(composite.as_object().unwrap().clone()).unwrap(),
                Layout::Modern,
            )
            .into(),
            pipeline: Arc::new(Pipeline::new(&serde_json::from_value::<Vec<_>>(steps).unwrap()).unwrap()),
            remembered: Vec::new(),
            context: None,
            grants: Arc::default(),
        }
    }

    #[test]
    fn same_words_lead_to_the_same_end() {
        let notes = [TranscriptEntry::new(EngineInput::Failed {
            cause: Cause::FunctionTimeout,
            reason: "cannot: for a reason".to_owned(),
        })];
        let mut turns = 0;
        let outcome = replay(inputs(), notes, |_, _| turns += 1).unwrap();
        assert_eq!(turns, 1);
        let text = crate::chain(&outcome.result.unwrap_err());
        assert_eq!(text, "cannot run pipeline step `one`: cannot: for a reason");
    }

    #[test]
    fn call_that_failed_and_was_made_again_is_had_again() {
        let selector = ResourceSelector { kind: "ConfigMap".to_owned(), ..ResourceSelector::default() };
        let requirement = Requirement { step: "one".to_owned(), name: "settings".to_owned(), selector };
        let inputs = Inputs { remembered: vec![requirement], ..inputs() };
        let reason = "no".to_owned();
        let notes = [
            TranscriptEntry::new(EngineInput::Provided(vec![Answer::Resources(Vec::new())])),
            TranscriptEntry::new(EngineInput::Failed { cause: Cause::FunctionCallFailed, reason }),
            TranscriptEntry::new(EngineInput::Answered(RunFunctionResponse::default())),
        ];
        assert_eq!(replay(inputs, notes, |_, _| ()).unwrap().ran[0].calls, 2);
    }

    #[test]
    fn other_words_lead_astray() {
        let answered = || TranscriptEntry::new(EngineInput::Answered(RunFunctionResponse::default()));
        let cases = [
            (
                vec![],
                "the replay differs from the recording at turn 1: step `one` is to be called, but nothing more was recorded",
            ),
            (
                vec![TranscriptEntry::new(EngineInput::Provided(Vec::new()))],
                "the replay differs from the recording at turn 1: step `one` is to be called, but something else was read",
            ),
            (
                vec![answered(), answered()],
                "the replay differs from the recording at turn 2: the pipeline has ended, but a function answered",
            ),
        ];
        for (notes, text) in cases {
            assert_eq!(replay(inputs(), notes, |_, _| ()).unwrap_err().to_string(), text);
        }
    }
}
