//! How a run of a pipeline is seen in a trace: a span for each step, from the first thing it needs to its last answer.
//!
//! Spans say what was called and how it ended, never what was said: that may be secret.

use ferroplane_engine::{Step, Turn};
use ferroplane_wire::v1::RunFunctionResponse;
use tracing::{Span, debug_span, field};

use crate::directory::Directory;
use crate::error::CallError;
use crate::observer::verdict;

/// The step that a run has come to.
#[derive(Debug, Default)]
pub(crate) struct Steps(Option<(String, Span)>);

impl Steps {
    /// The span of the step whose turn it is. Another one than before ends that of the one before.
    pub(crate) fn follow(&mut self, turn: &Turn, functions: &Directory) -> Span {
        let Some(step) = turn.step() else {
            self.0 = None;
            return Span::none();
        };
        if let Some((name, span)) = &self.0
            && *name == step.name
        {
            return span.clone();
        }
        let span = span(step, functions);
        // There is no listener: nothing is kept.
        self.0 = (!span.is_disabled()).then(|| (step.name.clone(), span.clone()));
        span
    }
}

fn span(step: &Step, functions: &Directory) -> Span {
    let callee = step.callee.as_ref();
    let revision = callee.map_or(step.function.as_str(), |callee| &callee.revision);
    debug_span!(
        "step",
        otel.name = format!("step {}", step.name),
        otel.status_code = field::Empty,
        step = step.name,
        function = step.function,
        function_revision = revision,
        version = callee.and_then(|callee| callee.version.as_ref()).map(field::display),
        runner = functions.get(revision).map_or("none", |runner| runner.kind()),
        cached = field::Empty,
        result = field::Empty,
        code = field::Empty,
    )
}

/// Note in a trace that a step was not called, because what it said before still holds.
pub(crate) fn note_recalled() {
    let span = Span::current();
    span.record("cached", true);
    span.record("result", "Normal");
}

/// Note in a trace how a call ended.
pub(crate) fn note(result: &Result<RunFunctionResponse, CallError>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    let (code, severity) = verdict(result);
    span.record("code", code);
    span.record("result", if result.is_ok() { severity } else { "Error" });
    if result.is_err() || severity == "Fatal" {
        span.record("otel.status_code", "ERROR");
    }
}
