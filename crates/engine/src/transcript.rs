//! What was said to the engine in a run: all that is needed to have the same run again, without anybody being asked.

use ferroplane_api::Cause;
use ferroplane_wire::v1::RunFunctionResponse;

use crate::conversation::{Answer, Turn, start};
use crate::inputs::Inputs;
use crate::outcome::Outcome;

/// Something that was said to the engine.
#[derive(Debug, Clone)]
pub enum Said {
    /// What it wanted to see.
    Provided(Vec<Answer>),
    /// What a function answered.
    Answered(RunFunctionResponse),
    /// What a function had answered before, and what held still.
    Recalled(RunFunctionResponse),
    /// Why a function did not answer: what failed, and the error with all its sources.
    Failed { cause: Cause, reason: String },
}

/// Something that was said, and to what.
#[derive(Debug, Clone)]
pub struct Note {
    /// The tag of the request that was answered. Empty if it was no request, or not the first one of its step.
    pub tag: String,
    pub said: Said,
}

impl Note {
    pub fn new(said: Said) -> Self {
        Self { tag: String::new(), said }
    }
}

/// Why a run could not be had again: the engine asks for something else than it did.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the replay took another course at turn {turn}: {asks}, but {recorded}")]
pub struct Astray {
    /// From one.
    pub turn: usize,
    pub asks: String,
    pub recorded: &'static str,
    /// Whether the recording simply ends here: what was said agrees as far as it goes.
    pub is_cut_short: bool,
}

/// Have a run again. `look` is shown every turn, and what is about to be said to it.
pub fn replay(
    inputs: Inputs,
    notes: impl IntoIterator<Item = Note>,
    mut look: impl FnMut(&Turn, &Note),
) -> Result<Outcome, Astray> {
    let mut turn = start(inputs);
    let mut number = 1;
    for note in notes {
        look(&turn, &note);
        turn = say(turn, note.said).map_err(|(asks, recorded)| Astray {
            turn: number,
            asks,
            recorded,
            is_cut_short: false,
        })?;
        number += 1;
    }
    match turn {
        Turn::Done(outcome) => Ok(*outcome),
        turn => Err(Astray {
            turn: number,
            asks: asks(&turn),
            recorded: "nothing more was recorded",
            is_cut_short: true,
        }),
    }
}

fn say(turn: Turn, said: Said) -> Result<Turn, (String, &'static str)> {
    match (turn, said) {
        (Turn::Fetch(fetch), Said::Provided(answers)) if fetch.wants().len() == answers.len() => {
            Ok(fetch.provide(answers))
        }
        (Turn::Call(call), Said::Answered(response)) => Ok(call.answer(response)),
        (Turn::Call(call), Said::Recalled(response)) => Ok(call.accept(response)),
        (Turn::Call(call), Said::Failed { cause, reason }) => Ok(call.fail(cause, reason)),
        (turn, said) => Err((asks(&turn), what(&said))),
    }
}

fn asks(turn: &Turn) -> String {
    match turn {
        Turn::Call(call) => format!("step `{}` is to be called", call.step()),
        Turn::Fetch(fetch) => format!("{} things are to be read", fetch.wants().len()),
        Turn::Done(_) => "there is nothing more to ask".to_owned(),
    }
}

fn what(said: &Said) -> &'static str {
    match said {
        Said::Provided(_) => "something else was read",
        Said::Answered(_) | Said::Recalled(_) => "a function answered",
        Said::Failed { .. } => "a function failed",
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
        let notes = [Note::new(Said::Failed {
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
            Note::new(Said::Provided(vec![Answer::Resources(Vec::new())])),
            Note::new(Said::Failed { cause: Cause::FunctionCallFailed, reason }),
            Note::new(Said::Answered(RunFunctionResponse::default())),
        ];
        assert_eq!(replay(inputs, notes, |_, _| ()).unwrap().ran[0].calls, 2);
    }

    #[test]
    fn other_words_lead_astray() {
        let answered = || Note::new(Said::Answered(RunFunctionResponse::default()));
        let cases = [
            (
                vec![],
                "the replay took another course at turn 1: step `one` is to be called, but nothing more was recorded",
            ),
            (
                vec![Note::new(Said::Provided(Vec::new()))],
                "the replay took another course at turn 1: step `one` is to be called, but something else was read",
            ),
            (
                vec![answered(), answered()],
                "the replay took another course at turn 2: there is nothing more to ask, but a function answered",
            ),
        ];
        for (notes, text) in cases {
            assert_eq!(replay(inputs(), notes, |_, _| ()).unwrap_err().to_string(), text);
        }
    }
}
