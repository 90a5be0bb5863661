//! Records what ActionSets do. One that waits and finds nothing changed leaves no recording.

use std::time::Instant;

use ferroplane_api::{ActionSetStatus, Object};
use ferroplane_engine::Event;
use ferroplane_engine::action::Prepared;
use ferroplane_recorder::{Ending, RecordingBuilder};

use super::{Controller, Work, to_json};
use crate::runtime::queue::Next;

impl Controller {
    pub(super) fn begin_recording(&self, action_set: &Object) -> RecordingBuilder {
        self.context.recordings.begin(action_set, self.context.clock.milliseconds())
    }

    /// Keep what an ActionSet did until it had to wait, ended, or could not be written.
    pub(super) fn keep_recording(&self, work: &mut Work, stopped: Option<&Next>, began_at: Instant) {
        let mut recording = std::mem::take(&mut work.recording);
        conclude(&mut recording, &work.status, &work.told);
        recording.end(ending(stopped), began_at.elapsed().as_micros());
        self.context.recordings.keep(recording);
    }

    /// Record an ActionSet that ended before anything ran.
    pub(super) fn record_refusal(&self, before: &Object, prepared: &Prepared) {
        let mut recording = self.begin_recording(before);
        recording.changes(before);
        recording.wrote();
        conclude(&mut recording, &prepared.status, &prepared.events);
        recording.end(Ending::Succeeded, 0);
        self.context.recordings.keep(recording);
    }
}

fn conclude(recording: &mut RecordingBuilder, status: &ActionSetStatus, told: &[Event]) {
    // Most often nothing was written: then nothing is kept, and nothing has to be made of it.
    if !recording.has_written() {
        return;
    }
    let (mut blueprints, mut actions) = (Vec::new(), Vec::new());
    for action in &status.actions {
        add(&mut blueprints, &action.blueprint);
        add(&mut actions, &action.name);
    }
    recording.follows(&blueprints.join(","), &actions.join(","));
    // The first one: later ones often follow from it.
    if let Some(error) = status.errors.first() {
        recording.trouble(&error.message);
        recording.blame(&error.phase);
    }
    if let serde_json::Value::Object(status) = to_json(status) {
        recording.conclude(&status, told);
    }
}

fn add<'s>(names: &mut Vec<&'s str>, name: &'s str) {
    if !names.contains(&name) {
        names.push(name);
    }
}

/// How a reconcile ended that stopped like this.
fn ending(stopped: Option<&Next>) -> Ending {
    match stopped {
        None => Ending::Succeeded,
        Some(Next::Conflict) => Ending::Conflict,
        // Nothing is left to do for an ActionSet that is not there any more.
        Some(Next::Rest) => Ending::Gone,
        Some(Next::After(_) | Next::Retry) => Ending::Unknown,
    }
}
