//! In-memory state about the composite resources of one kind. It is a cache: losing it costs time, no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_api::Condition;
use ferroplane_engine::composite::Circuit;
use ferroplane_engine::{Event, Loss, Requirement};
use tokio::time::Instant;

use super::circuit_breaker::CircuitBreaker;
use super::field_fights::{FieldFights, FightClock};
use super::fingerprints::{Fingerprint, LastReconcile};
use super::own_writes::OwnWrites;
use crate::metrics::Breaking;
use crate::tuning::CircuitBreakerTuning;

/// The key of a composite resource: `namespace/name`.
pub(super) type Name = Arc<str>;

#[derive(Debug)]
pub(super) struct Memory {
    all: Mutex<HashMap<Name, Remembered>>,
    fight_clock: FightClock,
    breaking: Arc<Breaking>,
    breaker_tuning: CircuitBreakerTuning,
}

/// The state of one composite resource. There are many, so that rare parts are boxed.
#[derive(Debug, Default)]
struct Remembered {
    last: Option<LastReconcile>,
    own_writes: OwnWrites,
    breaker: Option<Box<CircuitBreaker>>,
    fights: FieldFights,
}

impl Memory {
    pub(super) fn new(breaking: Arc<Breaking>, breaker_tuning: CircuitBreakerTuning) -> Self {
        Self { all: Mutex::default(), fight_clock: FightClock::start(), breaking, breaker_tuning }
    }

    pub(super) fn last(&self, name: &str) -> Option<LastReconcile> {
        self.lock().get(name)?.last.clone()
    }

    /// Record the end of a reconcile. It has read or written these versions.
    pub(super) fn remember(&self, name: &Name, last: LastReconcile, seen: Vec<u64>) {
        let mut memory = self.lock();
        let remembered = memory.entry(name.clone()).or_default();
        remembered.last = Some(last);
        remembered.own_writes.reset(seen);
    }

    /// Record requirements of a reconcile that failed. The composite resource is requeued when they change, until they are replaced.
    pub(super) fn note_asked(&self, name: &Name, asked: Vec<Requirement>) {
        if asked.is_empty() {
            return;
        }
        let mut memory = self.lock();
        let last = memory.entry(name.clone()).or_default().last.get_or_insert_with(LastReconcile::default);
        let mut requirements = last.requirements.to_vec();
        for asked in asked {
            if !requirements.iter().any(|known| known.selector == asked.selector) {
                requirements.push(asked);
            }
        }
        last.requirements = requirements.into();
    }

    /// Forget the inputs of the last reconcile.
    pub(super) fn invalidate(&self, name: &str) {
        if let Some(remembered) = self.lock().get_mut(name) {
            // Its own writes, too: without a fingerprint, even the event of our own write has to be checked.
            remembered.own_writes.reset(Vec::new());
            if let Some(last) = &mut remembered.last {
                last.fingerprint = Fingerprint::default();
            }
        }
    }

    /// Those that failed because a function could not be called. They no longer wait.
    pub(super) fn stop_waiting_for_functions(&self) -> Vec<Name> {
        let mut names = Vec::new();
        for (name, remembered) in self.lock().iter_mut() {
            let waiting = remembered.last.as_mut().filter(|last| last.is_function_missing);
            if let Some(last) = waiting {
                (last.requeue_at, last.failures, last.is_function_missing) = (Some(Instant::now()), 0, false);
                names.push(name.clone());
            }
        }
        names.sort_unstable();
        names
    }

    pub(super) fn forget(&self, name: &str) {
        let forgotten = self.lock().remove(name);
        if forgotten.and_then(|it| it.breaker).is_some_and(|breaker| breaker.is_open()) {
            self.breaking.close();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Those whose last reconcile, if there was one, matches.
    pub(super) fn names_of(&self, is_concerned: impl Fn(Option<&LastReconcile>) -> bool) -> Vec<Name> {
        let memory = self.lock();
        let concerned = memory.iter().filter(|(_, remembered)| is_concerned(remembered.last.as_ref()));
        let mut names: Vec<_> = concerned.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Set whether it is unknown what we recorded last.
    pub(super) fn mark_record_uncertain(&self, name: &Name, is_uncertain: bool) {
        self.lock().entry(name.clone()).or_default().own_writes.mark_uncertain(is_uncertain);
    }

    pub(super) fn is_record_uncertain(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|remembered| remembered.own_writes.is_uncertain())
    }

    /// Whether this version is known already.
    pub(super) fn is_own_write(&self, name: &str, version: u64) -> bool {
        self.lock().get(name).is_some_and(|remembered| remembered.own_writes.contains(version))
    }

    /// Record a version that is the result of our own write.
    pub(super) fn note_own_write(&self, name: &str, version: u64) {
        let mut memory = self.lock();
        let Some(remembered) = memory.get_mut(name) else { return };
        remembered.own_writes.add(version);
        if let Some(breaker) = &mut remembered.breaker {
            breaker.ignore_own_write(version);
        }
    }

    /// Record a change of a composed resource to this version that is not known to be ours.
    pub(super) fn count_change(&self, name: &str, version: u64, source: impl FnOnce() -> String) {
        let mut memory = self.lock();
        let Some(remembered) = memory.get_mut(name) else { return };
        let breaker =
            remembered.breaker.get_or_insert_with(|| CircuitBreaker::new(self.breaker_tuning).into());
        breaker.note(version, source(), &self.breaking);
    }

    /// Whether a user has changed it since the last reconcile, to this generation or by requesting a reconcile, and does not have to wait
    /// until the circuit closes. One that is changed all the time has to.
    pub(super) fn admits_user(&self, name: &str, generation: i64, is_asked_for: bool) -> bool {
        let mut memory = self.lock();
        let Some(remembered) = memory.get_mut(name) else { return true };
        let is_changed = remembered.last.as_ref().is_none_or(|last| last.generation != generation);
        if !is_changed && !is_asked_for {
            return false;
        }
        let breaker =
            remembered.breaker.get_or_insert_with(|| CircuitBreaker::new(self.breaker_tuning).into());
        breaker.admit_user()
    }

    /// How long to wait because its circuit is open.
    pub(super) fn wait_for_circuit(&self, name: &str) -> Option<Duration> {
        self.lock().get_mut(name)?.breaker.as_mut()?.wait(&self.breaking)
    }

    /// Whether its composed resources change too often.
    pub(super) fn circuit(&self, name: &str) -> Circuit {
        let mut memory = self.lock();
        let breaker = memory.get_mut(name).map(|remembered| &mut remembered.breaker);
        let Some(breaker) = breaker else { return Circuit::Closed };
        let source = breaker.as_mut().and_then(|breaker| breaker.open_because_of(&self.breaking));
        // There is an entry for each composite resource with changes: memory must not grow with history.
        breaker.take_if(|breaker| breaker.is_at_rest());
        source.map_or(Circuit::Closed, |source| Circuit::Open { source })
    }

    /// When its circuit closes, or a fight over its fields is over, if nothing more changes.
    pub(super) fn calm_in(&self, name: &str) -> Option<Duration> {
        let memory = self.lock();
        let remembered = memory.get(name)?;
        let closes_at = remembered.breaker.as_ref().and_then(|breaker| breaker.closes_at());
        let calm = [closes_at, remembered.fights.over_at(self.fight_clock)];
        Some(calm.into_iter().flatten().min()?.saturating_duration_since(Instant::now()))
    }

    /// Other managers have changed these fields of composed resources. Returns the events to record.
    pub(super) fn lose_fields(&self, name: &Name, losses: Vec<Loss>) -> Vec<Event> {
        if losses.is_empty() {
            return Vec::new();
        }
        self.lock().entry(name.clone()).or_default().fights.lose(losses, self.fight_clock)
    }

    /// The condition about fights, given the current conditions.
    pub(super) fn contested(&self, name: &str, conditions: &[Condition]) -> Option<Condition> {
        let mut memory = self.lock();
        match memory.get_mut(name) {
            Some(remembered) => remembered.fights.condition(conditions, self.fight_clock),
            None => FieldFights::default().condition(conditions, self.fight_clock),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Remembered>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_of(tuning: CircuitBreakerTuning) -> Memory {
        Memory::new(Arc::default(), tuning)
    }

    #[test]
    fn how_much_is_too_much_can_be_set() {
        let is_open = |burst: f64| {
            let memory = memory_of(CircuitBreakerTuning { burst, ..CircuitBreakerTuning::default() });
            let name = Name::from("default/blog");
            memory.remember(&name, LastReconcile::default(), Vec::new());
            for version in 1..=20 {
                memory.count_change(&name, version, || "ConfigMap/blog".to_owned());
            }
            memory.circuit(&name) != Circuit::Closed
        };
        assert!(is_open(10.0) && !is_open(30.0));
    }

    /// The state after 200 events.
    fn after_many_events() -> (Memory, Name) {
        let (memory, name) = (memory_of(CircuitBreakerTuning::default()), Name::from("default/blog"));
        memory.remember(&name, LastReconcile::default(), Vec::new());
        for version in 1..=200 {
            memory.count_change(&name, version, || "ConfigMap/blog".to_owned());
        }
        (memory, name)
    }

    #[test]
    fn what_others_do_is_too_much_when_it_is() {
        let (memory, name) = after_many_events();
        assert_eq!(memory.circuit(&name), Circuit::Open { source: "ConfigMap/blog".to_owned() });
    }

    #[test]
    fn what_we_did_is_not_counted_even_if_it_is_told_before_it_is_answered() {
        let (memory, name) = after_many_events();
        for version in 1..=200 {
            memory.note_own_write(&name, version);
            assert!(memory.is_own_write(&name, version));
        }
        assert_eq!(memory.circuit(&name), Circuit::Closed);
    }
}
