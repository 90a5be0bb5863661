//! The differences that are meant to be: each is recognised as narrowly as can be, and is in `docs/differences.md`.
//!
//! Whatever is recognised is made equal in both views, so that everything else is still compared.

mod as_read;
mod given;
mod kinds;
mod metadata;
mod refused;
mod texts;
mod xr;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::case::Case;
pub(crate) use given::give_fields_their_own_description;

/// A difference that is meant to be. Its name is the one it has in `docs/differences.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deliberate {
    AsRead,
    CauseCode,
    ChosenComposition,
    ClearText,
    FailureText,
    FatalTime,
    FieldDescription,
    Garbled,
    KindChanged,
    NoCondition,
    NoStatus,
    NoType,
    NullMetadata,
    NullStatus,
    OddMetadata,
    ReferenceUid,
    RequestNotHandled,
    SameObject,
    SparedCall,
    Unchanged,
    UnknownNumber,
}

/// Whether a difference is there. If it is, it is no longer.
type Recognise = fn(&mut Views<'_>) -> bool;

/// How each is recognised. What is refused comes first: then there is little left to compare.
const ALL: &[(Deliberate, Recognise)] = &[
    (Deliberate::SameObject, refused::same_object),
    (Deliberate::NoType, refused::no_type),
    (Deliberate::Garbled, refused::garbled),
    (Deliberate::NoStatus, refused::no_status),
    (Deliberate::NullMetadata, refused::null_metadata),
    (Deliberate::OddMetadata, metadata::odd),
    (Deliberate::ReferenceUid, metadata::reference_uid),
    (Deliberate::Unchanged, xr::unchanged),
    (Deliberate::NullStatus, xr::null_status),
    (Deliberate::KindChanged, kinds::changed),
    (Deliberate::ChosenComposition, xr::chosen_composition),
    (Deliberate::AsRead, as_read::as_read),
    (Deliberate::NoCondition, xr::no_condition),
    (Deliberate::CauseCode, xr::cause_code),
    (Deliberate::FatalTime, xr::fatal_time),
    (Deliberate::RequestNotHandled, xr::request_not_handled),
    (Deliberate::FieldDescription, given::field_description),
    (Deliberate::ClearText, given::clear_text),
    (Deliberate::SparedCall, given::spared_call),
    (Deliberate::UnknownNumber, texts::unknown_number),
    (Deliberate::FailureText, texts::failure),
];

/// What both engines made of a case.
#[derive(Debug)]
pub(crate) struct Views<'a> {
    pub(crate) case: &'a Case,
    /// What the engines wrote to standard error.
    pub(crate) our_words: &'a str,
    pub(crate) their_words: &'a str,
    pub(crate) ours: Value,
    pub(crate) theirs: Value,
}

/// Recognise what is meant to be different.
pub(crate) fn explain(views: &mut Views<'_>) -> BTreeSet<Deliberate> {
    ALL.iter().filter_map(|(kind, recognise)| recognise(views).then_some(*kind)).collect()
}

/// The items of a list at this place, to be changed. What is no list has none.
fn items<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

#[test]
fn every_deliberate_difference_is_documented() {
    let page = include_str!("../../../../docs/differences.md");
    for (kind, _) in ALL {
        assert!(page.contains(&format!("| `{kind:?}` |")), "{kind:?} is not in docs/differences.md");
    }
}
