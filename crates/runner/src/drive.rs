//! The loop that answers the engine.

use std::future::Future;

use ferroplane_engine::{Answer, Call, Fetch, Inputs, Outcome, Turn, Want, start};

use tracing::Instrument as _;

use crate::directory::{Directory, tag_of};
use crate::steps::{Steps, note, note_recalled};

/// Reads what functions want to see.
pub trait Resources {
    /// Read one thing. What cannot be read is an answer too.
    fn fetch(&self, want: &Want) -> impl Future<Output = Answer> + Send;
}

/// Ask a function, unless it has answered the same question before.
async fn ask(call: Box<Call>, functions: &Directory) -> Turn {
    if !call.is_first() {
        let result = functions.call(call.callee(), call.request()).await;
        note(&result);
        return match result {
            Ok(response) => call.answer(response),
            Err(error) => call.fail(error),
        };
    }
    if let Some(response) = functions.recall(call.callee(), call.request()) {
        note_recalled();
        return call.accept(response);
    }
    let result = functions.call(call.callee(), call.request()).await;
    note(&result);
    let response = match result {
        Ok(response) => response,
        Err(error) => return call.fail(error),
    };
    let (callee, tag) = (call.callee().to_owned(), tag_of(call.request()).to_owned());
    let turn = call.answer(response.clone());
    // What it still wants to see may change without the request changing; and a failure may be over the next time.
    if turn.has_accepted() {
        functions.remember(&callee, &tag, &response);
    }
    turn
}

/// Run a pipeline: ask the functions, read what they want to see, until all is decided.
pub async fn drive(inputs: Inputs, functions: &Directory, resources: &impl Resources) -> Outcome {
    let mut turn = start(inputs);
    let mut steps = Steps::default();
    loop {
        let span = steps.follow(&turn, functions);
        turn = match turn {
            Turn::Call(call) => ask(call, functions).instrument(span).await,
            Turn::Fetch(fetch) => read(fetch, resources).instrument(span).await,
            Turn::Done(outcome) => return *outcome,
        }
    }
}

/// Read what is wanted, in the order in which it is.
async fn read(fetch: Fetch, resources: &impl Resources) -> Turn {
    let mut answers = Vec::with_capacity(fetch.wants().len());
    for want in fetch.wants() {
        answers.push(resources.fetch(want).await);
    }
    fetch.provide(answers)
}
