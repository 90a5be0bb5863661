//! `function-go-templating`: composes what Go templates print.
//!
//! The template sees the request as JSON writes it, and prints YAML documents. A document is a composed resource, named by an
//! annotation; or the composite resource, whose status it sets; or says something about it in a kind of the function's own.
//!
//! Nothing here reads files, the environment, the network or a clock, and what a template may cost is bounded.

mod attempt;
mod check;
mod condition;
mod data;
mod documents;
mod files;
mod helpers;
mod input;
mod json;
mod limits;
mod parsed;
mod problem;
mod release;
mod source;
mod trace;
mod yaml;

use ferroplane_template::{ExecuteError, Heap, Trace, Value};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::effort::{Effort, TakesLong};
use crate::randomness::Randomness;
use crate::response;
use attempt::Attempt;
use documents::Fault;
use input::{Parsed, Prepared};
use problem::Problem;
use release::Release;
use trace::Printed;

pub use check::{CheckedTemplates, TemplateMistake, check_templates};
pub use source::{TemplateLine, TemplatePart};
pub use trace::{TracedDocument, TracedRun, trace_templates};

type Answer = Result<RunFunctionResponse, TakesLong>;

/// As upstream from v0.12.0 to v0.12.2.
pub(crate) fn run(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_12, request, effort)
}

/// As upstream from v0.11.0 to v0.11.9.
pub(crate) fn run_v0_11(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_11, request, effort)
}

/// As upstream from v0.9.0 to v0.10.1.
pub(crate) fn run_v0_9(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_9, request, effort)
}

/// As upstream in v0.8.0.
pub(crate) fn run_v0_8(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_8, request, effort)
}

/// As upstream in v0.7.0.
pub(crate) fn run_v0_7(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_7, request, effort)
}

/// As upstream in v0.6.0.
pub(crate) fn run_v0_6(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_6, request, effort)
}

/// As upstream in v0.5.0.
pub(crate) fn run_v0_5(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_5, request, effort)
}

/// As upstream in v0.4.1.
pub(crate) fn run_v0_4(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_4, request, effort)
}

fn run_as(release: Release, request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_and_trace(release, request, effort, None)
}

/// Answers a request. With a trace, it also returns which lines of the templates produced the response.
fn run_and_trace(
    release: Release,
    request: &RunFunctionRequest,
    effort: Effort<'_>,
    mut traced: Option<&mut TracedRun>,
) -> Answer {
    let attempt = Attempt::new(effort);
    let mut response = response::to(request);
    let kept = attempt.read(request, release)?;
    let composed = match &kept.read {
        Ok(prepared) => {
            let call = Call { request, prepared, attempt: &attempt };
            compose(&call, &mut response, traced.as_deref_mut())
        }
        Err(problem) => Err(Problem::from(problem.clone())),
    };
    if attempt.gave_up() {
        // Whatever came of the attempt is dropped: the full call does all of it again. The next brief one
        // need not try.
        kept.note_that_it_takes_long();
        return Err(TakesLong);
    }
    if let Err(Problem { message, at }) = composed {
        response = response::fatal(response, message);
        if let Some(traced) = traced {
            traced.failed_at = at;
        }
    }
    if !release.targets_results() {
        response.results.iter_mut().for_each(|result| result.target = None);
    }
    Ok(response)
}

/// A request, and how it is answered.
struct Call<'c> {
    request: &'c RunFunctionRequest,
    prepared: &'c Prepared,
    attempt: &'c Attempt<'c>,
}

fn compose(
    call: &Call<'_>,
    response: &mut RunFunctionResponse,
    traced: Option<&mut TracedRun>,
) -> Result<(), Problem> {
    let Call { request, prepared, attempt } = *call;
    let release = prepared.release;
    prepared.with_templates(request, |parsed, request| {
        let call = Call { request: &request, prepared, attempt };
        let output = if traced.is_some() { trace(parsed, &call)? } else { execute(parsed, &call)? };
        let checked = attempt.check_output(output.text(), &prepared.limits).map_err(Fault::from);
        let read = checked.and_then(|()| documents::read(output.text(), release));
        if let (Some(traced), Output::Traced(printed)) = (traced, &output) {
            traced.has_output = true;
            traced.documents =
                read.as_ref().map(|documents| printed.documents(documents)).unwrap_or_default();
            traced.lost_separators = printed.lost_separators();
        }
        let applied = read.and_then(|documents| documents::apply(documents, &request, release, response));
        applied.map_err(|Fault { message, line }| {
            let at = line.and_then(|line| match &output {
                Output::Traced(printed) => printed.at(line),
                // Only what fails is worth executing again, to find out which line of the templates printed it.
                Output::Plain(_) => trace(parsed, &call).ok()?.printed()?.at(line),
            });
            Problem::in_document(message, at)
        })
    })
}

/// What templates printed.
enum Output<'p> {
    Plain(String),
    /// The same, and which lines of the templates printed what.
    Traced(Printed<'p>),
}

impl<'p> Output<'p> {
    fn text(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Traced(printed) => printed.text(),
        }
    }

    fn printed(self) -> Option<Printed<'p>> {
        match self {
            Self::Plain(_) => None,
            Self::Traced(printed) => Some(printed),
        }
    }
}

/// What the templates print for this request.
fn execute<'p>(parsed: &'p Parsed, call: &Call<'_>) -> Result<Output<'p>, Problem> {
    with_data(call, |data, heap, host| {
        let budget = call.attempt.budget(&call.prepared.limits);
        let output = parsed.templates.execute(data, heap, host, budget);
        let output = output.map_err(|error| failed(parsed, call, &error))?;
        Ok(Output::Plain(into_text(output).unwrap_or_else(|lossy| lossy)))
    })
}

/// The same, and which lines of the templates print what.
fn trace<'p>(parsed: &'p Parsed, call: &Call<'_>) -> Result<Output<'p>, Problem> {
    with_data(call, |data, heap, host| {
        let budget = call.attempt.budget(&call.prepared.limits);
        let output = parsed.templates.execute_traced(data, heap, host, budget);
        let (output, trace) = output.map_err(|error| failed(parsed, call, &error))?;
        // Positions are in bytes, so that bytes that are no text would mislead: then nothing is known.
        let printed = match into_text(output) {
            Ok(text) => Printed::new(parsed, text, trace),
            Err(lossy) => Printed::new(parsed, lossy, Trace::default()),
        };
        Ok(Output::Traced(printed))
    })
}

/// The bytes as text. As an error, with replacement characters if they are none.
fn into_text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn failed(parsed: &Parsed, call: &Call<'_>, error: &ExecuteError) -> Problem {
    let message = call.attempt.explain(error, &call.prepared.limits);
    Problem::in_template(message, &parsed.lines, error.line)
}

/// Calls back with the data of the templates, and with what their functions need besides.
fn with_data<T>(
    call: &Call<'_>,
    go_on: impl FnOnce(Value, &Heap, &mut helpers::Host<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let Call { request, prepared, attempt } = *call;
    let (release, limits) = (prepared.release, &prepared.limits);
    let heap = Heap::new();
    let data = data::of(&heap, request, release);
    let data = data.map_err(|error| format!("cannot convert request to map: {error}"))?;
    let input = prepared.seed.as_ref().or(request.input.as_ref());
    let randomness = Randomness::of(request, input);
    let mut host = helpers::Host { attempt, limits, state: helpers::State::new(release, randomness) };
    go_on(data, &heap, &mut host)
}

#[cfg(test)]
mod tests;
