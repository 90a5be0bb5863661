//! Counts changes of composed resources, to detect that they are too many.
//!
//! While the circuit is open, the composite resource is reconciled every 30 seconds only. How many changes are too many is in
//! `tuning.rs`, with Crossplane's defaults; docs/differences.md says what is different.

use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::{Breaking, Passage};
use crate::tuning::CircuitBreakerTuning;

/// How often a user may change a composite resource whose circuit is open, in a row and per second, and have it reconciled at once.
const USER_BURST: f64 = 20.0;
const USER_REFILL_PER_SECOND: f64 = 0.5;
/// How often the composite resource is reconciled while the circuit is open.
const PROBE: Duration = Duration::from_secs(30);
/// How many sources of changes are counted separately.
const SOURCES: usize = 16;
/// How many changes may be uncertain.
const UNCERTAIN: usize = 1024;

#[derive(Debug)]
pub(super) struct CircuitBreaker {
    changes: TokenBucket,
    /// For how long the circuit stays open.
    cooldown: Duration,
    /// Changes by users, which do not have to wait.
    user_changes: TokenBucket,
    /// Changes that may still turn out to be our own: a watch event can arrive before the response to a write.
    uncertain: Vec<(u64, String)>,
    opened_at: Option<Instant>,
    sources: Vec<String>,
    probed_at: Option<Instant>,
}

impl CircuitBreaker {
    pub(super) fn new(tuning: CircuitBreakerTuning) -> Self {
        let now = Instant::now();
        Self {
            changes: TokenBucket::full(tuning.burst, tuning.refill_per_second, now),
            cooldown: tuning.cooldown,
            user_changes: TokenBucket::full(USER_BURST, USER_REFILL_PER_SECOND, now),
            uncertain: Vec::new(),
            opened_at: None,
            sources: Vec::new(),
            probed_at: None,
        }
    }

    /// Record a change to this version that is not known to be ours.
    pub(super) fn note(&mut self, version: u64, source: String, breaking: &Breaking) {
        // The last reconcile was long ago. A response to a write cannot be that late, so that the changes count.
        if self.uncertain.len() == UNCERTAIN {
            self.count(Instant::now(), breaking);
        }
        self.uncertain.push((version, source));
    }

    /// This version is the result of our own write.
    pub(super) fn ignore_own_write(&mut self, version: u64) {
        self.uncertain.retain(|(other, _)| *other != version);
    }

    /// Record a change by a user. Returns whether it may be reconciled at once.
    pub(super) fn admit_user(&mut self) -> bool {
        self.user_changes.take(Instant::now())
    }

    /// The source of most changes, if there are too many.
    pub(super) fn open_because_of(&mut self, breaking: &Breaking) -> Option<String> {
        let now = Instant::now();
        self.count(now, breaking);
        self.changes.refill(now);
        self.user_changes.refill(now);
        let opened_at = self.opened_at?;
        if now.duration_since(opened_at) >= self.cooldown {
            (self.opened_at, self.probed_at) = (None, None);
            breaking.close();
            return None;
        }
        Some(self.loudest_source())
    }

    /// How long to wait because there are too many changes. None: it may be reconciled now.
    pub(super) fn wait(&mut self, breaking: &Breaking) -> Option<Duration> {
        self.open_because_of(breaking)?;
        let now = Instant::now();
        let next = self.probed_at.map_or(now, |probed| probed + PROBE);
        if next > now {
            return Some(next - now);
        }
        breaking.pass(Passage::Probe);
        self.probed_at = Some(now);
        None
    }

    pub(super) fn is_open(&self) -> bool {
        self.opened_at.is_some()
    }

    /// When the circuit closes if there are no more changes.
    pub(super) fn closes_at(&self) -> Option<Instant> {
        self.opened_at.map(|time| time + self.cooldown)
    }

    /// Whether nothing has to be remembered.
    pub(super) fn is_at_rest(&self) -> bool {
        self.opened_at.is_none()
            && self.uncertain.is_empty()
            && self.changes.is_full()
            && self.user_changes.is_full()
    }

    /// Count the uncertain changes: no write of ours has claimed them.
    fn count(&mut self, now: Instant, breaking: &Breaking) {
        for (_, source) in std::mem::take(&mut self.uncertain) {
            breaking.pass(if self.is_open() { Passage::Dropped } else { Passage::Allowed });
            // Also while the circuit is open: it must not close over changes that continue.
            self.changes.take(now);
            if self.sources.len() == SOURCES {
                self.sources.remove(0);
            }
            self.sources.push(source);
            if self.changes.tokens < 1.0 && !self.is_open() {
                self.opened_at = Some(now);
                breaking.open();
            }
        }
    }

    fn loudest_source(&self) -> String {
        let count = |source: &String| self.sources.iter().filter(|other| *other == source).count();
        self.sources.iter().max_by_key(|source| count(source)).cloned().unwrap_or_default()
    }
}

/// A token bucket: a burst, and a rate per second after it.
#[derive(Debug)]
struct TokenBucket {
    size: f64,
    refill_per_second: f64,
    tokens: f64,
    counted_at: Instant,
}

impl TokenBucket {
    fn full(size: f64, refill_per_second: f64, now: Instant) -> Self {
        Self { size, refill_per_second, tokens: size, counted_at: now }
    }

    /// Take a token. Returns whether there was one.
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
