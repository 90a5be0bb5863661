//! The loop that answers the engine.

use std::future::Future;

use ferroplane_engine::{Answer, Inputs, Outcome, Turn, Want, start};

use crate::directory::Directory;

/// Reads what functions want to see.
pub trait Resources {
    /// Read one thing. What cannot be read is an answer too.
    fn fetch(&self, want: &Want) -> impl Future<Output = Answer> + Send;
}

/// Run a pipeline: ask the functions, read what they want to see, until all is decided.
pub async fn drive(inputs: Inputs, functions: &Directory, resources: &impl Resources) -> Outcome {
    let mut turn = start(inputs);
    loop {
        turn = match turn {
            Turn::Call(call) => match functions.call(call.callee(), call.request()).await {
                Ok(response) => call.answer(response),
                Err(error) => call.fail(error),
            },
            Turn::Fetch(fetch) => {
                let mut answers = Vec::with_capacity(fetch.wants().len());
                for want in fetch.wants() {
                    answers.push(resources.fetch(want).await);
                }
                fetch.provide(answers)
            }
            Turn::Done(outcome) => return *outcome,
        }
    }
}
