//! The turns of a run: what the engine asks for, and how it continues with each answer.
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
use crate::inputs::{Inputs, Subject};
use crate::outcome::Outcome;
use crate::pipeline::Step;
use crate::requirements::{Resolution, StepInputs};
use crate::run::Run;

/// How often one step may be called before it has to be content with what it was given.
// Crossplane's `MaxRequirementsIterations` is 5, and the first call comes on top.
pub const MAX_CALLS: u32 = 6;

/// The next step of the conversation.
#[derive(Debug)]
pub enum Turn {
    /// Call a function, then [`Call::answer`].
    Call(Box<Call>),
    /// Read from the API, then [`Fetch::provide`].
    Fetch(Fetch),
    /// The run has ended.
    Done(Box<Outcome>),
}

impl Turn {
    /// Whether the step's last answer was accepted as final.
    pub fn has_accepted(&self) -> bool {
        match self {
            Self::Call(call) => call.is_first(),
            Self::Fetch(fetch) => !matches!(fetch.then, Then::Iterate(_)),
            Self::Done(outcome) => outcome.result.is_ok(),
        }
    }

    /// The step of this turn. None after the last step.
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
    given: StepInputs,
}

impl Call {
    /// The name of the step.
    pub fn step(&self) -> &str {
        &self.run.step().name
    }

    /// The revision to call, or the function if no revision was resolved.
    pub fn callee(&self) -> &str {
        let step = self.run.step();
        step.callee.as_ref().map_or(&step.function, |callee| &callee.revision)
    }

    /// The revision whose code runs: the built-in one that replaces a package's, or the called one.
    pub fn code(&self) -> &str {
        self.run.step().callee.as_ref().map_or_else(|| self.callee(), |callee| callee.code())
    }

    /// The request to send.
    pub fn request(&self) -> &RunFunctionRequest {
        &self.request
    }

    /// The operation that the pipeline runs for, if it is one. Its functions observe nothing, so that the request does not have it.
    pub fn operation(&self) -> Option<&Struct> {
        match &self.run.inputs.subject {
            Subject::Operation { object } => Some(object),
            Subject::Composite(_) => None,
        }
    }

    /// What the function may do beyond computing.
    pub fn permits(&self) -> &Permits {
        &self.given.permits
    }

    /// Whether the step is the first one of the pipeline: no step before it can have dropped a resource.
    pub fn is_of_first_step(&self) -> bool {
        self.run.is_at_first_step()
    }

    /// Whether this is the step's first call in this run.
    pub fn is_first(&self) -> bool {
        self.given.calls == 0 && !self.given.has_started_over
    }

    /// Whether earlier calls of the step in this run were discarded: this is the first call that counts.
    pub fn has_started_over(&self) -> bool {
        self.given.calls == 0 && self.given.has_started_over
    }

    /// Use a cached response to the same request, which was final then.
    pub fn accept(self: Box<Self>, response: RunFunctionResponse) -> Turn {
        // The tag covers what was found, not what was asked: two questions can have the same answer, and only one of them is today's.
        if self.is_outdated(&response) {
            return self.start_over(0);
        }
        if let Err(source) = check(&response) {
            let step = self.step().to_owned();
            return self.run.fail(Failure::BadResponse { step, source });
        }
        // Zero calls, because none was made: metrics and recordings count real ones.
        accept(self.run, response, 0)
    }

    /// Continue with the response of the function.
    pub fn answer(mut self: Box<Self>, response: RunFunctionResponse) -> Turn {
        // Before anything else: a fatal result, and a response that cannot be used, may be due to nothing but the answer to an
        // older question.
        if self.is_outdated(&response) {
            return self.start_over(1);
        }
        if let Err(source) = check(&response) {
            let step = self.step().to_owned();
            return self.run.fail(Failure::BadResponse { step, source });
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

    /// Whether the step was given the answer to an outdated requirement.
    fn is_outdated(&self, response: &RunFunctionResponse) -> bool {
        self.is_first() && self.given.is_outdated(response)
    }

    /// Call the step again without the requirements of the last run, after so many discarded calls. This happens at most once in a run:
    /// requirements from now on are resolved in this run.
    fn start_over(mut self: Box<Self>, discarded: u32) -> Turn {
        self.given.start_over(discarded);
        self.request = self.run.request(&self.given);
        Turn::Call(self)
    }

    /// The function could not be called, did not respond, or returned an error.
    pub fn fail(self: Box<Self>, cause: Cause, source: impl Into<Box<dyn Error + Send + Sync>>) -> Turn {
        // The requirements of a function that failed are unknown.
        if may_be_misled(cause) && self.is_first() && self.given.has_remembered() {
            return self.start_over(1);
        }
        let step = self.step().to_owned();
        self.run.fail(Failure::Call { step, cause, source: source.into() })
    }
}

/// Whether a call may have failed only because of the answer to an outdated requirement. A function that was not reached has seen none.
/// One that did not respond in time may have, but a second call would take as long again: the next run calls it without.
fn may_be_misled(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::FunctionCallFailed
            | Cause::FunctionExited
            | Cause::FunctionConnectionLost
            | Cause::FunctionRequestTooLarge
            | Cause::FunctionResponseTooLarge
            | Cause::FunctionResponseInvalid
    )
}

/// Objects have to be read.
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
    /// Objects of a kind that has to be cluster-scoped. If it is not, the answer is [`Answer::Scope`], and nothing is read.
    ClusterResources(ResourceSelector),
    /// The OpenAPI schema of a kind.
    Schema(SchemaSelector),
    /// The data of a Secret.
    Secret { namespace: String, name: String },
    /// Whether a kind is namespaced.
    Scope { api_version: String, kind: String },
}

/// What was read.
#[derive(Debug, Clone)]
pub enum Answer {
    /// May be empty.
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

/// A call whose response has unmet requirements.
#[derive(Debug)]
struct Pending {
    request: RunFunctionRequest,
    given: StepInputs,
    response: RunFunctionResponse,
}

impl Fetch {
    /// What to read, in the order in which [`Fetch::provide`] expects it.
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// Continue with the answers, one for each want. A missing one counts as failed.
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

/// Before the first call of a step: fetch what it is known to require.
fn prepare(run: Box<Run>) -> Turn {
    let wants = match StepInputs::wants_up_front(&run) {
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
    match StepInputs::up_front(&run, answers) {
        Ok(given) => Turn::Call(Box::new(Call { request: run.request(&given), run, given })),
        Err(failure) => run.fail(failure),
    }
}

/// The step has requirements: call it again, unless it was given all of them already.
fn iterate(
    run: Box<Run>,
    mut request: RunFunctionRequest,
    mut given: StepInputs,
    response: RunFunctionResponse,
    answers: Vec<Answer>,
) -> Turn {
    let step = run.step().name.clone();
    let next = match given.overlay(&run, &response, answers) {
        Ok(next) => next,
        Err(failure) => return run.fail(failure),
    };
    // After the first call only: a function that requires what it was given up front has seen it. Later calls are
    // compared with the call before.
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

/// The requirements of the step are met: accept its response and continue.
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
