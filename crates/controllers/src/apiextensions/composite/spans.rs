//! Traces and logs a reconcile of a composite resource.
//!
//! # Guarantees
//! * Without a subscriber nothing is allocated.
//! * Only names, numbers and outcomes are recorded, never fields of objects: they may be secret.

use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::Selected;
use tracing::{Span, debug_span, field};

use super::problem::Problem;
use crate::runtime::queue::Next;

/// Start a trace for a reconcile.
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

/// A span for a phase, in one of the rounds.
pub(super) fn phase(name: &'static str, round: usize) -> Span {
    // Without a span of the reconcile there is no subscriber for its phases either.
    if Span::current().is_none() {
        return Span::none();
    }
    debug_span!("phase", otel.name = name, phase = name, round)
}

/// Record the selection.
pub(super) fn selected(selected: &Selected) {
    let span = Span::current();
    span.record("composition", selected.composition.as_str());
    span.record("revision", selected.revision.as_deref().unwrap_or_default());
}

/// Record a failure with its reason.
pub(super) fn fail(reason: &'static str) {
    let span = Span::current();
    span.record("failure", reason);
    span.record("otel.status_code", "ERROR");
}

/// Record how the reconcile ended.
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
