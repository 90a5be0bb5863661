//! The record of a rollout that has ended.

use ferroplane_api::{Cause, RolloutRecord, RolloutState};

use super::judgement::{Ranked, adding};
use super::{Rollout, time};
use crate::rollout::differences::MOST_ADDED;
use crate::rollout::subject::Subject;

/// The maximum number of past rollouts in a status.
const MOST_RECORDS: usize = 10;

impl Rollout<'_> {
    /// Move all back. The recording shows the reason, if there is one.
    pub(super) fn roll_back(&mut self, reason: &str, recording: &str) {
        let Some(candidate) = self.status.candidate.clone() else { return };
        let reason = format!("{reason}{}", self.lost_by_going_back(&candidate));
        self.status.candidate = None;
        let message = self.record(&candidate, RolloutState::RolledBack, (&reason, recording));
        self.tell(Some(Cause::RolloutNotCompleted), "RolledBack", &message);
        let status = &mut self.status;
        (status.state, status.message) = (RolloutState::RollingBack, message);
        (status.rejected, status.wave) = (Some(candidate), 0);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        status.wave_ready_at = None;
    }

    /// A text about resources that the old revision deletes because it does not compose them. Empty if there are none.
    fn lost_by_going_back(&self, candidate: &str) -> String {
        // What the candidate returned was not applied where it was refused from the start.
        let is_spared = |it: &&Ranked<'_>| {
            let Subject { trial, ran, was_composed, .. } = it.subject;
            let is_refused = trial.is_some_and(|it| it.refused(&self.it.spec.refuse).is_some());
            it.has_moved && is_refused && !was_composed && !ran.iter().any(|ran| ran == candidate)
        };
        let spared = self.ranked(candidate).iter().filter(is_spared).count();
        let applied = self.status.composites.moved - i64::try_from(spared).unwrap_or(i64::MAX);
        let whose = match adding(&self.status.differences).min(applied) {
            ..=0 => return String::new(),
            1 => "one composite resource".to_owned(),
            count => format!("up to {count} composite resources"),
        };
        let names = self.status.added.join(", ");
        let names = match self.status.added.len() {
            0 => String::new(),
            1..MOST_ADDED => format!(" ({names})"),
            // There may be more than are named.
            _ => format!(" (for example {names})"),
        };
        format!("; what only it composed is deleted{names}, for {whose}")
    }

    /// Record the end of a rollback once nothing calls the candidate any more.
    pub(super) fn settle_rollback(&mut self) {
        if self.status.state != RolloutState::RollingBack || self.it.unestablished.is_some() {
            return;
        }
        let rejected = self.status.rejected.as_ref();
        let calls_it = |subject: &&Subject| {
            !subject.is_manual && !subject.is_paused && subject.ran.iter().any(|ran| Some(ran) == rejected)
        };
        let moved = self.it.subjects.iter().filter(calls_it).count();
        self.status.composites.moved = i64::try_from(moved).unwrap_or(i64::MAX);
        if moved == 0 {
            self.status.state = RolloutState::RolledBack;
        }
    }

    pub(super) fn promote(&mut self, reason: &str) {
        let Some(candidate) = self.status.candidate.take() else { return };
        let message = self.record(&candidate, RolloutState::Promoted, (reason, ""));
        self.tell(None, "Promoted", &message);
        let status = &mut self.status;
        (status.state, status.message) = (RolloutState::Promoted, message);
        status.previous = status.stable.replace(candidate);
        (status.rejected, status.wave) = (None, 0);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        status.wave_ready_at = None;
        self.requeue_after = None;
    }

    /// Record how a rollout ended. Returns that for people.
    fn record(&mut self, candidate: &str, result: RolloutState, (reason, recording): (&str, &str)) -> String {
        let record = RolloutRecord {
            revision: candidate.to_owned(),
            from: self.status.stable.clone().unwrap_or_default(),
            result,
            message: reason.to_owned(),
            recording: recording.to_owned(),
            started_at: self.status.started_at.take().unwrap_or_default(),
            ended_at: time(self.it.now),
        };
        let message = ending(&record);
        self.status.history.insert(0, record);
        self.status.history.truncate(MOST_RECORDS);
        message
    }
}

/// How a rollout ended, for people.
pub(super) fn ending(record: &RolloutRecord) -> String {
    let RolloutRecord { revision, result, message, .. } = record;
    let what = if *result == RolloutState::Promoted { "Promoted" } else { "Rolled back" };
    format!("{what} `{revision}`: {message}")
}
