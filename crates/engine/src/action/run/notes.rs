//! Notes the calls of functions, for recordings.

use ferroplane_api::{BlueprintPhase, PhaseCallee};
use serde::Serialize;

use super::Run;
use crate::action::function::PhaseFunction;
use crate::action::phase_call::{PhaseCall, PhaseInput, PhaseNotes, PhaseQuestion, hide_secrets};
use crate::action::scope::Scope;
use crate::action::secret_texts::secret_texts;

impl Run<'_> {
    /// Note what functions are called with and what they decide, from now on.
    pub fn note_calls(&mut self) {
        self.notes = Some(PhaseNotes::default());
    }

    /// What was noted since this was asked last.
    pub fn take_notes(&mut self) -> PhaseNotes {
        let Some(notes) = self.notes.as_mut().filter(|notes| !notes.calls.is_empty()) else {
            return PhaseNotes::default();
        };
        notes.secrets.extend(self.secrets.values().cloned());
        std::mem::take(notes)
    }

    /// Note a call. `scope` is what templates of the phase saw.
    pub(super) fn note<T: Serialize>(
        &mut self,
        phase: &BlueprintPhase,
        (callee, function): (PhaseCallee, &dyn PhaseFunction),
        scope: Scope,
        input: PhaseInput,
        decided: &T,
    ) {
        let Some(notes) = &mut self.notes else { return };
        let renders_itself = function.renders_arguments_itself();
        // Once for a run: arguments of a phase do not change.
        if !renders_itself && self.traced.insert(phase.name.clone()) {
            let texts = secret_texts(&scope, &phase.args);
            notes.secrets.extend(texts.into_iter().map(String::into_bytes));
        }
        let template_time = scope.now();
        let mut data = scope.into_data();
        let hides_secrets = hide_secrets(&mut data) && renders_itself;
        notes.calls.push(PhaseCall {
            action: self.identity.index,
            phase: phase.name.clone(),
            function: callee.name,
            version: callee.version,
            input: PhaseInput { data, template_time, hides_secrets, ..input },
            decided: serde_json::to_value(decided).unwrap_or_default(),
        });
    }

    /// The last call was about cleaning up.
    pub(super) fn note_clean_up(&mut self) {
        if let Some(call) = self.notes.as_mut().and_then(|notes| notes.calls.last_mut()) {
            call.input.question = PhaseQuestion::CleanUp;
        }
    }
}
