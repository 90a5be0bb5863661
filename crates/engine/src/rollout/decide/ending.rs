//! The record of a rollout that has ended.

use ferroplane_api::{RolloutDifference, RolloutRecord, RolloutState};

use super::{Rollout, time};
use crate::outcome::EventKind;
use crate::rollout::subject::Subject;

/// The maximum number of past rollouts in a status.
const MOST_RECORDS: usize = 10;

impl Rollout<'_> {
    /// Move all back. The recording shows the reason, if there is one.
    pub(super) fn roll_back(&mut self, reason: &str, recording: &str) {
        let Some(candidate) = self.status.candidate.take() else { return };
        let reason = format!("{reason}{}", self.lost_by_going_back());
        let message = format!("`{candidate}` was rolled back: {reason}");
        self.record(&candidate, RolloutState::RolledBack, (&reason, recording));
        self.tell(EventKind::Warning, "RolledBack", &message);
        let status = &mut self.status;
        (status.state, status.message) = (RolloutState::RollingBack, message);
        (status.rejected, status.wave) = (Some(candidate), 0);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        status.wave_ready_at = None;
    }

    /// A text about resources that the old revision deletes because it does not compose them. Empty if there are none.
    fn lost_by_going_back(&self) -> String {
        let added = self.status.differences.get(RolloutDifference::Added.as_str()).copied();
        match added.unwrap_or_default().min(self.status.composites.moved) {
            ..=0 => String::new(),
            1 => "; what only it composed is deleted, for one composite resource".to_owned(),
            count => format!("; what only it composed is deleted, for up to {count} composite resources"),
        }
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
        let message = format!("`{candidate}` was promoted: {reason}");
        self.record(&candidate, RolloutState::Promoted, (reason, ""));
        self.tell(EventKind::Normal, "Promoted", &message);
        let status = &mut self.status;
        (status.state, status.message) = (RolloutState::Promoted, message);
        status.previous = status.stable.replace(candidate);
        (status.rejected, status.wave) = (None, 0);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        status.wave_ready_at = None;
        self.requeue_after = None;
    }

    fn record(&mut self, candidate: &str, result: RolloutState, (reason, recording): (&str, &str)) {
        let record = RolloutRecord {
            revision: candidate.to_owned(),
            from: self.status.stable.clone().unwrap_or_default(),
            result,
            message: reason.to_owned(),
            recording: recording.to_owned(),
            started_at: self.status.started_at.take().unwrap_or_default(),
            ended_at: time(self.it.now),
        };
        self.status.history.insert(0, record);
        self.status.history.truncate(MOST_RECORDS);
    }
}
