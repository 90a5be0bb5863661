//! Calls of functions of phases: those of one reconcile of an ActionSet, and how one is replayed.

#[cfg(test)]
mod tests;

use ferroplane_api::Object;
use ferroplane_engine::action::{PhaseCall, PhaseFunction, PhaseInput, PhaseNotes};
use serde::Deserialize as _;
use serde_json::Value;

use crate::redact::Secrets;

/// Of a call that is larger, only that it was made is kept. Logs of pods may have many megabytes.
const LARGEST_CALL: usize = 256 << 10;
/// The calls of one reconcile are not larger together.
const LARGEST: usize = 1 << 20;

/// What an ActionSet did in one reconcile.
#[derive(Debug, Default)]
pub(crate) struct ActionNoted {
    /// The ActionSet before its status was written.
    pub(crate) before: Option<Object>,
    notes: PhaseNotes,
    /// About how many bytes the calls have.
    pub(crate) weight: usize,
}

impl ActionNoted {
    pub(crate) fn add(&mut self, notes: PhaseNotes) {
        let PhaseNotes { calls, secrets } = notes;
        self.notes.secrets.extend(secrets);
        for mut call in calls {
            let size = size(&call);
            if size > LARGEST_CALL || self.weight + size > LARGEST {
                // What it decided goes, too: it may hold secrets that only the answers could tell.
                (call.input, call.decided) = (PhaseInput::default(), Value::Null);
            } else {
                self.weight += size;
            }
            self.notes.calls.push(call);
        }
    }

    /// The same as JSON, in which secrets can be looked for.
    pub(crate) fn into_json(self) -> ActionJson {
        ActionJson {
            before: self.before.map(Value::Object),
            calls: self.notes.calls.into_iter().map(CallJson::of).collect(),
            secrets: self.notes.secrets.into_iter().collect(),
        }
    }
}

fn size(call: &PhaseCall) -> usize {
    let input = serde_json::to_vec(&call.input).map_or(usize::MAX, |text| text.len());
    let decided = serde_json::to_vec(&call.decided).map_or(usize::MAX, |text| text.len());
    input.saturating_add(decided)
}

/// What an ActionSet did, as JSON that may hold secrets.
pub(crate) struct ActionJson {
    pub(crate) before: Option<Value>,
    pub(crate) calls: Vec<CallJson>,
    secrets: Vec<Vec<u8>>,
}

pub(crate) struct CallJson {
    pub(crate) action: u32,
    pub(crate) phase: String,
    pub(crate) function: String,
    pub(crate) version: String,
    pub(crate) input: Value,
    /// What templates saw. It is the same for many calls.
    pub(crate) data: Value,
    pub(crate) decided: Value,
    pub(crate) hides_secrets: bool,
}

impl CallJson {
    fn of(call: PhaseCall) -> Self {
        let PhaseCall { action, phase, function, version, mut input, decided } = call;
        let data = Value::Object(std::mem::take(&mut input.data));
        let hides_secrets = input.hides_secrets;
        Self {
            action: u32::try_from(action).unwrap_or(u32::MAX),
            phase,
            function,
            version,
            input: serde_json::to_value(input).unwrap_or_default(),
            data,
            decided,
            hides_secrets,
        }
    }
}

impl ActionJson {
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_none() && self.calls.is_empty()
    }

    /// Learn what is secret in it, and in what is said of it in the end.
    pub(crate) fn learn(&self, settlement: &[u8], secrets: &mut Secrets<'_>) {
        // Phases run commands, whose output has secrets in forms that no object has.
        secrets.be_thorough();
        self.secrets.iter().for_each(|value| secrets.learn_bytes(value));
        let settlement: Value = serde_json::from_slice(settlement).unwrap_or_default();
        let values = self.calls.iter().flat_map(|call| [&call.input, &call.data, &call.decided]);
        values.chain(&self.before).chain([&settlement]).for_each(|value| secrets.learn_value(value));
    }

    /// The objects that it is about, whose names are no secrets.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        let targets = self.calls.iter().filter_map(|call| call.data.get("Object"));
        targets.chain(&self.before).filter_map(Value::as_object)
    }
}

/// A call of the function of a phase that was recorded.
#[derive(Debug, Clone, Default)]
pub struct RecordedCall {
    /// The action, from 0.
    pub action: u32,
    pub phase: String,
    pub function: String,
    /// The version that was called.
    pub version: String,
    /// What it was given, as [`PhaseInput`]. Null if it was too large to be kept.
    pub input: Value,
    /// Its move, or the requests of a clean-up. Null if it was too large to be kept.
    pub decided: Value,
    /// Whether something of it was a secret.
    pub is_redacted: bool,
}

/// What came of asking a function the same again.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplayedCall {
    Same,
    /// It decides this now.
    Differs(Value),
    /// It decides something else, and was not given the secrets that it was given then.
    Inexact,
    /// What it was given is not there, or not of this release.
    Incomplete,
}

impl RecordedCall {
    /// Whether it was too large to be kept.
    pub fn is_cut(&self) -> bool {
        self.decided.is_null()
    }

    /// Ask the function the same again. Nothing is done of what it decides.
    pub fn replay(&self, function: &dyn PhaseFunction) -> ReplayedCall {
        let input = PhaseInput::deserialize(&self.input);
        let Some(input) = input.ok().filter(|_| !self.is_cut()) else {
            return if self.is_redacted && !self.is_cut() {
                ReplayedCall::Inexact
            } else {
                ReplayedCall::Incomplete
            };
        };
        let decided = input.repeat(&self.phase, function);
        if decided == self.decided {
            ReplayedCall::Same
        } else if self.is_redacted {
            ReplayedCall::Inexact
        } else {
            ReplayedCall::Differs(decided)
        }
    }
}
