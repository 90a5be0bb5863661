//! Settings for the concurrency and the intervals of controllers.

use std::num::NonZeroUsize;
use std::time::Duration;

/// Settings for the concurrency and the intervals of controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// How many composite resources of one kind, and how many claims of one kind, are reconciled at a time. None: the default of each
    /// controller.
    pub max_concurrent_reconciles: Option<NonZeroUsize>,
    pub circuit_breaker: CircuitBreakerTuning,
    /// How often a connection Secret is read that may not be watched.
    pub poll_interval: Duration,
}

/// How many changes of composed resources are too many. The defaults are those of Crossplane (cmd/crossplane/core/core.go).
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
    /// How many are reconciled at a time, with the default of the controller.
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
        Self { burst: 100.0, refill_per_second: 1.0, cooldown: Duration::from_mins(5) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An XR that is moved here from Crossplane must not be held back by fewer changes than there.
    #[test]
    fn circuit_opens_after_as_many_changes_as_in_crossplane() {
        let expected =
            CircuitBreakerTuning { burst: 100.0, refill_per_second: 1.0, cooldown: Duration::from_mins(5) };
        assert_eq!(CircuitBreakerTuning::default(), expected);
    }
}
