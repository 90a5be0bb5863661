//! Whether calls of the candidate fail too often, or take too long.

use std::time::Duration;

use ferroplane_api::{RevisionCalls, RolloutCalls, RolloutGates};

use crate::rollout::differences::is_slow;

/// Calls of both revisions since the candidate started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    pub stable: CallStatistics,
    pub candidate: CallStatistics,
}

/// Calls of a revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallStatistics {
    pub total: u64,
    /// Calls that failed, or had a fatal result.
    pub errors: u64,
    /// The 99th percentile of their durations.
    pub p99: Duration,
}

impl CallStatistics {
    fn error_percent(self) -> u64 {
        (self.errors * 100).checked_div(self.total).unwrap_or_default()
    }
}

/// The gate that the candidate breaks, if it does. Few calls prove nothing.
pub(super) fn broken(gates: &RolloutGates, calls: &CallCounts) -> Option<String> {
    let CallCounts { stable, candidate } = calls;
    let least = u64::try_from(gates.min_calls).unwrap_or(u64::MAX).max(1);
    if candidate.total < least {
        return None;
    }
    let allowed =
        u64::try_from(gates.max_error_percent).unwrap_or_default().saturating_add(stable.error_percent());
    // Not rounded: at 5 percent, 5 of 100 may fail, and 51 of 1000 may not.
    if candidate.errors * 100 > allowed.saturating_mul(candidate.total) {
        return Some(format!(
            "{} of {} calls fail with it, and {} of {} with the old revision",
            candidate.errors, candidate.total, stable.errors, stable.total
        ));
    }
    if stable.total >= least && is_slow(stable.p99, candidate.p99, gates) {
        return Some(format!(
            "the slowest calls take {} ms with it, and {} ms with the old revision (99th percentile)",
            milliseconds(candidate.p99),
            milliseconds(stable.p99)
        ));
    }
    None
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
}

impl From<CallCounts> for RolloutCalls {
    fn from(counts: CallCounts) -> Self {
        let calls = |it: CallStatistics| RevisionCalls {
            total: i64::try_from(it.total).unwrap_or(i64::MAX),
            errors: i64::try_from(it.errors).unwrap_or(i64::MAX),
            p99_milliseconds: milliseconds(it.p99),
        };
        Self { stable: calls(counts.stable), candidate: calls(counts.candidate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(stable: (u64, u64, u64), candidate: (u64, u64, u64)) -> CallCounts {
        let statistics =
            |(total, errors, p99)| CallStatistics { total, errors, p99: Duration::from_millis(p99) };
        CallCounts { stable: statistics(stable), candidate: statistics(candidate) }
    }

    #[test]
    fn calls_that_fail_too_often_or_take_too_long_break_a_gate() {
        let gates = RolloutGates::default();
        let is_broken = |stable, candidate| broken(&gates, &counts(stable, candidate)).is_some();
        assert!(is_broken((100, 0, 10), (100, 6, 10)), "more than 5 percent fail");
        assert!(!is_broken((100, 0, 10), (100, 5, 10)));
        assert!(is_broken((1000, 0, 10), (1000, 51, 10)), "nothing is rounded in its favour");
        assert!(!is_broken((100, 50, 10), (100, 55, 10)), "the old one is no better");
        assert!(is_broken((100, 0, 30), (100, 0, 300)), "it is 10 times slower");
        assert!(!is_broken((100, 0, 1), (100, 0, 90)), "nobody notices 90 ms");
        assert!(!is_broken((100, 0, 30), (19, 19, 9000)), "few calls say nothing");
        assert!(!is_broken((19, 0, 30), (100, 0, 9000)), "nothing to compare with");
    }
}
