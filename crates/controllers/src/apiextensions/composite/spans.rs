//! How a look at a composite resource is seen in a trace and in the log.
//!
//! # Guarantees
//! * Nothing is made, and nothing is remembered, while nobody looks.
//! * Only names, numbers and outcomes are told, never what objects say: that may be secret.

use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::Selected;
use tracing::{Span, debug_span, field};

use super::problem::Problem;
use crate::runtime::queue::Next;

/// A trace of its own for a look at a composite resource.
pub(super) fn begin(live: &Object) -> Span {
    debug_span!(
        parent: None,
        "reconcile",
        otel.name = format!("reconcile {}", meta::kind(live)),
        otel.status_code = field::Empty,
        api_version = meta::api_version(live),
        kind = meta::kind(live),
        namespace = meta::namespace(live),
        name = meta::name(live),
        generation = meta::generation(live),
        composition = field::Empty,
        revision = field::Empty,
        failure = field::Empty,
        outcome = field::Empty,
    )
}

/// A part of the story, of which there may be several rounds.
pub(super) fn phase(name: &'static str, round: usize) -> Span {
    // Whoever follows a story follows its parts.
    if Span::current().is_none() {
        return Span::none();
    }
    debug_span!("phase", otel.name = name, phase = name, round)
}

/// Tell what is followed.
pub(super) fn selected(selected: &Selected) {
    let span = Span::current();
    span.record("composition", selected.composition.as_str());
    span.record("revision", selected.revision.as_deref().unwrap_or_default());
}

/// Tell that it could not be composed, in one of our own words.
pub(super) fn fail(reason: &'static str) {
    let span = Span::current();
    span.record("failure", reason);
    span.record("otel.status_code", "ERROR");
}

/// Tell how it ended.
pub(super) fn end(span: &Span, result: &Result<Next, Problem>) {
    let outcome = match result {
        Ok(Next::Rest) => "settled",
        Ok(_) => "later",
        Err(Problem::Conflict) => "conflict",
        Err(Problem::Gone) => "gone",
        Err(Problem::Early) => "early",
        Err(Problem::Trouble(_)) => "error",
    };
    span.record("outcome", outcome);
    if outcome == "error" {
        span.record("otel.status_code", "ERROR");
    }
}
