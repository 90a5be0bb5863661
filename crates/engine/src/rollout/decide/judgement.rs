//! Determines the state of moved composite resources, and whether the rollout fails.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{
    Cause, RolloutCounts, RolloutDifference, RolloutFailurePolicy, RolloutState, RolloutTarget,
};

use super::{Rollout, gates, key, limit, seconds, time};
use crate::rollout::differences::MOST_ADDED;
use crate::rollout::overlay::{Member, Overlay, place};
use crate::rollout::subject::{Health, Subject};
use crate::status_size::shortened;

/// How many seconds a composite resource that was not ready before the move may take until it has been composed by the candidate. One
/// that cannot be composed at all must not hold up the others for long.
const EXCUSED_SECONDS: i64 = 60;

/// A composite resource that may be moved.
pub(super) struct Ranked<'a> {
    pub(super) subject: &'a Subject,
    pub(super) place: u64,
    pub(super) has_moved: bool,
    pub(super) standing: Standing,
}

/// The state of a composite resource that may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was moved, and is as ready as before.
    Ready,
    /// It is not known yet.
    Unready,
    /// It was moved and fails; or a trial showed that it would.
    Failed,
}

/// Why a rollout fails.
pub(super) struct Failure {
    message: String,
    /// The recorded reconcile that shows it.
    recording: String,
}

/// For how many composite resources the candidate composes what the stable revision does not.
pub(super) fn adding(differences: &BTreeMap<String, i64>) -> i64 {
    let adding = [RolloutDifference::Added, RolloutDifference::Renamed].into_iter();
    adding.filter_map(|it| differences.get(it.as_str())).sum()
}

impl<'a> Rollout<'a> {
    /// All composite resources that may be moved, in their order.
    pub(super) fn ranked(&self, candidate: &str) -> Vec<Ranked<'a>> {
        let Some(overlay) = Overlay::of(self.it.spec, &self.status) else { return Vec::new() };
        let movable = self.it.subjects.iter().filter(|subject| !subject.is_manual);
        let mut ranked: Vec<_> = movable
            .map(|subject| {
                let Subject { uid, created, is_first, .. } = subject;
                let has_moved = overlay.has_moved(Member { uid, created, is_first: *is_first });
                let standing = match subject.trial {
                    _ if has_moved => self.standing(candidate, subject),
                    Some(trial) if overlay.is_preview && trial.refused(&overlay.refuse).is_some() => {
                        Standing::Failed
                    }
                    _ => Standing::Unready,
                };
                Ranked { subject, place: place(candidate, uid, *is_first), has_moved, standing }
            })
            .collect();
        ranked.sort_by(|one, other| (one.place, &one.subject.uid).cmp(&(other.place, &other.subject.uid)));
        ranked
    }

    /// The state of a moved composite resource, compared with its state before.
    fn standing(&self, candidate: &str, subject: &Subject) -> Standing {
        if subject.trial.is_some_and(|trial| trial.refused(&self.it.spec.refuse).is_some()) {
            return Standing::Failed;
        }
        // If both revisions do the same, the new one is not the reason for a failure.
        let does_the_same = subject.trial.is_some_and(|trial| trial.gravest() < RolloutDifference::Changed);
        let has_trouble = matches!(subject.health, Health::Failed | Health::Uncallable | Health::Disturbed);
        let is_blameless = does_the_same && has_trouble;
        if subject.is_paused || is_blameless {
            return Standing::Ready;
        }
        let has_run = subject.ran.iter().any(|revision| revision == candidate);
        let moved = self.status.cohort.last().and_then(|last| seconds(&last.moved_at)).unwrap_or_default();
        let started = self.status.started_at.as_deref().and_then(seconds).unwrap_or_default();
        // The list is bounded. A composite resource that was not ready before the rollout, and never since, needs no entry.
        let was_unready = subject.health != Health::Ready && subject.since < started;
        if was_unready || self.status.unready_before.contains(&key(candidate, subject)) {
            let patience = self.it.spec.progress_deadline_seconds.min(EXCUSED_SECONDS);
            let is_over = self.it.now - moved >= patience;
            let is_known = has_run || subject.trial.is_some() || is_over;
            return if is_known { Standing::Ready } else { Standing::Unready };
        }
        if subject.health == Health::Ready && has_run {
            return Standing::Ready;
        }
        let is_starting = self.start_time_left().is_some();
        if is_starting && subject.health == Health::Uncallable {
            return Standing::Unready;
        }
        if has_trouble && subject.since >= started {
            return Standing::Failed;
        }
        let deadline = self.it.spec.progress_deadline_seconds;
        // A time further ahead than that was noted before the clock was set back, and waiting for it would take too long. One that is
        // only a little ahead comes from the clock of a replica that led before.
        let is_plausible = subject.since - self.it.now <= deadline;
        let since = if has_run && is_plausible { subject.since.max(started) } else { moved };
        let is_late = self.it.now - since > deadline;
        // Without controllers, no composite resource could become ready.
        if is_late && !is_starting { Standing::Failed } else { Standing::Unready }
    }

    pub(super) fn count(&mut self, all: &[Ranked<'_>]) {
        let count = |is_so: &dyn Fn(&Ranked<'_>) -> bool| {
            i64::try_from(all.iter().filter(|it| is_so(it)).count()).unwrap_or(i64::MAX)
        };
        let manual = self.it.subjects.iter().filter(|subject| subject.is_manual).count();
        self.status.composites = RolloutCounts {
            total: count(&|_| true),
            moved: count(&|it| it.has_moved),
            ready: count(&|it| it.has_moved && it.standing == Standing::Ready),
            failed: count(&|it| it.standing == Standing::Failed),
            manual: i64::try_from(manual).unwrap_or(i64::MAX),
        };
    }

    /// Record differences that trials found. Those from before a restart are kept.
    pub(super) fn note_trials(&mut self) {
        // Before the counts are kept: after a restart less is known than before.
        self.note_added();
        for (difference, count) in &self.it.tried.differences {
            let noted = self.status.differences.entry(difference.clone()).or_default();
            *noted = (*noted).max(*count);
        }
        if !self.it.tried.examples.is_empty() {
            let examples = &self.it.tried.examples;
            self.status.examples = examples.iter().map(|it| shortened(it.message.clone())).collect();
            self.status.recordings = examples.iter().map(|example| example.recording.clone()).collect();
        }
    }

    /// Record the names of resources that only the candidate composes.
    fn note_added(&mut self) {
        let tried = self.it.tried;
        let is_known = adding(&tried.differences) >= adding(&self.status.differences);
        let before = self.status.added.iter().filter(|_| !is_known);
        let added: BTreeSet<_> = before.chain(&tried.added).cloned().collect();
        self.status.added = added.into_iter().take(MOST_ADDED).collect();
    }

    /// Whether the candidate was tried for all. One that could not be tried in time is tried when it is moved.
    pub(super) fn has_previewed(&mut self, all: &[Ranked<'_>]) -> bool {
        let untried = all.iter().filter(|it| it.subject.trial.is_none() && !it.subject.is_paused).count();
        let started = self.status.started_at.as_deref().and_then(seconds).unwrap_or_default();
        let left = started + self.it.spec.progress_deadline_seconds - self.it.now;
        let left = self.start_time_left().map_or(left, |starting| left.max(starting));
        if self.waits_for_definition() {
            self.status.state = RolloutState::Previewing;
            return false;
        }
        if untried == 0 || left < 0 {
            self.status.wave = 1;
            return true;
        }
        self.status.state = RolloutState::Previewing;
        self.status.message =
            format!("Tried for {} of {} composite resources", all.len() - untried, all.len());
        self.requeue_in(left + 1);
        false
    }

    /// Whether functions may still be starting with the control plane. No composite resource is moved meanwhile: one that cannot be
    /// composed for that reason would count as not ready before the move.
    pub(super) fn waits_for_start(&mut self, candidate: &str, all: &[Ranked<'_>]) -> bool {
        if self.start_time_left().is_none() {
            return false;
        }
        // It is unknown which functions a revision of a composition calls.
        let is_function = matches!(self.it.spec.target(), RolloutTarget::Function(_));
        let is_called = is_function && all.iter().any(|it| it.has_moved);
        let is_awaited = is_called && !self.it.restart.has_answered;
        if !is_awaited && all.iter().all(|it| it.subject.health != Health::Uncallable) {
            return false;
        }
        self.status.message = format!(
            "The control plane was started again, and `{candidate}` is rolled out when functions answer"
        );
        self.requeue_in(1);
        true
    }

    /// Why the rollout fails, if it does.
    pub(super) fn failure(&self, all: &[Ranked<'_>]) -> Option<Failure> {
        let failed: Vec<_> = all.iter().filter(|it| it.standing == Standing::Failed).collect();
        if failed.len() > limit(self.it.spec.max_failures) {
            return Some(self.failure_of(&failed));
        }
        if self.start_time_left().is_some() && !self.it.restart.has_answered {
            // Calls that failed before it had started do not count.
            return None;
        }
        let message = gates::broken(&self.it.spec.gates, &self.it.calls)?;
        Some(Failure { message, recording: self.status.recordings.first().cloned().unwrap_or_default() })
    }

    fn failure_of(&self, failed: &[&Ranked<'_>]) -> Failure {
        let refused = |subject: &Subject| subject.trial.and_then(|it| it.refused(&self.it.spec.refuse));
        let why = |subject: &Subject| match (refused(subject), subject.health) {
            (Some(difference), _) => format!("refused: {}", difference.as_str()),
            (None, Health::Failed | Health::Uncallable) => "not synced".to_owned(),
            (None, Health::Disturbed) => "its composed resources keep changing".to_owned(),
            (None, _) => "not ready in time".to_owned(),
        };
        let first = failed.iter().min_by_key(|it| &it.subject.name);
        let named = first.map(|it| format!("{} ({})", it.subject.name, why(it.subject))).unwrap_or_default();
        let mut message = match failed.len() {
            1 => format!("{named} fails with it"),
            count => format!("{count} composite resources fail with it, among them {named}"),
        };
        let is_told = failed.iter().any(|it| refused(it.subject).is_some());
        let example = self.status.examples.first().zip(self.status.recordings.first()).filter(|_| is_told);
        if let Some((example, recording)) = example {
            // An example that an older release has stored may be of any length.
            message = shortened(format!("{message}: {example}"));
            return Failure { message, recording: recording.clone() };
        }
        // Its last reconcile by now shows the failure.
        let by_now = time(self.it.now + 1);
        let recorded = first.map(|it| format!("{} --at {by_now}", it.subject.recorded_as));
        Failure { message, recording: recorded.unwrap_or_default() }
    }

    pub(super) fn fail(&mut self, candidate: &str, failure: &Failure) {
        let Failure { message, recording } = failure;
        if self.it.spec.on_failure == RolloutFailurePolicy::RollBack {
            return self.roll_back(message, recording);
        }
        let is_new = self.status.rejected.as_deref() != Some(candidate);
        self.status.state = RolloutState::Paused;
        self.status.rejected = Some(candidate.to_owned());
        self.status.message = format!("Paused, because {message}; promote or undo `{candidate}`");
        if is_new {
            let message = self.status.message.clone();
            self.tell(Some(Cause::RolloutNotCompleted), "RolloutPaused", &message);
        }
    }
}
