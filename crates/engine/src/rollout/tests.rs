//! A fleet of composite resources, and revisions that behave or misbehave.

mod edits;
mod requests;
mod waits;

use std::time::Duration;

use ferroplane_api::{
    FunctionRolloutSpec, FunctionRolloutStatus, RolloutDifference, RolloutFailurePolicy, RolloutState,
};
use proptest::prelude::*;
use serde_json::json;

use super::overlay::{Choice, Member, Overlay};
use super::{
    CallCounts, CallStatistics, Commands, Decision, Example, Health, Observation, Restart, RevisionFact,
    Subject, Tried, decide,
};
use crate::status_size::json_size;

const START: i64 = 1_800_000_000;

/// What becomes of a composite resource that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ready,
    NeverReady,
    Storms,
    Fails,
    Uncallable,
    Refused(RolloutDifference),
}

/// What becomes of a composite resource that is moved in a wave.
type FateOf = Box<dyn Fn(&Subject, i64) -> Fate>;

struct Fleet {
    spec: FunctionRolloutSpec,
    status: FunctionRolloutStatus,
    revisions: Vec<RevisionFact>,
    subjects: Vec<Subject>,
    fate: FateOf,
    promote: Option<String>,
    undo: Option<String>,
    requested_at: Option<String>,
    unestablished: Option<String>,
    tried: Tried,
    calls: CallCounts,
    restart: Restart,
    now: i64,
    events: Vec<&'static str>,
    /// How often each was moved, there or back.
    moves: Vec<usize>,
    /// The most that were harmed at the same time.
    most_harmed: usize,
}

fn revision(name: &str, number: u64) -> RevisionFact {
    RevisionFact { name: name.to_owned(), number, is_active: true, is_serving: true }
}

fn subject(number: usize) -> Subject {
    Subject {
        uid: format!("uid-{number}"),
        name: format!("Site default/site-{number}"),
        created: "2026-01-01T00:00:00Z".to_owned(),
        is_first: false,
        is_manual: false,
        is_paused: false,
        ran: vec!["v1".to_owned()],
        health: Health::Ready,
        since: 0,
        trial: None,
        was_composed: false,
        recorded_as: format!("Site/site-{number} -n default"),
    }
}

impl Fleet {
    /// So many composite resources that are composed by `v1`.
    fn of(count: usize) -> Self {
        let spec = json!({"functionRef": {"name": "own"}, "minReadySeconds": 30});
        let mut fleet = Self {
            spec: serde_json::from_value(spec).unwrap(),
            status: FunctionRolloutStatus::default(),
            revisions: vec![revision("v1", 1)],
            subjects: (0..count).map(subject).collect(),
            fate: Box::new(|_, _| Fate::Ready),
            promote: None,
            undo: None,
            requested_at: None,
            unestablished: None,
            tried: Tried::default(),
            calls: CallCounts::default(),
            restart: Restart::default(),
            now: START,
            events: Vec::new(),
            moves: vec![0; count],
            most_harmed: 0,
        };
        fleet.step();
        assert_eq!(fleet.status.stable.as_deref(), Some("v1"));
        fleet
    }

    fn with_fate(mut self, fate: impl Fn(&Subject, i64) -> Fate + 'static) -> Self {
        self.fate = Box::new(fate);
        self
    }

    fn install(&mut self, name: &str, number: u64) {
        self.revisions.push(revision(name, number));
    }

    fn decide(&self) -> Decision {
        let commands = Commands {
            promote: self.promote.as_deref(),
            undo: self.undo.as_deref(),
            requested_at: self.requested_at.as_deref(),
        };
        decide(&Observation {
            spec: &self.spec,
            status: &self.status,
            commands,
            revisions: &self.revisions,
            subjects: &self.subjects,
            unestablished: self.unestablished.as_deref(),
            tried: &self.tried,
            calls: self.calls,
            restart: self.restart,
            now: self.now,
        })
    }

    /// Decide, let composite resources do what follows, and let time pass.
    fn step(&mut self) {
        let decision = self.decide();
        assert_eq!(decision, self.decide(), "the same inputs give the same decision");
        // What is not in the status is lost, as when the plane is killed.
        let text = serde_json::to_string(&decision.status).unwrap();
        assert!(text.len() < 20_000, "a status of {} bytes", text.len());
        self.status = serde_json::from_str(&text).unwrap();
        assert_eq!(self.status, decision.status);
        for message in decision.events.iter().map(|(_, _, it)| it).chain([&decision.status.message]) {
            let is_sentence = !message.starts_with(char::is_lowercase) && !message.ends_with('.');
            assert!(is_sentence, "without a capital letter, or with a full stop: {message}");
        }
        self.events.extend(decision.events.iter().map(|(_, reason, _)| *reason));
        let pause = decision.requeue_after.unwrap_or(Duration::from_secs(1));
        self.now += i64::try_from(pause.as_secs()).unwrap();
        self.restart.uptime += pause;
        self.run();
    }

    fn run(&mut self) {
        let Some(overlay) = Overlay::of(&self.spec, &self.status) else { return };
        if overlay.is_preview {
            for index in 0..self.subjects.len() {
                let trial = match (self.fate)(&self.subjects[index], 0) {
                    Fate::Refused(difference) => difference,
                    Fate::Fails | Fate::Uncallable => RolloutDifference::Fails,
                    Fate::Ready | Fate::NeverReady | Fate::Storms => RolloutDifference::Changed,
                };
                self.subjects[index].trial = Some(trial.into());
            }
        }
        for (index, subject) in self.subjects.iter_mut().enumerate() {
            let Subject { uid, created, is_first, .. } = &*subject;
            let member = Member { uid, created, is_first: *is_first };
            let has_moved = !subject.is_manual && overlay.has_moved(member);
            let calls = match (has_moved, subject.is_manual) {
                (true, _) => overlay.revision(Choice::Candidate),
                (false, true) => overlay.revision(Choice::Previous),
                (false, false) => &overlay.stable,
            };
            let (calls, ran_before) = (Some(calls.to_owned()), subject.ran.first().cloned());
            let fate = if has_moved { (self.fate)(subject, self.status.wave) } else { Fate::Ready };
            let mut outcome = |ran: Option<String>, health: Health| {
                let ran: Vec<_> = ran.into_iter().collect();
                if subject.ran != ran {
                    self.moves[index] += 1;
                }
                if subject.health != health {
                    subject.since = self.now;
                }
                (subject.ran, subject.health) = (ran, health);
            };
            match fate {
                Fate::Ready => outcome(calls, Health::Ready),
                Fate::NeverReady => outcome(calls, Health::NotReady),
                Fate::Storms => outcome(calls, Health::Disturbed),
                Fate::Fails => outcome(Some(overlay.stable.clone()), Health::Failed),
                Fate::Uncallable => outcome(ran_before, Health::Uncallable),
                Fate::Refused(difference) => {
                    outcome(Some(overlay.stable.clone()), Health::Ready);
                    subject.trial = Some(difference.into());
                }
            }
        }
        let harmed = self.subjects.iter().filter(|it| it.health != Health::Ready).count();
        self.most_harmed = self.most_harmed.max(harmed);
    }

    /// Continue until nothing changes any more.
    fn finish(&mut self) -> RolloutState {
        for _ in 0..10_000 {
            let before = self.status.clone();
            self.step();
            if before == self.status && self.status.candidate.is_none() {
                return self.status.state;
            }
        }
        self.status.state
    }

    fn calling(&self, revision: &str) -> usize {
        self.subjects.iter().filter(|it| it.ran.iter().any(|ran| ran == revision)).count()
    }
}

#[test]
fn revision_that_behaves_reaches_all_in_waves_and_is_promoted() {
    let mut fleet = Fleet::of(1000);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!((fleet.calling("v2"), fleet.status.state), (1, RolloutState::Progressing));
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    assert_eq!(fleet.calling("v2"), 1000);
    assert_eq!(fleet.events, ["RolloutStarted", "WaveStarted", "WaveStarted", "WaveStarted", "Promoted"]);
    assert!(fleet.now - START >= 4 * 30, "each wave is observed");
    assert_eq!(fleet.status.previous.as_deref(), Some("v1"));
    assert_eq!(fleet.status.history[0].result, RolloutState::Promoted);
}

#[test]
fn at_most_one_percent_are_harmed_whatever_goes_wrong_and_in_whichever_wave() {
    for fate in [Fate::Fails, Fate::NeverReady, Fate::Storms, Fate::Refused(RolloutDifference::Deleted)] {
        for wave in 1..=4 {
            // Those of earlier waves continue well: only whoever is moved in this wave is harmed.
            let mut fleet = Fleet::of(1000).with_fate(move |subject, now| {
                let is_new = !subject.ran.iter().any(|ran| ran == "v2") || subject.health != Health::Ready;
                if now >= wave && is_new { fate } else { Fate::Ready }
            });
            fleet.install("v2", 2);
            assert_eq!(fleet.finish(), RolloutState::RolledBack, "{fate:?} in wave {wave}");
            assert!(fleet.most_harmed <= 10, "{} harmed by {fate:?} in wave {wave}", fleet.most_harmed);
            assert_eq!(fleet.calling("v1"), 1000);
            assert!(fleet.subjects.iter().all(|it| it.health == Health::Ready));
            assert_eq!(fleet.status.rejected.as_deref(), Some("v2"));
        }
    }
}

#[test]
fn revision_whose_calls_fail_too_often_goes_back_though_all_are_ready() {
    let mut fleet = Fleet::of(100);
    fleet.spec.max_failures = 10;
    fleet.install("v2", 2);
    fleet.step();
    fleet.step();
    let statistics = |errors: u64| CallStatistics { total: 40, errors, ..CallStatistics::default() };
    fleet.calls = CallCounts { stable: statistics(0), candidate: statistics(4) };
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let record = &fleet.status.history[0];
    assert!(record.message.contains("4 of 40 calls fail with it"), "{}", record.message);
    assert_eq!(fleet.status.calls.candidate.errors, 4);
    assert_eq!(fleet.calling("v1"), 100);
}

#[test]
fn storm_that_was_there_before_is_not_held_against_a_revision_and_a_new_one_is() {
    let mut fleet = Fleet::of(50).with_fate(|_, _| Fate::Storms);
    fleet.install("v2", 2);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let message = &fleet.status.history[0].message;
    assert!(message.contains("its composed resources keep changing"), "{message}");

    let mut fleet = Fleet::of(50).with_fate(|_, _| Fate::Storms);
    fleet.install("v2", 2);
    for _ in 0..1000 {
        for subject in &mut fleet.subjects {
            subject.health = Health::Disturbed;
        }
        fleet.step();
    }
    assert_eq!(fleet.status.state, RolloutState::Promoted);
}

#[test]
fn reason_of_a_rollback_names_the_recording_that_shows_it() {
    let mut fleet = Fleet::of(1).with_fate(|_, _| Fate::NeverReady);
    fleet.install("v2", 2);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let recording = &fleet.status.history[0].recording;
    assert!(recording.starts_with("Site/site-0 -n default --at 2027-"), "{recording}");
}

#[test]
fn preview_finds_what_is_refused_before_anybody_moves() {
    let is_bad = |subject: &Subject| subject.uid == "uid-7";
    let bad = move |subject: &Subject, _| {
        if is_bad(subject) { Fate::Refused(RolloutDifference::Deleted) } else { Fate::Ready }
    };
    let mut fleet = Fleet::of(100).with_fate(bad);
    (fleet.spec.preview, fleet.spec.paused) = (true, true);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!((fleet.status.state, fleet.status.wave), (RolloutState::Previewing, 0));
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    assert!(fleet.moves.iter().all(|moves| *moves == 0));

    let mut fleet = Fleet::of(100);
    fleet.spec.preview = true;
    fleet.install("v2", 2);
    assert_eq!(fleet.finish(), RolloutState::Promoted);
}

#[test]
fn revision_that_was_rolled_back_is_not_tried_again_and_a_newer_one_is() {
    let mut fleet = Fleet::of(10).with_fate(|_, _| Fate::Fails);
    fleet.install("v2", 2);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let status = fleet.status.clone();
    fleet.step();
    assert_eq!(fleet.status, status);
    fleet.fate = Box::new(|_, _| Fate::Ready);
    fleet.install("v3", 3);
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    assert_eq!((fleet.calling("v3"), fleet.status.history.len()), (10, 2));
}

#[test]
fn newer_revision_waits_until_the_one_under_way_has_ended() {
    let mut fleet = Fleet::of(200);
    fleet.install("v2", 2);
    fleet.step();
    fleet.install("v3", 3);
    for _ in 0..3 {
        fleet.step();
        assert_eq!(fleet.status.candidate.as_deref(), Some("v2"));
    }
    fleet.finish();
    assert_eq!(fleet.status.stable.as_deref(), Some("v3"));
    assert!(fleet.moves.iter().all(|moves| *moves == 2), "each went from v1 to v2 and from v2 to v3");
}

#[test]
fn users_promote_undo_and_pause() {
    let mut fleet = Fleet::of(100);
    fleet.spec.paused = true;
    fleet.install("v2", 2);
    for _ in 0..5 {
        fleet.step();
    }
    assert_eq!((fleet.status.state, fleet.calling("v2")), (RolloutState::Paused, 0));
    fleet.promote = Some("v2".to_owned());
    fleet.step();
    assert_eq!((fleet.status.state, fleet.calling("v2")), (RolloutState::Promoted, 100));
    (fleet.promote, fleet.undo) = (None, Some("v2".to_owned()));
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    assert_eq!((fleet.calling("v1"), fleet.status.stable.as_deref()), (100, Some("v1")));
    (fleet.promote, fleet.undo) = (Some("v2".to_owned()), None);
    assert_eq!(fleet.finish(), RolloutState::Promoted);
}

#[test]
fn clock_that_is_set_back_holds_up_nobody() {
    let mut fleet = Fleet::of(20);
    fleet.install("v2", 2);
    fleet.step();
    fleet.now = START - 100_000;
    fleet.finish();
    assert_eq!(fleet.status.state, RolloutState::Promoted);
    assert!(fleet.now < START, "it took {} s", fleet.now - START + 100_000);
}

#[test]
fn clock_that_jumps_ahead_leaves_all_with_one_revision() {
    for unready in [false, true] {
        let mut fleet =
            Fleet::of(300).with_fate(move |_, _| if unready { Fate::NeverReady } else { Fate::Ready });
        fleet.install("v2", 2);
        fleet.step();
        fleet.step();
        fleet.now += 365 * 24 * 3600;
        let state = fleet.finish();
        let (revision, most) = if unready { ("v1", 3) } else { ("v2", 0) };
        assert_eq!(fleet.calling(revision), 300, "{state:?}");
        assert!(fleet.most_harmed <= most, "{} harmed", fleet.most_harmed);
    }
}

/// A rollout whose first wave is ready when the control plane is started again.
fn resumed() -> Fleet {
    let mut fleet = Fleet::of(100);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!((fleet.status.composites.moved, fleet.calling("v2")), (1, 1));
    fleet.restart = Restart { is_resumed: true, ..Restart::default() };
    fleet
}

#[test]
fn function_that_starts_slowly_after_a_restart_is_not_rolled_back() {
    let mut fleet = resumed().with_fate(|_, _| Fate::Uncallable);
    fleet.run();
    while fleet.restart.uptime < Duration::from_mins(1) {
        fleet.step();
        assert_eq!((fleet.status.state, fleet.status.composites.moved), (RolloutState::Progressing, 1));
        assert!(fleet.status.message.contains("started again"), "{}", fleet.status.message);
    }
    fleet.restart.has_answered = true;
    fleet.fate = Box::new(|_, _| Fate::Ready);
    fleet.run();
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    assert!(fleet.moves.iter().all(|moves| *moves == 1), "nobody went back");
}

#[test]
fn function_that_is_dead_after_a_restart_is_rolled_back_when_it_had_its_time() {
    for paused in [false, true] {
        let mut fleet = resumed().with_fate(|_, _| Fate::Uncallable);
        fleet.spec.paused = paused;
        fleet.run();
        while fleet.status.candidate.is_some() {
            fleet.step();
        }
        let uptime = fleet.restart.uptime.as_secs();
        assert!((120..=125).contains(&uptime), "rolled back after {uptime} s");
        assert_eq!(fleet.finish(), RolloutState::RolledBack);
        assert_eq!((fleet.calling("v1"), fleet.most_harmed), (100, 1));
    }
}

#[test]
fn composite_resources_that_must_be_ready_soon_do_not_wait_longer_for_a_restart() {
    let mut fleet = resumed().with_fate(|_, _| Fate::Uncallable);
    fleet.spec.progress_deadline_seconds = 20;
    fleet.run();
    while fleet.status.candidate.is_some() {
        fleet.step();
    }
    assert!((20..=25).contains(&fleet.restart.uptime.as_secs()), "{:?}", fleet.restart.uptime);
}

#[test]
fn function_that_cannot_be_called_in_normal_running_is_rolled_back_at_once() {
    // Without a restart, long after one, and after one when the old revision answers and the new one is seen to fail.
    let long_ago = Restart { uptime: Duration::from_mins(10), is_resumed: true, has_answered: true };
    let lately = Restart { uptime: Duration::from_secs(5), ..long_ago };
    for (restart, fate) in [
        (Restart::default(), Fate::Uncallable),
        (long_ago, Fate::Uncallable),
        (lately, Fate::Refused(RolloutDifference::Fails)),
    ] {
        let mut fleet = resumed().with_fate(move |_, _| fate);
        fleet.restart = restart;
        fleet.run();
        fleet.step();
        assert_eq!(fleet.status.state, RolloutState::RollingBack, "{fate:?}, {restart:?}");
    }
}

#[test]
fn restart_does_not_use_up_the_time_to_become_ready() {
    let mut fleet = resumed().with_fate(|_, _| Fate::NeverReady);
    fleet.run();
    fleet.restart.has_answered = true;
    // The control plane was down for an hour.
    fleet.now += 3600;
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::Progressing);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
}

#[test]
fn nobody_is_moved_while_functions_start_again() {
    let mut fleet = resumed();
    fleet.restart.has_answered = true;
    let waiting = fleet.subjects.iter_mut().find(|subject| subject.ran == ["v1"]).unwrap();
    waiting.health = Health::Uncallable;
    let status = fleet.decide().status;
    assert_eq!((status.composites.moved, status.wave), (1, 1));
    assert!(status.unready_before.is_empty(), "{status:#?}");
    fleet.restart.uptime = Duration::from_mins(10);
    let message = fleet.decide().status.message;
    assert!(message.contains("is observed"), "the old revision had its time, too: {message}");
}

#[test]
fn calls_that_failed_while_functions_started_again_break_no_gate() {
    let mut fleet = resumed();
    let statistics = |errors: u64| CallStatistics { total: 40, errors, ..CallStatistics::default() };
    fleet.calls = CallCounts { stable: statistics(0), candidate: statistics(40) };
    assert_eq!(fleet.decide().status.state, RolloutState::Progressing);
    fleet.restart.has_answered = true;
    assert_eq!(fleet.decide().status.state, RolloutState::RollingBack, "calls count again once it answers");
}

#[test]
fn undo_ends_a_rollout_under_way() {
    let mut fleet = Fleet::of(100);
    fleet.install("v2", 2);
    fleet.step();
    fleet.undo = Some("v2".to_owned());
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    assert_eq!(fleet.calling("v1"), 100);
}

/// The status is written with every decision: if it were too large for the API server, the rollback would never be recorded.
#[test]
fn failure_whose_text_has_any_length_is_rolled_back() {
    let mut fleet = Fleet::of(100).with_fate(|_, _| Fate::Refused(RolloutDifference::Fails));
    fleet.install("v2", 2);
    fleet.step();
    let example = Example { message: "no way ".repeat(150_000), recording: "Site/site-0".to_owned() };
    fleet.tried.examples = vec![example; 5];
    let status = fleet.decide().status;
    assert_eq!(status.state, RolloutState::RollingBack);
    for message in [&status.message, &status.history[0].message, &status.examples[4]] {
        assert!(message.contains("no way") && message.ends_with("more bytes are left out)"), "{message}");
    }
    assert!(json_size(&status) < 100_000, "a status of {} bytes", json_size(&status));
}

#[test]
fn rollback_says_what_it_deletes() {
    let ended_with = |names: &[&str], added: i64, is_previewed: bool| {
        let mut fleet = Fleet::of(100);
        fleet.spec.preview = is_previewed;
        (fleet.spec.paused, fleet.spec.max_unavailable) = (is_previewed, "100%".to_owned());
        fleet.install("v2", 2);
        fleet.tried.differences.insert("Added".to_owned(), added);
        fleet.tried.added = names.iter().map(|name| (*name).to_owned()).collect();
        while fleet.status.state == RolloutState::Idle || (!is_previewed && fleet.calling("v2") < 10) {
            fleet.step();
        }
        fleet.undo = Some("v2".to_owned());
        fleet.finish();
        assert_eq!(fleet.status.state, RolloutState::RolledBack);
        assert!(fleet.status.message.ends_with(&fleet.status.history[0].message), "{:#?}", fleet.status);
        fleet.status.history[0].message.clone()
    };
    let undone = "a user undid it";
    assert_eq!(ended_with(&[], 0, false), undone);
    let lost = format!("{undone}; what only it composed is deleted");
    // A control plane that was restarted may know that something was added, and not what.
    assert_eq!(ended_with(&[], 1, false), format!("{lost}, for one composite resource"));
    let two = ["Secret `d`", "ConfigMap `c`"];
    assert_eq!(
        ended_with(&two, 7, false),
        format!("{lost} (ConfigMap `c`, Secret `d`), for up to 7 composite resources")
    );
    let many = ["Claim `a`", "Claim `b`", "Claim `c`", "Claim `d`", "Claim `e`", "Claim `f`"];
    let named = many[..5].join(", ");
    assert_eq!(
        ended_with(&many, 7, false),
        format!("{lost} (for example {named}), for up to 7 composite resources")
    );
    assert_eq!(ended_with(&two, 7, true), undone, "a preview applies nothing");
}

#[test]
fn rollback_deletes_nothing_where_the_candidate_was_refused() {
    let mut fleet = Fleet::of(100).with_fate(|_, _| Fate::Refused(RolloutDifference::Renamed));
    fleet.install("v2", 2);
    fleet.step();
    fleet.tried.differences.insert("Renamed".to_owned(), 1);
    fleet.tried.added = vec!["ConfigMap `c`".to_owned()];
    let status = fleet.decide().status;
    assert_eq!(status.state, RolloutState::RollingBack);
    assert!(!status.message.contains("is deleted"), "{}", status.message);
}

/// Five are refused in the preview and were never moved. One was moved, and has a resource that only the candidate composes.
#[test]
fn rollback_says_what_it_deletes_though_others_were_refused() {
    let mut fleet =
        Fleet::of(100).with_fate(|subject, _| match subject.uid.strip_prefix("uid-").unwrap().parse() {
            Ok(0..5) => Fate::Refused(RolloutDifference::Deleted),
            _ => Fate::Ready,
        });
    (fleet.spec.preview, fleet.spec.max_failures) = (true, 5);
    fleet.install("v2", 2);
    fleet.step();
    fleet.tried.differences.insert("Added".to_owned(), 95);
    fleet.tried.added = vec!["ConfigMap `c`".to_owned()];
    while fleet.calling("v2") == 0 {
        fleet.step();
    }
    assert_eq!((fleet.status.wave, fleet.calling("v2")), (1, 1));
    let undone = |fleet: &mut Fleet| {
        fleet.undo = Some("v2".to_owned());
        fleet.decide().status.history[0].message.clone()
    };
    let lost =
        "a user undid it; what only it composed is deleted (ConfigMap `c`), for one composite resource";
    assert_eq!(undone(&mut fleet), lost);
    // It is refused later, after the candidate composed it: what was added has been deleted with that, or is deleted now.
    let moved = fleet.subjects.iter().position(|it| it.ran == ["v2"]).unwrap();
    let subject = &mut fleet.subjects[moved];
    subject.trial = Some(RolloutDifference::Deleted.into());
    assert_eq!(undone(&mut fleet), lost);
    (fleet.subjects[moved].ran, fleet.subjects[moved].was_composed) = (vec!["v1".to_owned()], true);
    assert_eq!(undone(&mut fleet), lost);
    fleet.subjects[moved].was_composed = false;
    assert_eq!(undone(&mut fleet), "a user undid it", "what it adds was never applied");
}

/// Names that a trial no longer finds are dropped. Those from before a restart are kept until as much is known again.
#[test]
fn resources_are_named_as_long_as_trials_find_them() {
    let mut fleet = Fleet::of(100);
    fleet.spec.max_unavailable = "100%".to_owned();
    fleet.install("v2", 2);
    fleet.step();
    let mut named = |added: i64, names: &[&str]| {
        fleet.tried.differences.insert("Added".to_owned(), added);
        fleet.tried.added = names.iter().map(|&name| name.to_owned()).collect();
        fleet.status = fleet.decide().status;
        fleet.status.added.clone()
    };
    assert_eq!(named(2, &["ConfigMap `c`", "Secret `s`"]), ["ConfigMap `c`", "Secret `s`"]);
    assert_eq!(named(2, &["Secret `s`"]), ["Secret `s`"]);
    assert_eq!(named(1, &["ConfigMap `d`"]), ["ConfigMap `d`", "Secret `s`"]);
    assert_eq!(named(3, &[]), Vec::<String>::new());
}

#[test]
fn undo_says_what_it_deletes_though_a_user_promoted_the_revision_at_once() {
    let mut fleet = Fleet::of(100);
    fleet.spec.paused = true;
    fleet.install("v2", 2);
    fleet.step();
    fleet.tried.differences.insert("Added".to_owned(), 100);
    fleet.tried.added = vec!["ConfigMap `c`".to_owned()];
    fleet.step();
    (fleet.spec.paused, fleet.promote) = (false, Some("v2".to_owned()));
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    fleet.undo = Some("v2".to_owned());
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let message = &fleet.status.history[0].message;
    assert!(message.ends_with("is deleted (ConfigMap `c`), for up to 100 composite resources"), "{message}");
}

/// A control plane that is upgraded finds the status that the one before it wrote, without fields that came later.
#[test]
fn rollout_that_an_older_release_began_is_continued() {
    let mut fleet = Fleet::of(100);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!(fleet.calling("v2"), 1);
    let mut older = serde_json::to_value(&fleet.status).unwrap();
    let kept = ["state", "stable", "candidate", "startedAt", "wave", "cohort"];
    older.as_object_mut().unwrap().retain(|field, _| kept.contains(&field.as_str()));
    older["ofAnotherRelease"] = json!({"any": "thing"});
    fleet.status = serde_json::from_value(older).unwrap();
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    assert!(fleet.moves.iter().all(|moves| *moves == 1), "nobody went back");
}

#[test]
fn failure_pauses_where_the_policy_says_so() {
    let mut fleet = Fleet::of(100).with_fate(|_, _| Fate::Refused(RolloutDifference::Fails));
    fleet.spec.on_failure = RolloutFailurePolicy::Pause;
    fleet.install("v2", 2);
    for _ in 0..10 {
        fleet.step();
    }
    assert_eq!((fleet.status.state, fleet.status.composites.moved), (RolloutState::Paused, 1));
    assert_eq!(fleet.events, ["RolloutStarted", "RolloutPaused"], "it is told once");
}

#[test]
fn who_was_not_ready_before_is_not_held_against_a_revision() {
    // More than the status has entries for.
    let mut fleet = Fleet::of(300).with_fate(|_, _| Fate::NeverReady);
    for subject in &mut fleet.subjects {
        subject.health = Health::NotReady;
    }
    fleet.install("v2", 2);
    // As long as they are on the old revision they are no better.
    for _ in 0..1000 {
        for subject in &mut fleet.subjects {
            (subject.health, subject.since) = (Health::NotReady, 0);
        }
        fleet.step();
    }
    assert_eq!(fleet.status.state, RolloutState::Promoted);
}

#[test]
fn those_with_the_labels_come_first_and_manual_ones_are_only_counted() {
    let mut fleet = Fleet::of(100);
    fleet.spec.first = Some(serde_json::from_value(json!({"matchLabels": {"canary": "yes"}})).unwrap());
    for subject in fleet.subjects.iter_mut().skip(40).take(5) {
        subject.is_first = true;
    }
    for subject in fleet.subjects.iter_mut().take(10) {
        subject.is_manual = true;
    }
    fleet.install("v2", 2);
    let mut moved = Vec::new();
    while moved.len() < 6 {
        fleet.step();
        for subject in fleet.subjects.iter().filter(|it| it.ran == ["v2"]) {
            if !moved.contains(&subject.uid) {
                moved.push(subject.uid.clone());
            }
        }
    }
    assert!(
        moved[..5].iter().all(|uid| ["40", "41", "42", "43", "44"].iter().any(|it| uid.ends_with(it))),
        "{moved:?}"
    );
    fleet.finish();
    assert_eq!((fleet.calling("v2"), fleet.calling("v1")), (90, 10));
    assert_eq!(fleet.status.composites.manual, 10);
}

#[test]
fn revision_that_goes_is_given_up() {
    let mut fleet = Fleet::of(100);
    fleet.install("v2", 2);
    fleet.step();
    fleet.revisions[1].is_active = false;
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    fleet.revisions[1].is_active = true;
    fleet.revisions[0].is_active = false;
    fleet.step();
    assert_eq!(fleet.status.stable.as_deref(), Some("v2"), "whoever is left is called");
    assert!(fleet.events.contains(&"StableRevisionGone"));
}

#[test]
fn thousands_that_are_created_meanwhile_are_not_moved_at_once() {
    let mut fleet = Fleet::of(1);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!(fleet.calling("v2"), 1);
    for number in 1..5000 {
        let mut new = subject(number);
        new.created = "2027-01-15T08:05:00Z".to_owned();
        fleet.subjects.push(new);
        fleet.moves.push(0);
    }
    let mut before = 1;
    while fleet.status.state != RolloutState::Promoted {
        fleet.step();
        let now = fleet.calling("v2");
        assert!(now >= before, "somebody went back: {:#?}", fleet.status);
        if fleet.status.state != RolloutState::Promoted {
            assert!(now - before <= 50, "{} were moved at once", now - before);
            assert!(fleet.status.cohort.len() <= 2);
        }
        before = now;
    }
    assert_eq!(fleet.calling("v2"), 5000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever fails, whenever: nobody goes back and forth, few are harmed, and it ends.
    #[test]
    fn nobody_moves_back_and_forth(
        count in 1..400usize,
        bad in prop::collection::btree_set(0..400usize, 0..4),
        manual in prop::collection::btree_set(0..400usize, 0..20),
        max_failures in 0..2i64,
        kind in 0..3usize,
    ) {
        let fate = [Fate::Fails, Fate::NeverReady, Fate::Refused(RolloutDifference::Renamed)][kind];
        let is_bad = bad.clone();
        let mut fleet = Fleet::of(count).with_fate(move |subject, _| {
            let number: usize = subject.uid.trim_start_matches("uid-").parse().unwrap();
            if is_bad.contains(&number) { fate } else { Fate::Ready }
        });
        fleet.spec.max_failures = max_failures;
        for number in manual.iter().filter(|number| **number < count) {
            fleet.subjects[*number].is_manual = true;
        }
        fleet.install("v2", 2);
        let result = fleet.finish();
        let failing = bad.iter().filter(|it| **it < count && !manual.contains(it)).count();
        if failing > usize::try_from(max_failures).unwrap() {
            prop_assert_eq!(result, RolloutState::RolledBack);
            prop_assert_eq!(fleet.calling("v1"), count);
        } else {
            prop_assert_eq!(result, RolloutState::Promoted);
        }
        let most = (count / 100).max(1) + usize::try_from(max_failures).unwrap();
        prop_assert!(result == RolloutState::Promoted || fleet.most_harmed <= most);
        for (index, moves) in fleet.moves.iter().enumerate() {
            let most = if manual.contains(&index) { 0 } else { 2 };
            prop_assert!(*moves <= most, "number {} was moved {} times", index, moves);
        }
    }

    /// Places are spread evenly, so that a percentage of hashes is that percentage of composite resources.
    #[test]
    fn places_are_spread(candidate in "[a-z]{3,20}") {
        let below = (0..1000).filter(|number| {
            super::overlay::place(&candidate, &format!("uid-{number}"), true) < u64::MAX / 4
        }).count();
        prop_assert!((400..600).contains(&below), "{} of 1000", below);
    }
}
