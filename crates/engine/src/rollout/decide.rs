//! Computes the next status of a rollout.
//!
//! | File | What it decides |
//! |---|---|
//! | `requests` | Which requests of users have to be handled |
//! | `candidate` | Which revision is stable, and which one is rolled out |
//! | `judgement` | The state of moved composite resources, and whether the rollout fails |
//! | `gates` | Whether calls of the candidate fail too often, or take too long |
//! | `waves` | Which composite resources are moved next |
//! | `ending` | What is recorded when a rollout ends |

mod candidate;
mod ending;
mod gates;
mod judgement;
mod requests;
mod waves;

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_api::{Cause, FunctionRolloutSpec, FunctionRolloutStatus, RolloutState};
use ferroplane_golang::time::{calendar, rfc3339};

pub use gates::{CallCounts, CallStatistics};
use judgement::Standing;
use requests::Requests;

use super::overlay::place;
use super::restart::Restart;
use super::subject::Subject;

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
    /// A definition whose composite resources cannot be read yet, and may call the function. Nothing is moved without them.
    pub unestablished: Option<&'a str>,
    pub tried: &'a Tried,
    /// Calls of the stable revision and of the candidate.
    pub calls: CallCounts,
    pub restart: Restart,
    /// In seconds since 1970.
    pub now: i64,
}

impl Observation<'_> {
    /// Whether the decision depends on composite resources. Otherwise they need not be read.
    pub fn needs_subjects(&self) -> bool {
        let status = self.status;
        let is_active = |it: &&RevisionFact| it.is_active && it.is_serving;
        let newest = self.revisions.iter().filter(is_active).max_by_key(|it| it.number);
        let newest = newest.map(|it| it.name.as_str());
        let Requests { promote, undo } = self.requests();
        let is_known =
            status.stable.as_deref() == newest || (status.rejected.as_deref() == newest && promote != newest);
        let undoes = undo.is_some() && undo == status.stable.as_deref();
        status.candidate.is_some() || status.state == RolloutState::RollingBack || !is_known || undoes
    }
}

/// What users request through annotations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Commands<'a> {
    /// The revision to promote.
    pub promote: Option<&'a str>,
    /// The revision to undo.
    pub undo: Option<&'a str>,
    /// When that was requested, if it is known.
    pub requested_at: Option<&'a str>,
}

/// A revision of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionFact {
    pub name: String,
    pub number: u64,
    pub is_active: bool,
    /// Whether it has responded since it was activated.
    pub is_serving: bool,
}

/// The differences that trials of the candidate found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried {
    pub differences: BTreeMap<String, i64>,
    pub examples: Vec<Example>,
    /// The kinds and names of some resources that only the candidate composes.
    pub added: Vec<String>,
}

/// A difference that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    /// For people.
    pub message: String,
    /// The recorded reconcile that shows it, for `ferroplane replay show`.
    pub recording: String,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub status: FunctionRolloutStatus,
    /// The events to record: cause, reason and message. Those with a cause are warnings.
    pub events: Vec<(Option<Cause>, &'static str, String)>,
    /// When to decide again, even if nothing changes.
    pub requeue_after: Option<Duration>,
}

/// Decide the next status.
pub fn decide(observation: &Observation<'_>) -> Decision {
    let mut rollout = Rollout {
        it: *observation,
        requests: observation.requests(),
        status: observation.status.clone(),
        events: Vec::new(),
        requeue_after: None,
    };
    rollout.forget_future();
    rollout.step();
    rollout.record_requests();
    let Rollout { mut status, events, requeue_after, .. } = rollout;
    // Calls are counted all the time. A change of the counts alone is not worth a write.
    if observation.status.candidate.is_some() && status != *observation.status {
        status.calls = observation.calls.into();
    }
    Decision { status, events, requeue_after }
}

/// A rollout, while its next status is made.
struct Rollout<'a> {
    it: Observation<'a>,
    requests: Requests<'a>,
    status: FunctionRolloutStatus,
    events: Vec<(Option<Cause>, &'static str, String)>,
    requeue_after: Option<Duration>,
}

impl Rollout<'_> {
    fn step(&mut self) {
        if !self.keep_stable() {
            return;
        }
        self.undo_stable();
        self.end_candidate();
        self.start_candidate();
        if let Some(candidate) = self.status.candidate.clone() {
            self.progress(&candidate);
        } else {
            self.settle_rollback();
            self.name_awaited();
        }
    }

    /// Replace times in the future by the present. They were recorded before the clock was set back, and waiting for them would take too
    /// long.
    fn forget_future(&mut self) {
        let now = time(self.it.now);
        let moved = self.status.cohort.iter_mut().map(|cohort| &mut cohort.moved_at);
        let times = [&mut self.status.started_at, &mut self.status.wave_ready_at].into_iter().flatten();
        for noted in moved.chain(times).filter(|noted| **noted > now) {
            now.clone_into(noted);
        }
    }

    /// Continue with a candidate: check the moved composite resources, then move more of them.
    fn progress(&mut self, candidate: &str) {
        if self.requests.promote == Some(candidate) {
            return self.promote("a user promoted it");
        }
        let all = self.ranked(candidate);
        self.count(&all);
        self.note_trials();
        if all.is_empty() && !self.waits_for_definition() {
            return self.promote("there is no composite resource that it could be tried for");
        }
        if let Some(left) = self.start_time_left() {
            // Those that cannot be composed until then are checked at that time, even if nothing changes.
            self.requeue_in(left);
        }
        if self.status.wave == 0 && !self.has_previewed(&all) {
            return;
        }
        if let Some(failure) = self.failure(&all) {
            return self.fail(candidate, &failure);
        }
        if self.status.rejected.as_deref() == Some(candidate) {
            // It has failed before: only a user can continue it.
            return;
        }
        if self.it.spec.paused {
            self.status.state = RolloutState::Paused;
            "Paused by `spec.paused`".clone_into(&mut self.status.message);
            let is_open = all.iter().any(|it| it.has_moved && it.standing == Standing::Unready);
            if is_open && self.requeue_after.is_none() {
                // They fail if they are not ready in time, even if nothing changes.
                self.requeue_in(self.it.spec.progress_deadline_seconds.clamp(1, 60));
            }
            return;
        }
        self.status.state = RolloutState::Progressing;
        if !self.waits_for_definition() && !self.waits_for_start(candidate, &all) {
            self.advance(candidate, &all);
        }
    }

    /// Whether there may be more composite resources than are known. None is moved meanwhile: it would be too many of all.
    fn waits_for_definition(&mut self) -> bool {
        let Some(definition) = self.it.unestablished else { return false };
        self.status.message = waits_for(definition);
        true
    }

    /// Record an event. It is a warning if it has a cause.
    fn tell(&mut self, cause: Option<Cause>, reason: &'static str, message: &str) {
        message.clone_into(&mut self.status.message);
        self.events.push((cause, reason, message.to_owned()));
    }

    /// For how many more seconds functions may be starting with the control plane, if they may.
    fn start_time_left(&self) -> Option<i64> {
        self.it.restart.time_left(self.it.spec.progress_deadline_seconds)
    }

    fn requeue_in(&mut self, seconds: i64) {
        self.requeue_after = Some(Duration::from_secs(seconds.max(1).unsigned_abs()));
    }
}

/// What a rollout waits for that needs the composite resources of a definition.
pub fn waits_for(definition: &str) -> String {
    format!(
        "Waiting until CompositeResourceDefinition `{definition}` is established: its composite resources may use the revision"
    )
}

/// The hash by which the status lists a composite resource.
pub(super) fn key(candidate: &str, subject: &Subject) -> String {
    format!("{:016x}", place(candidate, &subject.uid, false))
}

fn limit(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// A time in seconds since 1970, as the API writes it.
fn time(second: i64) -> String {
    calendar::format(second) + "Z"
}

fn seconds(time: &str) -> Option<i64> {
    rfc3339::moment(time).map(|moment| moment.seconds)
}
