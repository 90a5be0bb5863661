//! The next status of a rollout.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_api::{
    FunctionRolloutSpec, FunctionRolloutStatus, RolloutCohort, RolloutCounts, RolloutDifference,
    RolloutFailurePolicy, RolloutRecord, RolloutState,
};
use ferroplane_golang::time::{calendar, rfc3339};

use super::differences::is_refused;
use super::overlay::{LAST, Member, Overlay, place};
use super::share::{at_most, count};
use super::subject::{Health, Subject};
use crate::outcome::EventKind;

/// How many hashes of composite resources a status has at most.
const MOST_UNREADY: usize = 128;
/// How many past rollouts a status has at most.
const MOST_RECORDS: usize = 10;

/// Everything that a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    pub spec: &'a FunctionRolloutSpec,
    pub status: &'a FunctionRolloutStatus,
    pub commands: Commands<'a>,
    /// All revisions of the function.
    pub revisions: &'a [RevisionFact],
    /// All composite resources that call the function in a step that does not say which revision.
    pub subjects: &'a [Subject],
    pub tried: &'a Tried,
    /// In seconds since 1970.
    pub now: i64,
}

impl Observation<'_> {
    /// Whether the decision depends on composite resources. Otherwise nobody has to look at them.
    pub fn needs_subjects(&self) -> bool {
        let status = self.status;
        let is_active = |it: &&RevisionFact| it.is_active && it.is_serving;
        let newest = self.revisions.iter().filter(is_active).max_by_key(|it| it.number);
        let newest = newest.map(|it| it.name.as_str());
        let is_known = status.stable.as_deref() == newest
            || (status.rejected.as_deref() == newest && self.commands.promote != newest);
        let undoes = self.commands.undo.is_some() && self.commands.undo == status.stable.as_deref();
        status.candidate.is_some() || status.state == RolloutState::RollingBack || !is_known || undoes
    }
}

/// What users ask for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Commands<'a> {
    /// The revision that all are to call.
    pub promote: Option<&'a str>,
    /// The revision that nobody is to call.
    pub undo: Option<&'a str>,
}

/// A revision of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionFact {
    pub name: String,
    pub number: u64,
    pub is_active: bool,
    /// Whether it has answered since it was activated.
    pub is_serving: bool,
}

/// How the candidate differed where it has been tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried {
    pub differences: BTreeMap<String, i64>,
    pub examples: Vec<String>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub status: FunctionRolloutStatus,
    /// What is to be told: how grave it is, the reason, and the message.
    pub events: Vec<(EventKind, &'static str, String)>,
    /// When to decide again, even if nothing changes.
    pub look_again: Option<Duration>,
}

/// Decide what comes next.
pub fn decide(observation: &Observation<'_>) -> Decision {
    let mut rollout = Rollout {
        it: *observation,
        status: observation.status.clone(),
        events: Vec::new(),
        look_again: None,
    };
    rollout.step();
    let Rollout { status, events, look_again, .. } = rollout;
    Decision { status, events, look_again }
}

/// A rollout, while its next status is made.
struct Rollout<'a> {
    it: Observation<'a>,
    status: FunctionRolloutStatus,
    events: Vec<(EventKind, &'static str, String)>,
    look_again: Option<Duration>,
}

/// A composite resource that may be moved.
struct Ranked<'a> {
    subject: &'a Subject,
    place: u64,
    has_moved: bool,
    standing: Standing,
}

/// How a composite resource that may be moved is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has been moved, and is as ready as before.
    Ready,
    /// It is not known yet.
    Unready,
    /// It has been moved, and fails; or it is known before that it would.
    Failed,
}

impl<'a> Rollout<'a> {
    fn step(&mut self) {
        self.forget_future();
        if !self.keep_stable() {
            return;
        }
        self.undo_stable();
        self.end_candidate();
        self.start_candidate();
        match self.status.candidate.clone() {
            Some(candidate) => self.progress(&candidate),
            None => self.settle_rollback(),
        }
    }

    /// Clocks are set back. What is said to come later was at the latest now: whoever waited for that time would wait too long.
    fn forget_future(&mut self) {
        let now = time(self.it.now);
        let moved = self.status.cohort.iter_mut().map(|cohort| &mut cohort.moved_at);
        for noted in moved.chain(self.status.started_at.as_mut()).filter(|noted| **noted > now) {
            now.clone_into(noted);
        }
    }

    fn revision(&self, name: &str) -> Option<&'a RevisionFact> {
        self.it.revisions.iter().find(|revision| revision.name == name && revision.is_active)
    }

    /// The revision that everybody would call if there were no rollout.
    fn newest(&self) -> Option<&'a RevisionFact> {
        let serving = self.it.revisions.iter().filter(|revision| revision.is_active && revision.is_serving);
        serving.max_by_key(|revision| revision.number)
    }

    /// Whether there is a revision that those call who are not moved. Without one, everybody calls the newest.
    fn keep_stable(&mut self) -> bool {
        if self.status.stable.as_deref().is_some_and(|stable| self.revision(stable).is_some()) {
            return true;
        }
        if let Some(gone) = self.status.stable.take() {
            let message =
                format!("revision `{gone}` is no longer active: the newest revision in service is called");
            self.tell(EventKind::Warning, "StableRevisionGone", &message);
            let history = std::mem::take(&mut self.status.history);
            self.status = FunctionRolloutStatus { message, history, ..FunctionRolloutStatus::default() };
        }
        let Some(newest) = self.newest() else {
            "no revision of the Function is in service yet".clone_into(&mut self.status.message);
            return false;
        };
        self.status.stable = Some(newest.name.clone());
        self.status.message = format!("`{}` is called by all: there is no newer revision", newest.name);
        true
    }

    /// Go back from a revision that was promoted, if a user wants that.
    fn undo_stable(&mut self) {
        let (Some(stable), None) = (self.status.stable.clone(), &self.status.candidate) else { return };
        let previous = self.status.previous.clone().filter(|previous| self.revision(previous).is_some());
        let (true, Some(previous)) = (self.it.commands.undo == Some(&*stable), previous) else { return };
        (self.status.candidate, self.status.stable, self.status.previous) =
            (Some(stable), Some(previous), None);
        self.roll_back("a user undid it after it was promoted");
    }

    /// Give up a candidate that cannot or must not be called any more.
    fn end_candidate(&mut self) {
        let Some(candidate) = self.status.candidate.clone() else { return };
        let stable = self.status.stable.as_deref().and_then(|stable| self.revision(stable));
        let is_newer = |revision: &RevisionFact| stable.is_none_or(|stable| revision.number > stable.number);
        match self.revision(&candidate) {
            _ if self.it.commands.undo == Some(&*candidate) => self.roll_back("a user undid it"),
            None => self.roll_back("it is no longer active"),
            Some(revision) if !is_newer(revision) => self.roll_back("the stable revision is installed again"),
            Some(_) => {}
        }
    }

    /// Begin with a newer revision, unless one is being rolled out.
    fn start_candidate(&mut self) {
        let stable = self.status.stable.as_deref().and_then(|stable| self.revision(stable));
        let (None, Some(stable), Some(newest)) = (&self.status.candidate, stable, self.newest()) else {
            return;
        };
        let is_rejected = self.status.rejected.as_ref() == Some(&newest.name)
            && self.it.commands.promote != Some(&*newest.name);
        if newest.number <= stable.number || is_rejected {
            return;
        }
        let status = &mut self.status;
        status.rejected = None;
        status.candidate = Some(newest.name.clone());
        status.started_at = Some(time(self.it.now));
        status.wave = i64::from(!self.it.spec.preview);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        (status.differences, status.examples) = (BTreeMap::new(), Vec::new());
        status.state =
            if self.it.spec.preview { RolloutState::Previewing } else { RolloutState::Progressing };
        let message = format!("rolls out `{}` in place of `{}`", newest.name, stable.name);
        self.tell(EventKind::Normal, "RolloutStarted", &message);
    }

    /// Move on with a candidate: judge those that were moved, then move more of them.
    fn progress(&mut self, candidate: &str) {
        if self.it.commands.promote == Some(candidate) {
            return self.promote("a user promoted it");
        }
        let all = self.ranked(candidate);
        self.count(&all);
        self.note_trials();
        if all.is_empty() {
            return self.promote("there is no composite resource that it could be tried for");
        }
        if self.status.wave == 0 && !self.has_previewed(&all) {
            return;
        }
        let failed: Vec<_> = all.iter().filter(|it| it.standing == Standing::Failed).collect();
        if failed.len() > limit(self.it.spec.max_failures) {
            return self.fail(candidate, &failed);
        }
        if self.status.rejected.as_deref() == Some(candidate) {
            // It has failed before: only a user can go on.
            return;
        }
        if self.it.spec.paused {
            self.status.state = RolloutState::Paused;
            "paused by `spec.paused`".clone_into(&mut self.status.message);
            return;
        }
        self.status.state = RolloutState::Progressing;
        self.advance(candidate, &all);
    }

    /// Whether the candidate has been tried for all. One that could not be tried in time is tried when it is moved.
    fn has_previewed(&mut self, all: &[Ranked<'_>]) -> bool {
        let untried = all.iter().filter(|it| it.subject.trial.is_none() && !it.subject.is_paused).count();
        let started = self.status.started_at.as_deref().and_then(seconds).unwrap_or_default();
        let left = started + self.it.spec.progress_deadline_seconds - self.it.now;
        if untried == 0 || left < 0 {
            self.status.wave = 1;
            return true;
        }
        self.status.state = RolloutState::Previewing;
        self.status.message =
            format!("it has been tried for {} of {} composite resources", all.len() - untried, all.len());
        self.look_again_in(left + 1);
        false
    }

    /// Move the next ones, if those before are ready.
    fn advance(&mut self, candidate: &str, all: &[Ranked<'_>]) {
        let waves = &self.it.spec.waves;
        let moved = all.iter().filter(|it| it.has_moved).count();
        let unready = all.iter().filter(|it| it.has_moved && it.standing == Standing::Unready).count();
        loop {
            let number = limit(self.status.wave).max(1);
            let share = waves.get(number - 1).map_or("100%", String::as_str);
            let wanted = count(share, all.len()).max(1);
            if moved < wanted {
                return self.move_more(candidate, all, wanted - moved, unready);
            }
            if unready > 0 {
                return self.wait_for_ready(unready);
            }
            let since =
                self.status.cohort.last().and_then(|last| seconds(&last.moved_at)).unwrap_or_default();
            let elapsed = self.it.now - since;
            if elapsed < self.it.spec.min_ready_seconds {
                self.status.message = format!("wave {number} ({share}) is ready, and is observed");
                return self.look_again_in(self.it.spec.min_ready_seconds - elapsed);
            }
            if number >= waves.len() {
                return self.promote("all composite resources are ready with it");
            }
            self.status.wave = i64::try_from(number + 1).unwrap_or(i64::MAX);
            let next = waves.get(number).map_or("100%", String::as_str);
            let message = format!("wave {} ({next}) of `{candidate}` begins", number + 1);
            self.tell(EventKind::Normal, "WaveStarted", &message);
        }
    }

    /// Move some of those that wait, as many as may be unready.
    fn move_more(&mut self, candidate: &str, all: &[Ranked<'_>], wanted: usize, unready: usize) {
        let most = at_most(&self.it.spec.max_unavailable, all.len()).max(1);
        let allowed = most.saturating_sub(unready).min(wanted);
        if allowed == 0 {
            return self.wait_for_ready(unready);
        }
        let now = time(self.it.now);
        let waiting = || all.iter().filter(|it| !it.has_moved);
        // Those that were there when the others were moved come before those that were created since: to count both would move all
        // new ones at once whose hash happens to be low.
        let until = self.status.cohort.last().map(|last| last.until.clone()).unwrap_or_default();
        let older: Vec<_> = waiting().filter(|it| it.subject.created < until).take(allowed).collect();
        let is_new = older.is_empty();
        let next = if is_new {
            waiting().filter(|it| it.subject.created < now).take(allowed).collect()
        } else {
            older
        };
        let Some(last) = next.last() else {
            // They were created within this second, in which more may be.
            return self.look_again_in(1);
        };
        let bound = format!("{:016x}", last.place);
        match self.status.cohort.last_mut() {
            Some(cohort) if !is_new => (cohort.bound, cohort.moved_at) = (bound, now),
            before => {
                if let Some(before) = before {
                    before.bound = format!("{LAST:016x}");
                }
                self.status.cohort.push(RolloutCohort { until: now.clone(), bound, moved_at: now });
                // The last but one has everybody who was there before.
                let count = self.status.cohort.len();
                self.status.cohort.drain(..count.saturating_sub(2));
            }
        }
        for it in next.iter().filter(|it| it.subject.health != Health::Ready) {
            if self.status.unready_before.len() < MOST_UNREADY {
                self.status.unready_before.push(key(candidate, it.subject));
            }
        }
        let moved = i64::try_from(next.len()).unwrap_or(i64::MAX);
        self.status.composites.moved = self.status.composites.moved.saturating_add(moved);
        self.status.message = format!(
            "wave {}: {} of {} composite resources have been moved",
            self.status.wave, self.status.composites.moved, self.status.composites.total
        );
        self.look_again_in(self.it.spec.progress_deadline_seconds + 1);
    }

    fn wait_for_ready(&mut self, unready: usize) {
        self.status.message = format!(
            "wave {}: {unready} composite resources have been moved and are not ready yet",
            self.status.wave
        );
        self.look_again_in(self.it.spec.progress_deadline_seconds.clamp(1, 60));
    }

    /// All composite resources that may be moved, in their order.
    fn ranked(&self, candidate: &str) -> Vec<Ranked<'a>> {
        let Some(overlay) = Overlay::of(self.it.spec, &self.status) else { return Vec::new() };
        let movable = self.it.subjects.iter().filter(|subject| !subject.is_manual);
        let mut ranked: Vec<_> = movable
            .map(|subject| {
                let Subject { uid, created, is_first, .. } = subject;
                let has_moved = overlay.has_moved(Member { uid, created, is_first: *is_first });
                let standing = match subject.trial {
                    _ if has_moved => self.standing(candidate, subject),
                    Some(difference) if overlay.is_preview && is_refused(difference, &overlay.refuse) => {
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

    /// How one is doing that has been moved, compared with how it was doing before.
    fn standing(&self, candidate: &str, subject: &Subject) -> Standing {
        if subject.trial.is_some_and(|difference| is_refused(difference, &self.it.spec.refuse)) {
            return Standing::Failed;
        }
        // Whoever does the same as the old revision is not to blame for what is wrong.
        let is_blameless =
            subject.trial == Some(RolloutDifference::Equal) && subject.health == Health::Failed;
        if subject.is_paused || is_blameless || self.status.unready_before.contains(&key(candidate, subject))
        {
            return Standing::Ready;
        }
        let has_run = subject.ran.iter().any(|revision| revision == candidate);
        if subject.health == Health::Ready && has_run {
            return Standing::Ready;
        }
        let started = self.status.started_at.as_deref().and_then(seconds).unwrap_or_default();
        if subject.health == Health::Failed && subject.since >= started {
            return Standing::Failed;
        }
        let moved = self.status.cohort.last().and_then(|last| seconds(&last.moved_at)).unwrap_or_default();
        let since = if has_run { subject.since.max(started) } else { moved };
        let is_late = self.it.now - since > self.it.spec.progress_deadline_seconds;
        if is_late { Standing::Failed } else { Standing::Unready }
    }

    fn count(&mut self, all: &[Ranked<'_>]) {
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

    /// Note how the candidate differed. What was noted before a restart is not forgotten.
    fn note_trials(&mut self) {
        for (difference, count) in &self.it.tried.differences {
            let noted = self.status.differences.entry(difference.clone()).or_default();
            *noted = (*noted).max(*count);
        }
        if !self.it.tried.examples.is_empty() {
            self.status.examples.clone_from(&self.it.tried.examples);
        }
    }

    fn fail(&mut self, candidate: &str, failed: &[&Ranked<'_>]) {
        let refused = |subject: &Subject| subject.trial.filter(|it| is_refused(*it, &self.it.spec.refuse));
        let why = |subject: &Subject| match (refused(subject), subject.health) {
            (Some(difference), _) => format!("refused: {}", difference.as_str()),
            (None, Health::Failed) => "not synced".to_owned(),
            (None, _) => "not ready in time".to_owned(),
        };
        let first = failed.iter().min_by_key(|it| &it.subject.name);
        let first = first.map(|it| format!("{} ({})", it.subject.name, why(it.subject))).unwrap_or_default();
        let mut reason = match failed.len() {
            1 => format!("{first} fails with it"),
            count => format!("{count} composite resources fail with it, among them {first}"),
        };
        if let Some(example) = self.status.examples.first() {
            reason = format!("{reason}: {example}");
        }
        if self.it.spec.on_failure == RolloutFailurePolicy::RollBack {
            return self.roll_back(&reason);
        }
        let is_new = self.status.rejected.as_deref() != Some(candidate);
        self.status.state = RolloutState::Paused;
        self.status.rejected = Some(candidate.to_owned());
        self.status.message = format!("paused, because {reason}; promote or undo `{candidate}`");
        if is_new {
            let message = self.status.message.clone();
            self.tell(EventKind::Warning, "RolloutPaused", &message);
        }
    }

    fn roll_back(&mut self, reason: &str) {
        let Some(candidate) = self.status.candidate.take() else { return };
        let message = format!("`{candidate}` was rolled back: {reason}");
        self.record(&candidate, RolloutState::RolledBack, reason);
        self.tell(EventKind::Warning, "RolledBack", &message);
        let status = &mut self.status;
        (status.state, status.message) = (RolloutState::RollingBack, message);
        (status.rejected, status.wave) = (Some(candidate), 0);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
    }

    /// Note when nobody calls any more what was rolled back.
    fn settle_rollback(&mut self) {
        if self.status.state != RolloutState::RollingBack {
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

    fn promote(&mut self, reason: &str) {
        let Some(candidate) = self.status.candidate.take() else { return };
        let message = format!("`{candidate}` is called by all: {reason}");
        self.record(&candidate, RolloutState::Promoted, reason);
        self.tell(EventKind::Normal, "Promoted", &message);
        let status = &mut self.status;
        (status.state, status.message) = (RolloutState::Promoted, message);
        status.previous = status.stable.replace(candidate);
        (status.rejected, status.wave) = (None, 0);
        (status.cohort, status.unready_before) = (Vec::new(), Vec::new());
        self.look_again = None;
    }

    fn record(&mut self, candidate: &str, result: RolloutState, reason: &str) {
        let record = RolloutRecord {
            revision: candidate.to_owned(),
            from: self.status.stable.clone().unwrap_or_default(),
            result,
            message: reason.to_owned(),
            started_at: self.status.started_at.take().unwrap_or_default(),
            ended_at: time(self.it.now),
        };
        self.status.history.insert(0, record);
        self.status.history.truncate(MOST_RECORDS);
    }

    fn tell(&mut self, kind: EventKind, reason: &'static str, message: &str) {
        message.clone_into(&mut self.status.message);
        self.events.push((kind, reason, message.to_owned()));
    }

    fn look_again_in(&mut self, seconds: i64) {
        self.look_again = Some(Duration::from_secs(seconds.max(1).unsigned_abs()));
    }
}

/// What a composite resource is noted by.
fn key(candidate: &str, subject: &Subject) -> String {
    format!("{:016x}", place(candidate, &subject.uid, false))
}

fn limit(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// A second since 1970, as the API writes it.
fn time(second: i64) -> String {
    calendar::format(second) + "Z"
}

fn seconds(time: &str) -> Option<i64> {
    rfc3339::moment(time).map(|moment| moment.seconds)
}
