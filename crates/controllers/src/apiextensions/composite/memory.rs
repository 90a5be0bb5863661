//! What is remembered about composite resources: enough to tell that nothing changed. Losing it costs time, no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_api::Condition;
use ferroplane_engine::{Event, Fights, Loss, Requirement};
use tokio::time::Instant;

use crate::metrics::{Breaking, Passage};

/// What a composite resource is called among those of its kind: `namespace/name`.
pub(super) type Name = Arc<str>;

/// How many events a composite resource may cause in a row, and how many per second after that.
const BURST: f64 = 50.0;
const REFILL_PER_SECOND: f64 = 0.5;
/// How often its user may change one that is looked at rarely, in a row and per second, and see it looked at at once.
const USER_BURST: f64 = 20.0;
const USER_REFILL_PER_SECOND: f64 = 0.5;
/// For how long one that causes too many is looked at rarely, and how rarely.
const COOLDOWN: Duration = Duration::from_mins(5);
const PROBE: Duration = Duration::from_secs(30);
const SOURCES: usize = 16;
/// How much may be uncertain.
const UNCERTAIN: usize = 1024;

#[derive(Debug)]
pub(super) struct Memory {
    all: Mutex<HashMap<Name, Remembered>>,
    /// What times are counted from.
    began_at: Instant,
    breaking: Arc<Breaking>,
}

/// What is remembered about one composite resource.
#[derive(Debug, Default)]
struct Remembered {
    settled: Option<Settled>,
    /// The versions that our own writes came to, and those that were seen when it was last looked at. To be told of
    /// them is no news.
    seen: Vec<u64>,
    breaker: Option<Box<Breaker>>,
    fights: Option<Box<Fights>>,
    /// Whether it is not known what we recorded last: what seems to be recorded is not to be believed.
    is_in_doubt: bool,
}

/// How a look at a composite resource ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Settled {
    /// What it was made from.
    pub(super) fingerprint: Fingerprint,
    /// Its generation, with what we wrote ourselves. If it has another one, its user has changed it.
    pub(super) generation: i64,
    pub(super) composition: Arc<str>,
    /// What steps asked for.
    pub(super) requirements: Arc<[Requirement]>,
    /// When to look again, whatever happens.
    pub(super) look_again_at: Option<Instant>,
    /// How often in a row it did not work.
    pub(super) failures: u32,
    /// How often in a row what was made from it changed it again.
    pub(super) restlessness: u32,
    /// Whether to leave it alone until then, whatever happens.
    pub(super) is_resting: bool,
}

/// Tells whether anything changed.
pub(super) type Fingerprint = [u8; 32];

/// Counts what happens, to notice when it is too much.
#[derive(Debug)]
struct Breaker {
    events: Bucket,
    /// What its user changed that did not have to wait.
    changes: Bucket,
    /// What happened that may yet turn out to be our own doing: a watch can be quicker than the answer to a write.
    uncertain: Vec<(u64, String)>,
    opened_at: Option<Instant>,
    sources: Vec<String>,
    probed_at: Option<Instant>,
}

/// So much may happen in a row, and so much per second after that.
#[derive(Debug)]
struct Bucket {
    size: f64,
    refill_per_second: f64,
    tokens: f64,
    counted_at: Instant,
}

impl Memory {
    pub(super) fn new(breaking: Arc<Breaking>) -> Self {
        Self { all: Mutex::default(), began_at: Instant::now(), breaking }
    }

    pub(super) fn recall(&self, name: &str) -> Option<Settled> {
        self.lock().get(name)?.settled.clone()
    }

    pub(super) fn remember(&self, name: &Name, settled: Settled, seen: Vec<u64>) {
        let mut memory = self.lock();
        let remembered = memory.entry(name.clone()).or_default();
        remembered.settled = Some(settled);
        remembered.seen = seen;
    }

    /// It asked for this, and nothing came of it. It is told when that changes, until somebody says that it need not be.
    pub(super) fn note_asked(&self, name: &Name, asked: Vec<Requirement>) {
        if asked.is_empty() {
            return;
        }
        let mut memory = self.lock();
        let settled = memory.entry(name.clone()).or_default().settled.get_or_insert_with(Settled::default);
        let mut requirements = settled.requirements.to_vec();
        let is_known = |asked: &Requirement, known: &[Requirement]| {
            known.iter().any(|requirement| requirement.selector == asked.selector)
        };
        for asked in asked {
            if !is_known(&asked, &requirements) {
                requirements.push(asked);
            }
        }
        settled.requirements = requirements.into();
    }

    /// It is not known any more what it was made from.
    pub(super) fn unsettle(&self, name: &str) {
        if let Some(remembered) = self.lock().get_mut(name) {
            remembered.seen.clear();
            if let Some(settled) = &mut remembered.settled {
                settled.fingerprint = Fingerprint::default();
            }
        }
    }

    /// It is not known, or is known again, what we recorded last.
    pub(super) fn doubt(&self, name: &Name, is_in_doubt: bool) {
        self.lock().entry(name.clone()).or_default().is_in_doubt = is_in_doubt;
    }

    pub(super) fn is_in_doubt(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|remembered| remembered.is_in_doubt)
    }

    pub(super) fn forget(&self, name: &str) {
        let forgotten = self.lock().remove(name);
        if forgotten.and_then(|it| it.breaker).is_some_and(|breaker| breaker.opened_at.is_some()) {
            self.breaking.close();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn names(&self) -> Vec<Name> {
        let mut names: Vec<_> = self.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Those that follow a composition, and those that follow none yet.
    pub(super) fn that_follow(&self, composition: &str) -> Vec<Name> {
        let memory = self.lock();
        let follows = |remembered: &Remembered| {
            let settled = remembered.settled.as_ref();
            settled
                .is_none_or(|settled| settled.composition.is_empty() || &*settled.composition == composition)
        };
        let mut names: Vec<_> = memory
            .iter()
            .filter(|(_, remembered)| follows(remembered))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort_unstable();
        names
    }

    /// Whether this version is known already.
    pub(super) fn is_echo(&self, name: &str, version: u64) -> bool {
        version != 0 && self.lock().get(name).is_some_and(|remembered| remembered.seen.contains(&version))
    }

    /// Something has come to this version, and as far as is known by now it was not our doing.
    pub(super) fn count_event(&self, name: &str, version: u64, source: impl FnOnce() -> String) {
        let mut memory = self.lock();
        let Some(remembered) = memory.get_mut(name) else { return };
        let breaker = remembered.breaker.get_or_insert_with(Box::default);
        breaker.note(version, source(), &self.breaking);
    }

    /// It was our doing that something came to this version.
    pub(super) fn disregard(&self, name: &str, version: u64) {
        let mut memory = self.lock();
        let Some(remembered) = memory.get_mut(name) else { return };
        remembered.seen.push(version);
        if let Some(breaker) = &mut remembered.breaker {
            breaker.uncertain.retain(|(other, _)| *other != version);
        }
    }

    /// Whether its user has changed it since it was last looked at, to this generation or by asking for a look, and need not
    /// wait until it is calm. One that is changed all the time has to.
    pub(super) fn lets_user_pass(&self, name: &str, generation: i64, is_asked_for: bool) -> bool {
        let mut memory = self.lock();
        let Some(remembered) = memory.get_mut(name) else { return true };
        let is_changed = remembered.settled.as_ref().is_none_or(|settled| settled.generation != generation);
        if !is_changed && !is_asked_for {
            return false;
        }
        let breaker = remembered.breaker.get_or_insert_with(Box::default);
        breaker.changes.take(Instant::now())
    }

    /// For how long to leave it alone because too much happens to it. It is looked at every now and then even so.
    pub(super) fn wait_for_calm(&self, name: &str) -> Option<Duration> {
        let mut memory = self.lock();
        let breaker = memory.get_mut(name)?.breaker.as_mut()?;
        let now = Instant::now();
        breaker.unrest(now, &self.breaking)?;
        let next = breaker.probed_at.map_or(now, |probed| probed + PROBE);
        if next > now {
            return Some(next - now);
        }
        self.breaking.pass(Passage::Probe);
        breaker.probed_at = Some(now);
        None
    }

    /// When it will be calm again, if nothing more happens.
    pub(super) fn calm_in(&self, name: &str) -> Option<Duration> {
        let memory = self.lock();
        let remembered = memory.get(name)?;
        let opened_at = remembered.breaker.as_ref().and_then(|breaker| breaker.opened_at);
        let fought_until = remembered.fights.as_ref().and_then(|fights| fights.over_at());
        let calm = [opened_at.map(|time| time + COOLDOWN), fought_until.map(|time| self.began_at + time)];
        Some(calm.into_iter().flatten().min()?.saturating_duration_since(Instant::now()))
    }

    /// Others have taken these fields of what it composes. Returns what to say about that.
    pub(super) fn lose(&self, name: &Name, losses: Vec<Loss>) -> Vec<Event> {
        if losses.is_empty() {
            return Vec::new();
        }
        let mut memory = self.lock();
        let fights = memory.entry(name.clone()).or_default().fights.get_or_insert_with(Box::default);
        fights.lose(losses, self.began_at.elapsed())
    }

    /// What to say about those who keep taking fields, given what is said now.
    pub(super) fn contested(&self, name: &str, conditions: &[Condition]) -> Option<Condition> {
        let now = self.began_at.elapsed();
        let mut memory = self.lock();
        let fights = memory.get_mut(name).map(|remembered| &mut remembered.fights);
        let Some(fights) = fights.filter(|fights| fights.is_some()) else {
            return Fights::default().condition(conditions, now);
        };
        let condition = fights.as_mut().and_then(|fights| fights.condition(conditions, now));
        fights.take_if(|fights| fights.is_empty());
        condition
    }

    /// What is to blame, if too much happens to it.
    pub(super) fn unrest(&self, name: &str) -> Option<String> {
        let mut memory = self.lock();
        let remembered = memory.get_mut(name)?;
        let unrest = remembered.breaker.as_mut()?.unrest(Instant::now(), &self.breaking);
        if unrest.is_none() && remembered.breaker.as_ref().is_some_and(|breaker| breaker.is_calm()) {
            remembered.breaker = None;
        }
        unrest
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Remembered>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Breaker {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            events: Bucket::full(BURST, REFILL_PER_SECOND, now),
            changes: Bucket::full(USER_BURST, USER_REFILL_PER_SECOND, now),
            uncertain: Vec::new(),
            opened_at: None,
            sources: Vec::new(),
            probed_at: None,
        }
    }
}

impl Breaker {
    fn note(&mut self, version: u64, source: String, breaking: &Breaking) {
        if self.uncertain.len() == UNCERTAIN {
            self.count(Instant::now(), breaking);
        }
        self.uncertain.push((version, source));
    }

    /// Whatever nobody has said to be our doing is not.
    fn count(&mut self, now: Instant, breaking: &Breaking) {
        for (_, source) in std::mem::take(&mut self.uncertain) {
            breaking.pass(if self.opened_at.is_some() { Passage::Dropped } else { Passage::Allowed });
            self.events.take(now);
            if self.sources.len() == SOURCES {
                self.sources.remove(0);
            }
            self.sources.push(source);
            if self.events.tokens < 1.0 && self.opened_at.is_none() {
                self.opened_at = Some(now);
                breaking.open();
            }
        }
    }

    fn unrest(&mut self, now: Instant, breaking: &Breaking) -> Option<String> {
        self.count(now, breaking);
        self.events.refill(now);
        self.changes.refill(now);
        let opened_at = self.opened_at?;
        if now.duration_since(opened_at) >= COOLDOWN {
            (self.opened_at, self.probed_at) = (None, None);
            breaking.close();
            return None;
        }
        Some(self.loudest())
    }

    fn is_calm(&self) -> bool {
        self.opened_at.is_none()
            && self.uncertain.is_empty()
            && self.events.is_full()
            && self.changes.is_full()
    }

    /// What happened most often of late.
    fn loudest(&self) -> String {
        let count = |source: &String| self.sources.iter().filter(|other| *other == source).count();
        self.sources.iter().max_by_key(|source| count(source)).cloned().unwrap_or_default()
    }
}

impl Bucket {
    fn full(size: f64, refill_per_second: f64, now: Instant) -> Self {
        Self { size, refill_per_second, tokens: size, counted_at: now }
    }

    /// Something happens. Returns whether it may.
    fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let may = self.tokens >= 1.0;
        self.tokens = (self.tokens - 1.0).max(0.0);
        may
    }

    fn refill(&mut self, now: Instant) {
        let refill = now.duration_since(self.counted_at).as_secs_f64() * self.refill_per_second;
        self.tokens = (self.tokens + refill).min(self.size);
        self.counted_at = now;
    }

    fn is_full(&self) -> bool {
        self.tokens >= self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is remembered after 200 things have happened.
    fn after_many_events() -> (Memory, Name) {
        let (memory, name) = (Memory::new(Arc::default()), Name::from("default/blog"));
        memory.remember(&name, Settled::default(), Vec::new());
        for version in 1..=200 {
            memory.count_event(&name, version, || "ConfigMap/blog".to_owned());
        }
        (memory, name)
    }

    #[test]
    fn what_others_do_is_too_much_when_it_is() {
        let (memory, name) = after_many_events();
        assert_eq!(memory.unrest(&name).as_deref(), Some("ConfigMap/blog"));
    }

    #[test]
    fn what_we_did_is_not_counted_even_if_it_is_told_before_it_is_answered() {
        let (memory, name) = after_many_events();
        for version in 1..=200 {
            memory.disregard(&name, version);
            assert!(memory.is_echo(&name, version));
        }
        assert_eq!(memory.unrest(&name), None);
    }
}
