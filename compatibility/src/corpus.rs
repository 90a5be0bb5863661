//! The requests for each function, and the differences from its original that are on purpose.

mod auto_ready;
mod environment_configs;
mod extra_resources;
mod go_templating;
mod patch_and_transform;
mod selection;
mod sequencer;
mod status_transformer;
mod tag_manager;

use serde_json::Value;

use crate::dice::Dice;

/// The cases of one function.
pub(crate) struct Corpus {
    /// Its name, ours and the original's.
    pub(crate) function: &'static str,
    /// A request, as protojson of `RunFunctionRequest`. The same dice, the same request.
    pub(crate) generate: fn(&mut Dice) -> Value,
    /// Changes a request for a version of the original that does not know all of what can be asked today.
    pub(crate) adapt: fn(version: &str, &mut Dice, &mut Value),
    /// Whether this version of the original asks for objects, and gets them, in the field that the protocol had for it
    /// before.
    pub(crate) asks_formerly: fn(version: &str) -> bool,
    /// The files that the original reads itself, as the required resources that bring them to ours: their name and value.
    pub(crate) files: fn(&Value) -> Option<(String, Value)>,
    /// Requests that show each documented feature, with what they show.
    pub(crate) by_hand: fn() -> Vec<(&'static str, Value)>,
    /// Removes from our answer what its messages have in addition to those of the original. Such a case counts as the same.
    pub(crate) without_additions: fn(&mut Value),
    /// Why these two answers (protojson of `RunFunctionResponse`, or `null` if the call failed) differ on
    /// purpose. Nothing if they should not. Must be narrow: it has to recognise the one difference it names.
    pub(crate) deliberate: fn(&Difference<'_>) -> Option<&'static str>,
}

/// What the names of cases begin with whose answers are recorded.
pub(crate) const TEMPLATE: &str = "template ";

/// Why answers to an invalid input differ, for all functions.
const INVALID_INPUT: &str = "an invalid input is reported with the path of its field and without types of Go";

/// Why connection details of runs that failed differ, for all functions.
const FATAL_RESULT: &str =
    "a fatal result adds no connection details; the original keeps those that it added before it failed";

/// Two answers that differ.
pub(crate) struct Difference<'d> {
    /// Which version of the original.
    pub(crate) version: &'d str,
    pub(crate) request: &'d Value,
    pub(crate) theirs: &'d Value,
    pub(crate) ours: &'d Value,
}

/// The minor version of a release before v1. What has no version is newer than all.
fn minor(version: &str) -> u32 {
    let minor = version.strip_prefix("v0.").and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.unwrap_or(u32::MAX)
}

/// Versions of an original that asks for nothing, or always asked in the same field.
fn never(_version: &str) -> bool {
    false
}

/// Requests that every version of the original knows.
fn as_it_is(_version: &str, _dice: &mut Dice, _request: &mut Value) {}

/// Originals that read nothing but the request.
fn no_files(_request: &Value) -> Option<(String, Value)> {
    None
}

/// Answers whose messages have nothing in addition to those of the original.
fn adds_nothing(_answer: &mut Value) {}

/// Every function that has an original.
pub(crate) const CORPORA: &[Corpus] = &[
    auto_ready::CORPUS,
    environment_configs::CORPUS,
    extra_resources::CORPUS,
    go_templating::CORPUS,
    patch_and_transform::CORPUS,
    sequencer::CORPUS,
    status_transformer::CORPUS,
    tag_manager::CORPUS,
];
