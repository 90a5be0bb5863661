//! The policies of a `CronOperation` against everything that can go wrong: two replicas whose clocks differ and whose caches are behind,
//! writes whose answer is lost, and processes that end before or after any write. Nothing is lost, and nothing is done twice.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, meta};
use ferroplane_golang::time::calendar;
use serde_json::{Value, json};

use super::{
    ConcurrencyPolicy, CronCheck, CronSpec, CronTime, MOST_AHEAD, check_cron, cron_may_forget,
    cron_operation_name, decide_cron, has_future_time, last_time_to_record,
};
use crate::operation::attempt::{Standing, standing};
use crate::operation::history::too_many;
use crate::operation::random::Random;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const SCHEDULES: [&str; 3] = ["*/5 * * * *", "@every 7m", "0 * * * *"];
const SEEDS: u64 = 300;
const STEPS: u64 = 150;
/// The furthest that the clock of a replica is off, in seconds.
const SKEW: u64 = 240;
const DEADLINE: i64 = 900;
/// For how many seconds a process has to see a time in the future before it ignores it.
const PATIENCE: i64 = 600;

/// Why a reconcile ended early.
enum Stop {
    Crash,
    /// The caches are behind: it is done again later.
    Behind,
}

/// The state of an API server, or what a replica has heard of it.
#[derive(Clone, Default)]
struct State {
    cron: Object,
    operations: BTreeMap<String, Object>,
}

/// One of two processes, of which one leads at a time.
struct Replica {
    cache: State,
    skew: i64,
    /// Since when the process sees a recorded time in the future.
    future_since: Option<i64>,
}

struct CronModel {
    random: Random,
    spec: CronSpec,
    now: i64,
    server: State,
    replicas: [Replica; 2],
    leader: usize,
    /// The times for which an operation was made.
    log: Vec<i64>,
    writes_left: u64,
}

impl CronModel {
    fn new(seed: u64, policy: &str, with_deadline: bool) -> Self {
        let mut random = Random::new(seed);
        let schedule = SCHEDULES[usize::try_from(random.below(3)).unwrap()];
        let cron = json!({
            "metadata": {"name": "c", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {
                "schedule": schedule, "concurrencyPolicy": policy,
                "startingDeadlineSeconds": with_deadline.then_some(DEADLINE),
                "successfulHistoryLimit": seed % 3, "failedHistoryLimit": seed % 2,
            },
        });
        let cron = cron.as_object().unwrap().clone();
        let server = State { cron: cron.clone(), ..State::default() };
        let mut replica = || {
            let skew = i64::try_from(random.below(2 * SKEW)).unwrap() - i64::try_from(SKEW).unwrap();
            Replica { cache: server.clone(), skew, future_since: None }
        };
        let replicas = [replica(), replica()];
        let spec = CronSpec::of(&cron);
        let (log, writes_left) = (Vec::new(), u64::MAX);
        Self { random, spec, now: 0, server, replicas, leader: 0, log, writes_left }
    }

    fn step(&mut self) {
        self.now += i64::try_from(self.random.below(600)).unwrap();
        match self.random.below(12) {
            0 | 1 => self.hear(),
            2 | 3 => self.finish_one(),
            // The other replica leads, with what it has heard of so far.
            4 => self.leader = 1 - self.leader,
            5 => self.restart(),
            _ => {
                self.writes_left = if self.random.is_one_of(3) { self.random.below(3) } else { u64::MAX };
                if let Err(Stop::Crash) = self.reconcile() {
                    self.restart();
                }
            }
        }
    }

    /// A replica receives some of the watch events: the two watches are not in step.
    fn hear(&mut self) {
        let replica = &mut self.replicas[usize::try_from(self.random.below(2)).unwrap()];
        if self.random.is_one_of(2) {
            replica.cache.cron.clone_from(&self.server.cron);
        } else {
            replica.cache.operations.clone_from(&self.server.operations);
        }
    }

    /// The leader starts again, and lists everything.
    fn restart(&mut self) {
        self.replicas[self.leader].future_since = None;
        self.list();
    }

    fn list(&mut self) {
        self.replicas[self.leader].cache.clone_from(&self.server);
    }

    /// The leader starts again, with a clock that is wrong by this many seconds.
    fn boot(&mut self, skew: i64) {
        self.replicas[self.leader].skew = skew;
        self.restart();
    }

    /// The leader decides every minute.
    fn run_for(&mut self, minutes: i64) {
        self.writes_left = u64::MAX;
        for _ in 0..minutes {
            self.now += 60;
            self.list();
            if let Err(Stop::Crash) = self.reconcile() {
                self.restart();
            }
            if self.random.is_one_of(3) {
                self.finish_one();
            }
        }
    }

    /// The time by the clock of the leader.
    fn time(&mut self, cron: &Object, operations: &[Object]) -> CronTime {
        // Whatever its clock says, ten minutes last ten minutes.
        let passed = self.now;
        let leader = &mut self.replicas[self.leader];
        let now = passed + leader.skew;
        let is_future = has_future_time(cron, operations, now);
        leader.future_since = is_future.then(|| leader.future_since.unwrap_or(passed));
        let may_ignore = leader.future_since.is_some_and(|since| passed - since >= PATIENCE);
        CronTime { now, may_ignore }
    }

    fn finish_one(&mut self) {
        let succeeded = if self.random.is_one_of(4) { "False" } else { "True" };
        let running = self.server.operations.values_mut().find(|it| standing(it) == Standing::Running);
        if let Some(operation) = running {
            let condition = json!({"type": "Succeeded", "status": succeeded, "reason": "x"});
            operation.insert("status".to_owned(), json!({"conditions": [condition]}));
        }
    }

    fn write(&mut self) -> Result<(), Stop> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Stop::Crash)?;
        Ok(())
    }

    /// What the controller does, in its order.
    fn reconcile(&mut self) -> Result<(), Stop> {
        let cache = self.replicas[self.leader].cache.clone();
        let mut operations: Vec<_> = cache.operations.values().cloned().collect();
        let time = self.time(&cache.cron, &operations);
        for operation in too_many(&operations, self.spec.limits) {
            if cron_may_forget(&cache.cron, operation, time) {
                self.write()?;
                self.server.operations.remove(meta::name(operation));
            }
        }
        let decision = decide_cron(&cache.cron, &self.spec, &operations, time).unwrap();
        if let Some(due) = decision.due {
            assert!(self.spec.deadline.is_none_or(|deadline| time.now <= due + deadline), "it is too late");
            self.check(&operations, due, time)?;
            for name in &decision.replaced {
                self.write()?;
                self.server.operations.remove(name);
            }
            self.write()?;
            operations.push(self.create(due));
            // An answer that is lost is the same as a crash.
            if self.random.is_one_of(10) {
                return Err(Stop::Crash);
            }
        }
        self.write_status(&cache.cron, &operations, time)
    }

    fn check(&self, known: &[Object], due: i64, time: CronTime) -> Result<(), Stop> {
        match check_cron(&self.server.cron, self.spec.policy, known, due, time) {
            CronCheck::Current => Ok(()),
            CronCheck::AlreadyMade => Err(Stop::Behind),
            CronCheck::UnlessThereIs(names) => {
                let is_there = names.iter().any(|name| self.server.operations.contains_key(name));
                if is_there { Err(Stop::Behind) } else { Ok(()) }
            }
        }
    }

    fn create(&mut self, due: i64) -> Object {
        let name = cron_operation_name("c", due);
        let operation = json!({"metadata": {"name": name, "creationTimestamp": "1970-01-01T00:00:00Z"}});
        let operation = operation.as_object().unwrap().clone();
        if !self.server.operations.contains_key(&name) {
            self.server.operations.insert(name.clone(), operation.clone());
            self.log.push(due);
        }
        self.replicas[self.leader].cache.operations.insert(name, operation.clone());
        operation
    }

    /// Only a replica with the latest state of the object can write.
    fn write_status(&mut self, cached: &Object, operations: &[Object], time: CronTime) -> Result<(), Stop> {
        if *cached != self.server.cron {
            return Err(Stop::Behind);
        }
        let running = operations.iter().filter(|it| standing(it) == Standing::Running);
        let running: Vec<_> = running.map(|it| json!({"name": meta::name(it)})).collect();
        let mut status = cached.get("status").cloned().unwrap_or_else(|| json!({}));
        status["runningOperationRefs"] = running.into();
        if let Some(last) = last_time_to_record(cached, operations, time) {
            status["lastScheduleTime"] = format!("{}Z", calendar::format(last)).into();
        }
        self.write()?;
        self.server.cron.insert("status".to_owned(), status);
        Ok(())
    }

    /// Let everything come to rest, with clocks that are right.
    fn settle(&mut self) {
        self.writes_left = u64::MAX;
        self.now += i64::try_from(2 * SKEW).unwrap();
        self.replicas[self.leader].skew = 0;
        for _ in 0..20 {
            self.list();
            let _ = self.reconcile();
            while self.server.operations.values().any(|it| standing(it) == Standing::Running) {
                self.finish_one();
            }
        }
    }

    fn check_nothing_twice(&self) {
        let once: BTreeSet<_> = self.log.iter().collect();
        assert_eq!(once.len(), self.log.len(), "twice at the same time: {:?}", self.log);
    }

    /// The latest time is never lost, unless it is late.
    fn check_nothing_lost(&self) {
        let schedule = self.spec.schedule.as_ref().unwrap();
        let latest = schedule.latest(0, self.now).unwrap();
        let is_late = self.spec.deadline.is_some_and(|deadline| latest + deadline < self.now);
        assert!(is_late || self.log.iter().any(|made| *made >= latest), "{latest} is lost: {:?}", self.log);
    }

    fn check_history(&self) {
        let count = |wanted| self.server.operations.values().filter(|it| standing(it) == wanted).count();
        assert!(count(Standing::Succeeded) <= self.spec.limits.succeeded);
        assert!(count(Standing::Failed) <= self.spec.limits.failed);
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_done_twice_whatever_goes_wrong() {
    let mut made = 0;
    for seed in 1..=SEEDS {
        for policy in POLICIES {
            let mut model = CronModel::new(seed, policy, seed % 3 == 0);
            for _ in 0..STEPS {
                model.step();
            }
            model.settle();
            let checks = std::panic::AssertUnwindSafe(|| {
                model.check_nothing_twice();
                model.check_nothing_lost();
                model.check_history();
            });
            assert!(std::panic::catch_unwind(checks).is_ok(), "seed {seed}, {policy}");
            made += model.log.len();
        }
    }
    assert!(made > 10_000, "{made} operations were made");
}

/// Check models that have come to rest.
fn settled(mut check: impl FnMut(&mut CronModel)) {
    for seed in 1..=SEEDS / 3 {
        for policy in POLICIES {
            let mut model = CronModel::new(seed, policy, seed % 3 == 0);
            for _ in 0..STEPS {
                model.step();
            }
            model.settle();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut model)));
            assert!(outcome.is_ok(), "seed {seed}, {policy}");
        }
    }
}

/// As on a machine without a battery for its clock, until it reaches a time server.
#[test]
fn clock_that_boots_behind_and_is_corrected_after_five_minutes_repeats_nothing() {
    settled(|model| {
        let (count, last) = (model.log.len(), model.log.iter().max().copied());
        let hours = i64::try_from(2 + model.random.below(8)).unwrap();
        model.boot(-hours * 3600);
        model.run_for(5);
        model.replicas[model.leader].skew = 0;
        model.run_for(5);
        let made = &model.log[count..];
        assert!(made.iter().all(|time| Some(*time) > last), "{last:?} {made:?}");
        model.settle();
        model.check_nothing_twice();
        model.check_nothing_lost();
        model.check_history();
    });
}

#[test]
fn clock_that_was_far_ahead_stops_the_schedule_for_ten_minutes_only() {
    let mut stopped = 0;
    settled(|model| {
        model.boot(48 * 3600);
        model.run_for(5);
        model.boot(0);
        let count = model.log.len();
        let is_ahead = model.log.iter().any(|time| *time > model.now + 2 * MOST_AHEAD);
        model.run_for(9);
        if is_ahead {
            assert_eq!(model.log.len(), count, "it may be this clock that is wrong");
            stopped += 1;
        }
        model.run_for(2);
        // Until it is sure again, if it has started again meanwhile.
        model.list();
        let _ = model.reconcile();
        model.now += PATIENCE;
        model.settle();
        let latest = model.spec.schedule.as_ref().unwrap().latest(0, model.now).unwrap();
        let is_late = model.spec.deadline.is_some_and(|deadline| latest + deadline < model.now);
        assert!(is_late || model.log.contains(&latest), "{latest} is lost: {:?}", model.log);
        // Of the latest time, the operation may be gone from the history, and what the status says is not believed.
        let times: std::collections::BTreeSet<_> = model.log.iter().collect();
        assert!(model.log.len() - times.len() <= 1, "{:?}", model.log);
        model.check_history();
    });
    assert!(stopped > 100, "{stopped} were stopped");
}

/// The replica that led before has made an operation, which still runs. The other one has not heard of it.
#[test]
fn operation_that_a_cache_does_not_have_is_not_made_again_and_keeps_others_waiting() {
    let running = json!({"status": {
        "lastScheduleTime": "1970-01-01T01:00:00Z", "runningOperationRefs": [{"name": "c-3600"}],
    }});
    let live = running.as_object().unwrap();
    let time = CronTime { now: 7200, may_ignore: false };
    let check = |policy, due| check_cron(live, policy, &[], due, time);
    assert_eq!(check(ConcurrencyPolicy::Allow, 3600), CronCheck::AlreadyMade);
    assert_eq!(check(ConcurrencyPolicy::Allow, 7200), CronCheck::Current);
    let unless = CronCheck::UnlessThereIs(vec!["c-3600".to_owned()]);
    assert_eq!(check(ConcurrencyPolicy::Forbid, 7200), unless);
    assert_eq!(check(ConcurrencyPolicy::Replace, 7200), unless);
    let known: Value = json!({"metadata": {"name": "c-3600"}});
    let known = [known.as_object().unwrap().clone()];
    assert_eq!(check_cron(live, ConcurrencyPolicy::Forbid, &known, 7200, time), CronCheck::Current);
}
