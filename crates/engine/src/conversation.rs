//! The questions the engine asks, and where each answer leads.
//!
//! Every turn owns the run: it can be answered once, and only with an answer of its kind.

use std::collections::BTreeMap;
use std::error::Error;

use bytes::Bytes;
use ferroplane_api::Cause;
use ferroplane_wire::v1::{ResourceSelector, RunFunctionRequest, RunFunctionResponse, SchemaSelector};
use ferroplane_wire::{Struct, check};

use crate::external::Permits;
use crate::failure::Failure;
use crate::inputs::Inputs;
use crate::outcome::Outcome;
use crate::pipeline::Step;
use crate::requirements::{Given, Resolution};
use crate::run::Run;

/// How often one step may be called before it has to be content with what it was given.
// Crossplane's `MaxRequirementsIterations` is 5, and the first call comes on top.
pub const MAX_CALLS: u32 = 6;

/// Whose turn it is.
#[derive(Debug)]
pub enum Turn {
    /// Call a function, then [`Call::answer`].
    Call(Box<Call>),
    /// Read from the API, then [`Fetch::provide`].
    Fetch(Fetch),
    /// Nothing more to ask.
    Done(Box<Outcome>),
}

impl Turn {
    /// Whether the answer that led here was taken as the step's last word.
    pub fn has_accepted(&self) -> bool {
        match self {
            Self::Call(call) => call.is_first(),
            Self::Fetch(fetch) => !matches!(fetch.then, Then::Iterate(_)),
            Self::Done(outcome) => outcome.result.is_ok(),
        }
    }

    /// The step that it is about. None once all of them have been called.
    pub fn step(&self) -> Option<&Step> {
        match self {
            Self::Call(call) => Some(call.run.step()),
            Self::Fetch(fetch) if matches!(fetch.then, Then::Plan) => None,
            Self::Fetch(fetch) => Some(fetch.run.step()),
            Self::Done(_) => None,
        }
    }
}

/// Start a pipeline run.
pub fn start(inputs: Inputs) -> Turn {
    match Run::new(inputs) {
        Ok(run) => prepare(Box::new(run)),
        Err(outcome) => Turn::Done(outcome),
    }
}

/// A function has to be called.
#[derive(Debug)]
pub struct Call {
    run: Box<Run>,
    request: RunFunctionRequest,
    given: Given,
}

impl Call {
    /// The name of the step.
    pub fn step(&self) -> &str {
        &self.run.step().name
    }

    /// What to call: the revision that was decided on, or the function if nothing was decided.
    pub fn callee(&self) -> &str {
        let step = self.run.step();
        step.callee.as_ref().map_or(&step.function, |callee| &callee.revision)
    }

    /// The revision whose code runs: what is built in and stands for a package's, or what is called.
    pub fn code(&self) -> &str {
        self.run.step().callee.as_ref().map_or_else(|| self.callee(), |callee| callee.code())
    }

    /// What to say to it.
    pub fn request(&self) -> &RunFunctionRequest {
        &self.request
    }

    /// What the function may do beyond computing.
    pub fn permits(&self) -> &Permits {
        &self.given.permits
    }

    /// Whether the step has not been called before in this run.
    pub fn is_first(&self) -> bool {
        self.given.calls == 0 && self.given.discarded == 0
    }

    /// Whether the step was called before in this run, and what came of it was thrown away: this is its first call that counts.
    pub fn has_started_over(&self) -> bool {
        self.given.calls == 0 && self.given.discarded > 0
    }

    /// What it said the last time it was asked the same, when that was all it had to say.
    pub fn accept(self: Box<Self>, response: RunFunctionResponse) -> Turn {
        if let Err(source) = check(&response) {
            let step = self.step().to_owned();
            return self.run.fail(Failure::BadResponse { step, source });
        }
        // Zero calls, because none was made: metrics and recordings count real ones.
        accept(self.run, response, 0)
    }

    /// What it said.
    pub fn answer(mut self: Box<Self>, response: RunFunctionResponse) -> Turn {
        if let Err(source) = check(&response) {
            let step = self.step().to_owned();
            return self.run.fail(Failure::BadResponse { step, source });
        }
        // Before anything else, a fatal result included: it may be due to nothing but the answer to an older question.
        if self.is_first() && self.given.is_outdated(&response) {
            return self.start_over();
        }
        self.given.calls += 1;
        match self.given.resolve(&self.run, &response) {
            Resolution::Settled => accept(self.run, response, self.given.called()),
            Resolution::Denied(failure) => self.run.fail(failure),
            Resolution::Fetch(wants) if wants.is_empty() => {
                iterate(self.run, self.request, self.given, response, Vec::new())
            }
            Resolution::Fetch(wants) => Turn::Fetch(Fetch {
                wants,
                run: self.run,
                then: Then::Iterate(Box::new(Pending { request: self.request, given: self.given, response })),
            }),
        }
    }

    /// Ask the same again, without what the step asked for in the last run. That happens once at most in a run: what is asked
    /// for from now on is answered in this one.
    fn start_over(mut self: Box<Self>) -> Turn {
        self.given.start_over();
        self.request = self.run.request(&self.given);
        Turn::Call(self)
    }

    /// It could not be called, did not answer, or returned an error.
    pub fn fail(self: Box<Self>, cause: Cause, source: impl Into<Box<dyn Error + Send + Sync>>) -> Turn {
        // What a function that returned an error would ask today is not known, and it may have failed because of nothing but the
        // answer to an older question. One that was not reached has seen no answer.
        if cause == Cause::FunctionCallFailed && self.is_first() && self.given.has_remembered() {
            return self.start_over();
        }
        let step = self.step().to_owned();
        self.run.fail(Failure::Call { step, cause, source: source.into() })
    }
}

/// Something has to be read.
#[derive(Debug)]
pub struct Fetch {
    run: Box<Run>,
    wants: Vec<Want>,
    then: Then,
}

/// One thing to read.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// Objects, sorted by namespace and name.
    Resources(ResourceSelector),
    /// The same, of a kind that has to be cluster scoped. If it is not, [`Answer::Scope`] is the answer, and nothing is read.
    ClusterResources(ResourceSelector),
    /// The OpenAPI schema of a kind.
    Schema(SchemaSelector),
    /// The data of a Secret.
    Secret { namespace: String, name: String },
    /// Whether objects of a kind live in namespaces.
    Scope { api_version: String, kind: String },
}

/// What was read.
#[derive(Debug, Clone)]
pub enum Answer {
    /// None is an answer too.
    Resources(Vec<Struct>),
    /// None if there is no such kind.
    Schema(Option<Struct>),
    /// None if there is no such Secret.
    Secret(Option<BTreeMap<String, Bytes>>),
    Scope {
        is_namespaced: bool,
    },
    /// It could not be read.
    Failed(String),
}

#[derive(Debug)]
enum Then {
    Prepare,
    Iterate(Box<Pending>),
    Plan,
}

/// A call that was answered with a wish.
#[derive(Debug)]
struct Pending {
    request: RunFunctionRequest,
    given: Given,
    response: RunFunctionResponse,
}

impl Fetch {
    /// What to read, in the order in which [`Fetch::provide`] expects it.
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// What was read: one answer for each want. A missing one counts as failed.
    pub fn provide(self, mut answers: Vec<Answer>) -> Turn {
        // Too many are cut off, too: answers are matched to wants by position.
        answers.resize_with(self.wants.len(), || Answer::Failed("there was no answer".to_owned()));
        match self.then {
            Then::Prepare => call(self.run, answers),
            Then::Iterate(pending) => {
                let Pending { request, given, response } = *pending;
                iterate(self.run, request, given, response, answers)
            }
            Then::Plan => self.run.finish(&self.wants, &answers),
        }
    }
}

/// Before the first call of a step: fetch what it is known to need.
fn prepare(run: Box<Run>) -> Turn {
    let wants = match Given::wants_up_front(&run) {
        Ok(wants) => wants,
        Err(failure) => return run.fail(failure),
    };
    if wants.is_empty() {
        return call(run, Vec::new());
    }
    Turn::Fetch(Fetch { run, wants, then: Then::Prepare })
}

/// The first call of a step.
fn call(run: Box<Run>, answers: Vec<Answer>) -> Turn {
    match Given::up_front(&run, answers) {
        Ok(given) => Turn::Call(Box::new(Call { request: run.request(&given), run, given })),
        Err(failure) => run.fail(failure),
    }
}

/// The step asked for something: call it again, unless it had it all along.
fn iterate(
    run: Box<Run>,
    mut request: RunFunctionRequest,
    mut given: Given,
    response: RunFunctionResponse,
    answers: Vec<Answer>,
) -> Turn {
    let step = run.step().name.clone();
    let next = match given.overlay(&run, &response, answers) {
        Ok(next) => next,
        Err(failure) => return run.fail(failure),
    };
    // After the first call only: a function that asks for what it was given up front has seen it. Later ones
    // compare with what they asked for before.
    if given.calls == 1 && next.is_in(&request) {
        return accept(run, response, given.called());
    }
    if given.calls == MAX_CALLS {
        return run.fail(Failure::NeverSettles { step, calls: MAX_CALLS });
    }
    next.put_into(&mut request);
    // The context that a step leaves is what it finds when it is called again, as in Crossplane; desired
    // state is not passed on between the calls of one step.
    request.context = response.context;
    given.previous = response.requirements;
    Turn::Call(Box::new(Call { run, request, given }))
}

/// The step has all it needs: take its answer and go on.
fn accept(mut run: Box<Run>, response: RunFunctionResponse, calls: u32) -> Turn {
    if let Err(failure) = run.absorb(response, calls) {
        return run.fail(failure);
    }
    if run.next_step() {
        return prepare(run);
    }
    let wants = run.scopes_to_learn();
    if wants.is_empty() {
        return run.finish(&[], &[]);
    }
    Turn::Fetch(Fetch { run, wants, then: Then::Plan })
}
