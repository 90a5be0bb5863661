//! Which revision is stable, and which one is rolled out.

use std::collections::BTreeMap;

use ferroplane_api::{Cause, FunctionRolloutStatus, RolloutCalls, RolloutState};

use super::ending::ending;
use super::{RevisionFact, Rollout, time};

impl<'a> Rollout<'a> {
    fn revision(&self, name: &str) -> Option<&'a RevisionFact> {
        self.it.revisions.iter().find(|revision| revision.name == name && revision.is_active)
    }

    /// The revision that all composite resources would call without a rollout.
    fn newest(&self) -> Option<&'a RevisionFact> {
        let serving = self.it.revisions.iter().filter(|revision| revision.is_active && revision.is_serving);
        serving.max_by_key(|revision| revision.number)
    }

    /// Whether there is a stable revision, for composite resources that were not moved. Without one, all call the newest.
    pub(super) fn keep_stable(&mut self) -> bool {
        if self.status.stable.as_deref().is_some_and(|stable| self.revision(stable).is_some()) {
            return true;
        }
        if let Some(gone) = self.status.stable.take() {
            let message =
                format!("Revision `{gone}` is no longer active: the newest revision in service is called");
            self.tell(Some(Cause::StableRevisionGone), "StableRevisionGone", &message);
            // Everything else in the status was relative to the revision that no longer exists.
            let history = std::mem::take(&mut self.status.history);
            self.status = FunctionRolloutStatus { message, history, ..FunctionRolloutStatus::default() };
        }
        let Some(newest) = self.newest() else {
            "No revision of the Function is in service yet".clone_into(&mut self.status.message);
            return false;
        };
        self.status.stable = Some(newest.name.clone());
        true
    }

    /// While no revision is rolled out, name a newer one that is active and cannot be called yet.
    pub(super) fn name_awaited(&mut self) {
        let Some(stable) = self.status.stable.as_deref().and_then(|stable| self.revision(stable)) else {
            return;
        };
        let is_awaited = |it: &&RevisionFact| {
            let is_rejected = self.status.rejected.as_ref() == Some(&it.name);
            it.is_active && !it.is_serving && it.number > stable.number && !is_rejected
        };
        let awaited = self.it.revisions.iter().filter(is_awaited).max_by_key(|it| it.number);
        let awaited = awaited.map(|it| format!("revision `{}` is not in service yet", it.name));
        self.status.message = match (self.status.state, self.status.history.first(), awaited) {
            (RolloutState::Idle, _, awaited) => {
                let newer = awaited.unwrap_or_else(|| "there is no newer revision".to_owned());
                format!("All composite resources call `{}`: {newer}", stable.name)
            }
            (RolloutState::Promoted | RolloutState::RolledBack, Some(record), Some(awaited)) => {
                format!("{}; {awaited}", ending(record))
            }
            (RolloutState::Promoted | RolloutState::RolledBack, Some(record), None) => ending(record),
            _ => return,
        };
    }

    /// Go back from a promoted revision, if a user requests it.
    pub(super) fn undo_stable(&mut self) {
        let (Some(stable), None) = (self.status.stable.clone(), &self.status.candidate) else { return };
        let previous = self.status.previous.clone().filter(|previous| self.revision(previous).is_some());
        let (true, Some(previous)) = (self.requests.undo == Some(&*stable), previous) else { return };
        (self.status.candidate, self.status.stable, self.status.previous) =
            (Some(stable), Some(previous), None);
        // A user may have promoted it before any was counted.
        self.status.composites.moved = self.status.composites.total;
        self.roll_back("a user undid it after it was promoted", "");
    }

    /// Abandon a candidate that cannot or must not be called any more.
    pub(super) fn end_candidate(&mut self) {
        let Some(candidate) = self.status.candidate.clone() else { return };
        let stable = self.status.stable.as_deref().and_then(|stable| self.revision(stable));
        let is_newer = |revision: &RevisionFact| stable.is_none_or(|stable| revision.number > stable.number);
        match self.revision(&candidate) {
            _ if self.requests.undo == Some(&*candidate) => self.roll_back("a user undid it", ""),
            None => self.roll_back("it is no longer active", ""),
            Some(revision) if !is_newer(revision) => {
                self.roll_back("the stable revision is installed again", "");
            }
            Some(_) => {}
        }
    }

    /// Start to roll out a newer revision, unless one is being rolled out.
    pub(super) fn start_candidate(&mut self) {
        let stable = self.status.stable.as_deref().and_then(|stable| self.revision(stable));
        let (None, Some(stable), Some(newest)) = (&self.status.candidate, stable, self.newest()) else {
            return;
        };
        let is_rejected = self.status.rejected.as_ref() == Some(&newest.name)
            && self.requests.promote != Some(&*newest.name);
        if newest.number <= stable.number || is_rejected {
            return;
        }
        let status = &mut self.status;
        status.rejected = None;
        status.candidate = Some(newest.name.clone());
        status.started_at = Some(time(self.it.now));
        status.wave = i64::from(!self.it.spec.preview);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        status.wave_ready_at = None;
        (status.differences, status.examples, status.added) = (BTreeMap::new(), Vec::new(), Vec::new());
        (status.recordings, status.calls) = (Vec::new(), RolloutCalls::default());
        status.state =
            if self.it.spec.preview { RolloutState::Previewing } else { RolloutState::Progressing };
        let message = format!("Rolling out `{}` in place of `{}`", newest.name, stable.name);
        self.tell(None, "RolloutStarted", &message);
    }
}
