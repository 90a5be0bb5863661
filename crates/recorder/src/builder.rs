//! Collects the recording of a reconcile. Costs nothing if recording is off; otherwise little: what is recorded is shared.

use std::collections::BTreeSet;

use ferroplane_api::{Object, meta};
use ferroplane_engine::action::PhaseNotes;
use ferroplane_engine::{Event, Inputs, Outcome, TranscriptEntry};
use serde_json::Value;

use crate::format::{Ending, Head};
use crate::outcome_snapshot::{events, outcome_snapshot};
use crate::phase_calls::ActionNoted;

/// What a reconcile records as it goes.
#[derive(Debug, Default)]
pub struct RecordingBuilder(Option<Box<Noted>>);

#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) head: Head,
    pub(crate) takes: Vec<Taken>,
    pub(crate) settlement: Vec<u8>,
    pub(crate) is_written: bool,
    /// What an ActionSet did.
    pub(crate) action: ActionNoted,
}

/// One run of a pipeline.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) inputs: Inputs,
    pub(crate) notes: Vec<TranscriptEntry>,
    pub(crate) outcome: Vec<u8>,
    pub(crate) unsynced: Vec<String>,
    pub(crate) written: u32,
    /// Whether nothing of it was done: another run decided.
    pub(crate) is_trial: bool,
}

#[derive(serde::Serialize)]
struct Settled<'a> {
    conditions: Option<&'a Value>,
    events: Vec<crate::outcome_snapshot::EventSnapshot<'a>>,
    /// Of an ActionSet: there is no plan that would say what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Object>,
}

impl RecordingBuilder {
    /// One that nothing is written on.
    pub fn off() -> Self {
        Self(None)
    }

    pub(crate) fn begin(composite: &Object, now: u64) -> Self {
        let head = Head {
            began_at: now,
            api_version: meta::api_version(composite).to_owned(),
            kind: meta::kind(composite).to_owned(),
            namespace: meta::namespace(composite).to_owned(),
            name: meta::name(composite).to_owned(),
            uid: meta::uid(composite).to_owned(),
            generation: meta::generation(composite),
            resource_version: meta::resource_version(composite).to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            ..Head::default()
        };
        Self(Some(Box::new(Noted {
            head,
            takes: Vec::new(),
            settlement: Vec::new(),
            is_written: false,
            action: ActionNoted::default(),
        })))
    }

    /// What is followed.
    pub fn follows(&mut self, composition: &str, revision: &str) {
        if let Some(noted) = &mut self.0 {
            composition.clone_into(&mut noted.head.composition);
            revision.clone_into(&mut noted.head.revision);
        }
    }

    /// A pipeline is run on this. What is said to the engine is to be added to what is returned.
    pub fn run(&mut self, inputs: &Inputs) -> Option<&mut Vec<TranscriptEntry>> {
        let noted = self.0.as_mut()?;
        noted.takes.push(Taken {
            // Cheap: objects are shared. It has to be now, because the engine consumes the inputs.
            inputs: inputs.clone(),
            notes: Vec::new(),
            outcome: Vec::new(),
            unsynced: Vec::new(),
            written: 0,
            is_trial: false,
        });
        noted.takes.last_mut().map(|take| &mut take.notes)
    }

    /// The same of a run of which nothing is done, whether or not it comes to an end.
    pub fn try_run(&mut self, inputs: &Inputs) -> Option<&mut Vec<TranscriptEntry>> {
        self.run(inputs)?;
        let take = self.0.as_mut()?.takes.last_mut()?;
        take.is_trial = true;
        Some(&mut take.notes)
    }

    /// The run that was recorded last, to be told apart from others later.
    pub fn last_run(&self) -> Option<usize> {
        self.0.as_ref()?.takes.len().checked_sub(1)
    }

    /// Whether nothing is done of a run, because it was only tried.
    pub fn set_trial(&mut self, run: Option<usize>, is_trial: bool) {
        if let (Some(noted), Some(run)) = (&mut self.0, run)
            && let Some(take) = noted.takes.get_mut(run)
        {
            take.is_trial = is_trial;
        }
    }

    /// When the reconcile began, in milliseconds since 1970. None if recording is off.
    pub fn began_at(&self) -> Option<u64> {
        self.0.as_ref().map(|noted| noted.head.began_at)
    }

    /// What the run came to.
    pub fn came_to(&mut self, outcome: &Outcome) {
        let Some(noted) = &mut self.0 else { return };
        let step = outcome.result.as_ref().err().and_then(|failure| failure.step());
        step.unwrap_or_default().clone_into(&mut noted.head.step);
        // Not simply the last one: a trial may have been run after it.
        if let Some(take) = noted.takes.iter_mut().rfind(|take| !take.is_trial) {
            take.outcome = outcome_snapshot(outcome);
        }
    }

    /// What the last run came to, of which nothing is done.
    pub fn trial_came_to(&mut self, outcome: &Outcome) {
        if let Some(take) = self.0.as_mut().and_then(|noted| noted.takes.last_mut()) {
            take.outcome = outcome_snapshot(outcome);
        }
    }

    /// What was done of that: how many composed resources were written, and which the API server would not have.
    pub fn did(&mut self, written: usize, unsynced: &BTreeSet<String>) {
        let Some(noted) = &mut self.0 else { return };
        if let Some(take) = noted.takes.iter_mut().rfind(|take| !take.is_trial) {
            take.written = u32::try_from(written).unwrap_or(u32::MAX);
            take.unsynced = unsynced.iter().cloned().collect();
        }
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Functions of phases were called.
    pub fn called(&mut self, notes: PhaseNotes) {
        if let Some(noted) = &mut self.0 {
            noted.action.add(notes);
        }
    }

    /// The status of an ActionSet is about to be written. What it was before the first time is kept.
    pub fn changes(&mut self, action_set: &Object) {
        if let Some(noted) = self.0.as_mut().filter(|noted| noted.action.before.is_none()) {
            noted.action.before = Some(action_set.clone());
        }
    }

    /// A phase is to blame for the trouble.
    pub fn blame(&mut self, phase: &str) {
        if let Some(noted) = &mut self.0 {
            phase.clone_into(&mut noted.head.step);
        }
    }

    /// What is said of it in the end.
    pub fn conclude(&mut self, status: &Object, said: &[Event]) {
        let Some(noted) = &mut self.0 else { return };
        let conditions = status.get("conditions");
        let is_action_set = noted.head.is_action_set();
        let settled = Settled { conditions, events: events(said), status: is_action_set.then_some(status) };
        noted.settlement = serde_json::to_vec(&settled).unwrap_or_default();
        // Operations and ActionSets never become ready: they succeed.
        let wanted = if noted.head.is_operation() || is_action_set { "Succeeded" } else { "Ready" };
        let mut all = conditions.and_then(Value::as_array).into_iter().flatten();
        noted.head.is_ready = all.any(|it| it["type"] == wanted && it["status"] == "True");
    }

    /// That was written, because it was not so already.
    pub fn wrote(&mut self) {
        if let Some(noted) = &mut self.0 {
            noted.is_written = true;
        }
    }

    /// Whether something was written.
    pub fn has_written(&self) -> bool {
        self.0.as_ref().is_some_and(|noted| noted.is_written)
    }

    /// What stood in the way.
    pub fn trouble(&mut self, message: &str) {
        if let Some(noted) = &mut self.0 {
            message.clone_into(&mut noted.head.trouble);
        }
    }

    /// It is over. If there was trouble, telling of it was the success.
    pub fn end(&mut self, ending: Ending, micros: u128) {
        let Some(noted) = &mut self.0 else { return };
        // A reconcile that wrote its failure into a condition succeeded as a reconcile, but a search for failures
        // has to find it.
        let has_failed = ending == Ending::Succeeded && !noted.head.trouble.is_empty();
        noted.head.set_ending(if has_failed { Ending::Failed } else { ending });
        noted.head.micros = u64::try_from(micros).unwrap_or(u64::MAX);
    }

    /// The recording, if it is worth keeping: something was decided, or there was trouble. The status of an ActionSet shows both: one
    /// that waits is checked often, and leaves nothing.
    pub(crate) fn into_noted(self) -> Option<Box<Noted>> {
        self.0.filter(|noted| {
            let is_worth_it = !noted.takes.is_empty() || !noted.head.trouble.is_empty();
            if noted.head.is_action_set() { noted.is_written } else { is_worth_it }
        })
    }
}

impl Noted {
    /// About how much memory it holds.
    pub(crate) fn weight(&self) -> usize {
        let takes = self.takes.iter();
        // Observed state and responses are about as large as the result.
        let takes = takes.map(|take| 1024 + 3 * take.outcome.len() + 512 * take.notes.len());
        takes.sum::<usize>() + self.action.weight + self.head.trouble.len() + self.settlement.len()
    }
}
