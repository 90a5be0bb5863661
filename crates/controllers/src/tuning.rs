//! How much controllers do at a time, and how often: numbers that users may set.

use std::num::NonZeroUsize;
use std::time::Duration;

/// How much controllers do at a time, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// How many composite resources of one kind, and how many claims of one kind, are reconciled at a time. None: as many as have
    /// proven good for each.
    pub max_concurrent_reconciles: Option<NonZeroUsize>,
    pub circuit_breaker: CircuitBreakerTuning,
    /// How often a connection Secret is read that may not be watched.
    pub poll_interval: Duration,
}

/// How many changes of what a composite resource composes are too many. The defaults are those of Crossplane 2.4.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitBreakerTuning {
    /// How many changes there may be in a row.
    pub burst: f64,
    /// How many changes there may be per second after that.
    pub refill_per_second: f64,
    /// For how long the circuit stays open.
    pub cooldown: Duration,
}

impl Tuning {
    /// How many are reconciled at a time, if nobody says otherwise.
    pub(crate) fn concurrency(&self, usual: usize) -> usize {
        self.max_concurrent_reconciles.map_or(usual, NonZeroUsize::get)
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: None,
            circuit_breaker: CircuitBreakerTuning::default(),
            poll_interval: Duration::from_mins(1),
        }
    }
}

impl Default for CircuitBreakerTuning {
    fn default() -> Self {
        Self { burst: 50.0, refill_per_second: 0.5, cooldown: Duration::from_mins(5) }
    }
}
