//! The policies of a `CronOperation` against clocks that jump and processes that end before or after any write: no time comes twice, and the
//! last one always comes.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, meta};
use serde_json::json;

use super::attempt::{Standing, standing};
use super::cron::{
    ConcurrencyPolicy, CronSpec, cron_may_forget, cron_operation_name, decide_cron, last_time,
};
use super::history::too_many;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const PERIOD: i64 = 300;
const SEEDS: u64 = 300;
const STEPS: u64 = 100;

/// The end of the process.
struct Crash;

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // Xorshift, by Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What an API server has. A process that makes operations keeps nothing else.
struct World {
    random: Random,
    cron: Object,
    spec: CronSpec,
    now: i64,
    operations: BTreeMap<String, Object>,
    made: BTreeSet<i64>,
    /// How many writes the process survives.
    writes_left: u64,
}

impl World {
    fn new(seed: u64, policy: &str) -> Self {
        let deadline = seed.is_multiple_of(2).then_some(120);
        let cron = json!({
            "metadata": {"name": "c", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {
                "schedule": "*/5 * * * *", "concurrencyPolicy": policy, "startingDeadlineSeconds": deadline,
                "successfulHistoryLimit": seed % 3, "failedHistoryLimit": 0,
            },
        });
        let cron = cron.as_object().unwrap().clone();
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            spec: CronSpec::of(&cron),
            cron,
            now: 0,
            operations: BTreeMap::new(),
            made: BTreeSet::new(),
            writes_left: u64::MAX,
        }
    }

    fn step(&mut self) {
        match self.random.below(4) {
            0 => self.now += i64::try_from(self.random.below(400)).unwrap(),
            1 => self.finish_all(),
            _ => {
                self.writes_left = if self.random.below(3) == 0 { self.random.below(4) } else { u64::MAX };
                let _ = self.reconcile();
            }
        }
    }

    fn finish_all(&mut self) {
        for operation in self.operations.values_mut().filter(|it| standing(it) == Standing::Running) {
            let status = if self.random.below(4) == 0 { "False" } else { "True" };
            let conditions = json!({"conditions": [{"type": "Succeeded", "status": status, "reason": "x"}]});
            operation.insert("status".to_owned(), conditions);
        }
    }

    fn write(&mut self) -> Result<(), Crash> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Crash)?;
        Ok(())
    }

    /// What the controller does, in its order.
    fn reconcile(&mut self) -> Result<(), Crash> {
        let mut operations: Vec<_> = self.operations.values().cloned().collect();
        for operation in too_many(&operations, self.spec.limits) {
            if cron_may_forget(&self.cron, operation) {
                self.write()?;
                self.operations.remove(meta::name(operation));
            }
        }
        let decision = decide_cron(&self.cron, &self.spec, &operations, self.now).unwrap_or_default();
        if let Some(due) = decision.due {
            for name in &decision.replaced {
                self.write()?;
                self.operations.remove(name);
            }
            self.write()?;
            operations.push(self.create(due));
        }
        if !operations.is_empty() {
            self.write()?;
            let last = last_time(&self.cron, &operations);
            let (hours, minutes) = (last / 3600, last / 60 % 60);
            let (days, hours) = (hours / 24 + 1, hours % 24);
            let time = format!("1970-01-{days:02}T{hours:02}:{minutes:02}:00Z");
            self.cron.insert("status".to_owned(), json!({"lastScheduleTime": time}));
        }
        Ok(())
    }

    fn create(&mut self, due: i64) -> Object {
        let name = cron_operation_name("c", due);
        let created = json!({"metadata": {"name": name}}).as_object().unwrap().clone();
        if self.operations.contains_key(&name) {
            return created;
        }
        let is_running = self.operations.values().any(|it| standing(it) == Standing::Running);
        assert!(!is_running || self.spec.policy == ConcurrencyPolicy::Allow, "another operation runs");
        assert!(
            due % PERIOD == 0 && due <= self.now && due > self.now - PERIOD,
            "{due} is not the last time"
        );
        assert!(self.spec.deadline.is_none_or(|deadline| due + deadline >= self.now), "{due} is too late");
        assert!(self.made.last().is_none_or(|last| *last < due), "{due} comes again");
        self.made.insert(due);
        self.operations.insert(name, created.clone());
        created
    }
}

#[test]
fn no_time_comes_twice_and_the_last_one_always_comes() {
    for seed in 1..=SEEDS {
        for policy in POLICIES {
            let mut world = World::new(seed, policy);
            for _ in 0..STEPS {
                world.step();
            }
            world.writes_left = u64::MAX;
            for _ in 0..3 {
                world.finish_all();
                assert!(world.reconcile().is_ok());
            }
            let last = world.now / PERIOD * PERIOD;
            let is_in_time = world.spec.deadline.is_none_or(|deadline| last + deadline >= world.now);
            if last > 0 && is_in_time {
                assert!(world.made.contains(&last), "seed {seed}, {policy}: {last} never came");
            }
            let finished = world.operations.values().filter(|it| standing(it) != Standing::Running).count();
            assert!(finished <= world.spec.limits.succeeded + 1, "seed {seed}, {policy}");
        }
    }
}
