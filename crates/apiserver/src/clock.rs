//! What time it is; in simulations, the time of the runtime.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use ferroplane_schema::table::Instant;

/// When simulations begin, in seconds since 1970.
const SIMULATED_START: i64 = 1_800_000_000;

thread_local! {
    static SIMULATED_SINCE: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
}

/// From now on, time on this thread is that of its runtime, which a test can pause.
pub(crate) fn simulate() {
    SIMULATED_SINCE.set(Some(tokio::time::Instant::now()));
}

fn simulated() -> Option<Instant> {
    let passed = SIMULATED_SINCE.get()?.elapsed();
    let seconds = SIMULATED_START + i64::try_from(passed.as_secs()).unwrap_or(i64::MAX - SIMULATED_START);
    Some(Instant { seconds, nanoseconds: passed.subsec_nanos() })
}

/// Now, to the nanosecond.
pub(crate) fn now() -> Instant {
    if let Some(now) = simulated() {
        return now;
    }
    // Before 1970 there were no clusters.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}

/// Now, as objects say it: in RFC 3339, UTC, to the second.
pub(crate) fn timestamp() -> String {
    jiff::Timestamp::from_second(now().seconds).map(|now| now.to_string()).unwrap_or_default()
}
