//! Replays a run, and calls its built-in functions again.

use ferroplane_engine::{Answer, Cause, EngineInput, Outcome, Turn, Want, chain, replay as repeat, start};
use ferroplane_functions::Library;
use ferroplane_recorder::{RecordedRun, Replayed, outcome_snapshot};
use ferroplane_runner::Directory;
use ferroplane_wire::v1::RunFunctionResponse;

/// What was recorded, by what it was about.
#[derive(Default)]
struct Memory {
    read: Vec<(Want, Answer)>,
    /// What functions that are not asked again said, in order.
    said: Vec<(String, EngineInput)>,
}

/// Have a run again, and ask the functions that are built in.
pub fn replay(take: &RecordedRun, library: &Library) -> std::io::Result<Replayed> {
    let functions = Directory::reproducible(library);
    let mut memory = Memory::default();
    // Only to learn what each answer was about; whether it has the same result is seen below.
    let _ = repeat(take.inputs.clone(), take.notes.iter().cloned(), |turn, note| match (turn, &note.input) {
        (Turn::Fetch(fetch), EngineInput::Provided(answers)) => {
            memory.read.extend(fetch.wants().iter().cloned().zip(answers.iter().cloned()));
        }
        (Turn::Call(call), said) => memory.said.push((call.step().to_owned(), said.clone())),
        _ => {}
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(take, &functions, memory));
    let outcome = outcome_snapshot(&outcome);
    let is_same = outcome == take.outcome;
    // Requests are not compared: those to functions that run again depend on what the others answer now.
    Ok(Replayed { outcome, is_same, compared: 0, unlike: Vec::new(), astray: None })
}

async fn run(take: &RecordedRun, functions: &Directory, mut memory: Memory) -> Outcome {
    let mut turn = start(take.inputs.clone());
    loop {
        turn = match turn {
            Turn::Fetch(fetch) => {
                let answers = fetch.wants().iter().map(|want| memory.read(want)).collect();
                fetch.provide(answers)
            }
            Turn::Call(call) if functions.get(call.code()).is_some() => {
                match functions.call(call.code(), call.request()).await {
                    Ok(response) => call.answer(response),
                    Err(error) => call.fail(error.cause(), chain(&error)),
                }
            }
            Turn::Call(call) => match memory.said(call.step()) {
                EngineInput::Answered(response) => call.answer(response),
                EngineInput::Recalled(response) => call.accept(response),
                EngineInput::Failed { cause, reason } => call.fail(cause, reason),
                // Never recorded of a call. An empty answer shows as a difference, which is better than a panic.
                EngineInput::Provided(_) => call.answer(RunFunctionResponse::default()),
            },
            Turn::Done(outcome) => return *outcome,
        }
    }
}

impl Memory {
    fn read(&self, want: &Want) -> Answer {
        // By what was asked for, not in order: a function that answers otherwise now may ask in another order.
        let found = self.read.iter().find(|(known, _)| known == want);
        let missing = || Answer::Failed("it is not in the recording".to_owned());
        found.map_or_else(missing, |(_, answer)| answer.clone())
    }

    fn said(&mut self, step: &str) -> EngineInput {
        // A step can be called several times in a run, so that each answer is used up.
        let Some(place) = self.said.iter().position(|(of, _)| of == step) else {
            let reason = "it is not built in, and the recording has no further response of it".to_owned();
            return EngineInput::Failed { cause: Cause::FunctionCallFailed, reason };
        };
        self.said.remove(place).1
    }
}
