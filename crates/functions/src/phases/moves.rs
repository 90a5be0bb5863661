//! What functions of phases have in common: failures, checkpoints, names, and what belongs to a phase.

use ferroplane_api::{Cause, Object, meta};
use ferroplane_engine::action::{
    Address, Answer, Move, NamedBy, PHASE_ANNOTATION, Phase, Refused, Request, ResourceName,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Why a phase fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) message: String,
}

/// The next move, or why there is none.
pub(super) type NextMove = Result<Move, Failure>;

impl Failure {
    /// A request of the function cannot be performed.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { cause: Cause::PhaseFailed, message: message.into() }
    }

    pub(super) fn argument(name: &str, why: impl std::fmt::Display) -> Self {
        Self { cause: Cause::PhaseArgumentsInvalid, message: format!("argument `{name}`: {why}") }
    }

    pub(super) fn timeout(message: impl Into<String>) -> Self {
        Self { cause: Cause::PhaseTimeout, message: message.into() }
    }

    pub(super) fn interrupted(message: impl Into<String>) -> Self {
        Self { cause: Cause::PhaseInterrupted, message: message.into() }
    }

    pub(super) fn refused(refused: &Refused) -> Self {
        Self { cause: refused.cause, message: refused.message.clone() }
    }

    /// An answer that does not fit its request.
    pub(super) fn unexpected(answers: &[Answer]) -> Self {
        let refused = answers.iter().find_map(|answer| match answer {
            Answer::Refused(refused) => Some(Self::refused(refused)),
            _ => None,
        });
        refused.unwrap_or_else(|| Self::new("the control plane did not answer the request"))
    }
}

/// The move that a function makes, whether or not there is one.
pub(super) fn settle(next: NextMove) -> Move {
    next.unwrap_or_else(|Failure { cause, message }| Move::Fail { cause, message })
}

/// The checkpoint of the last move. None at first.
pub(super) fn checkpoint<S: DeserializeOwned>(phase: &Phase<'_>) -> Result<Option<S>, Failure> {
    if phase.checkpoint.is_null() {
        return Ok(None);
    }
    let unreadable = |error| {
        Failure::interrupted(format!(
            "the checkpoint in the status was not written by this function: {error}"
        ))
    };
    S::deserialize(phase.checkpoint).map(Some).map_err(unreadable)
}

pub(super) fn perform(checkpoint: &impl Serialize, requests: Vec<Request>) -> Move {
    Move::Perform { checkpoint: to_value(checkpoint), requests }
}

/// Wait until one of these objects changes, or until a time.
pub(super) fn wait(checkpoint: &impl Serialize, wake_at: Option<i64>, watch: Vec<Address>) -> Move {
    Move::Wait { checkpoint: to_value(checkpoint), wake_at, watch, progress: None }
}

fn to_value(checkpoint: &impl Serialize) -> Value {
    serde_json::to_value(checkpoint).unwrap_or_default()
}

pub(super) fn done(output: impl IntoIterator<Item = (&'static str, String)>) -> Move {
    let output = output.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value)));
    Move::Done { output: output.collect() }
}

/// Text that only this phase has, usable at the end of a name.
pub(super) fn suffix(phase: &Phase<'_>, salt: &str) -> String {
    // Vowels and digits that look like letters are left out, as Kubernetes does in names that it makes.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let digest = Sha256::new().chain_update(phase.identity).chain_update([0]).chain_update(salt).finalize();
    digest.iter().take(8).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// The longest prefix that leaves room for a suffix in a name of this length.
pub(super) fn named(prefix: &str, suffix: &str, longest: usize) -> String {
    let room = longest.saturating_sub(suffix.len() + 1);
    let end =
        (0..=room.min(prefix.len())).rev().find(|end| prefix.is_char_boundary(*end)).unwrap_or_default();
    format!("{}-{suffix}", prefix[..end].trim_end_matches(['-', '.']))
}

/// Whether this phase created the object.
pub(super) fn is_own(phase: &Phase<'_>, object: &Object) -> bool {
    meta::annotation(object, PHASE_ANNOTATION) == phase.identity
}

/// An object that another user created has the name that a phase wants for its own.
pub(super) fn taken(address: &Address) -> Failure {
    Failure::new(format!("cannot create {}: it exists already", describe(address)))
}

/// Where an object is that has its own kind and name.
pub(super) fn address_of(object: &Object) -> Address {
    Address {
        kind: ResourceName::kind(meta::api_version(object), meta::kind(object)),
        namespace: meta::namespace(object).to_owned(),
        name: meta::name(object).to_owned(),
    }
}

/// An object, for people.
pub(super) fn describe(address: &Address) -> String {
    let (NamedBy::Kind(kind) | NamedBy::Resource(kind)) = &address.kind.by;
    let Address { namespace, name, .. } = address;
    if namespace.is_empty() {
        return format!("{kind} `{name}`");
    }
    format!("{kind} `{name}` in namespace `{namespace}`")
}

/// A text somewhere below an object; empty if there is none.
pub(super) fn text_at<'o>(object: &'o Object, path: &[&str]) -> &'o str {
    value_at(object, path).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn value_at<'o>(object: &'o Object, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, key| value.get(key))
}

pub(super) fn number_at(object: &Object, path: &[&str]) -> i64 {
    value_at(object, path).and_then(Value::as_i64).unwrap_or_default()
}
