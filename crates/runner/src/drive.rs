//! The loop that answers the engine.

use std::future::Future;

use ferroplane_engine::{
    Answer, Call, EngineInput, Fetch, Inputs, Outcome, TranscriptEntry, Turn, Want, chain, start,
};
use tracing::Instrument as _;

use crate::directory::{Directory, tag_of};
use crate::external::CallContext;
use crate::long_calls::LongCallSignal;
use crate::steps::{Steps, note, note_recalled};

/// Reads what functions want to see.
pub trait Resources {
    /// Read one thing. What cannot be read is an answer too.
    fn fetch(&self, want: &Want) -> impl Future<Output = Answer> + Send;
}

/// Records the inputs of the engine, so that the run can be replayed.
struct Notes<'a>(Option<&'a mut Vec<TranscriptEntry>>);

impl Notes<'_> {
    fn call(&mut self, call: &Call, input: impl FnOnce() -> EngineInput) {
        if let Some(notes) = &mut self.0 {
            // Later requests of a step carry the tag of the first, which no longer describes them.
            let tag = if call.is_first() { tag_of(call.request()) } else { "" };
            notes.push(TranscriptEntry { tag: tag.to_owned(), input: input() });
        }
    }

    fn provide(&mut self, answers: &[Answer]) {
        if let Some(notes) = &mut self.0 {
            notes.push(TranscriptEntry::new(EngineInput::Provided(answers.to_vec())));
        }
    }
}

/// Ask a function, unless it has answered the same question before.
async fn ask(
    call: Box<Call>,
    functions: &Directory,
    notes: &mut Notes<'_>,
    long_calls: Option<&LongCallSignal>,
) -> Turn {
    // The tag covers neither what the step asked for on the way, nor an operation.
    let sees_operation = call.operation().is_some() && functions.sees_operations(call.callee());
    let is_covered_by_tag = call.is_first() && !sees_operation;
    let tag = is_covered_by_tag
        .then(|| functions.tag_of_answer(call.callee(), call.request(), call.is_of_first_step()));
    if let Some(tag) = &tag
        && let Some(response) = functions.recall(call.callee(), tag)
    {
        note_recalled();
        notes.call(&call, || EngineInput::Recalled(response.clone()));
        return call.accept(response);
    }
    let context = CallContext {
        step: call.step().to_owned(),
        permits: call.permits().clone(),
        long_calls: long_calls.cloned(),
        subject: call.operation().cloned(),
        is_first_step: call.is_of_first_step(),
    };
    let result = functions.call_for(call.callee(), call.request(), &context).await;
    note(&result);
    let response = match result {
        Ok(response) => response,
        Err(error) => {
            let cause = error.cause();
            notes.call(&call, || EngineInput::Failed { cause, reason: chain(&error) });
            return call.fail(cause, error);
        }
    };
    notes.call(&call, || EngineInput::Answered(response.clone()));
    let Some(tag) = tag else { return call.answer(response) };
    let callee = call.callee().to_owned();
    let turn = call.answer(response.clone());
    // What it still wants to see may change without the request changing; and a failure may be over the next time.
    if turn.has_accepted() {
        functions.remember(&callee, &tag, &response);
    }
    turn
}

/// Run a pipeline: ask the functions, read what they want to see, until all is decided.
pub async fn drive(inputs: Inputs, functions: &Directory, resources: &impl Resources) -> Outcome {
    drive_noting(inputs, functions, resources, None, None).await
}

/// The same, and record all inputs of the engine, also of a run that is aborted; and signal calls that take long.
pub async fn drive_noting(
    inputs: Inputs,
    functions: &Directory,
    resources: &impl Resources,
    notes: Option<&mut Vec<TranscriptEntry>>,
    long_calls: Option<&LongCallSignal>,
) -> Outcome {
    let mut notes = Notes(notes);
    let mut turn = start(inputs);
    let mut steps = Steps::default();
    loop {
        let span = steps.follow(&turn, functions);
        turn = match turn {
            Turn::Call(call) => ask(call, functions, &mut notes, long_calls).instrument(span).await,
            Turn::Fetch(fetch) => read(fetch, resources, &mut notes).instrument(span).await,
            Turn::Done(outcome) => return *outcome,
        }
    }
}

/// Read what is wanted, in the order in which it is.
async fn read(fetch: Fetch, resources: &impl Resources, notes: &mut Notes<'_>) -> Turn {
    let mut answers = Vec::with_capacity(fetch.wants().len());
    // One after the other: most answers come from caches, and replays need them in order.
    for want in fetch.wants() {
        answers.push(resources.fetch(want).await);
    }
    notes.provide(&answers);
    fetch.provide(answers)
}
