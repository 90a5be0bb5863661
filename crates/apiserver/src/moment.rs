//! What time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use ferroplane_schema::table::Instant;

/// Now, to the nanosecond.
pub(crate) fn now() -> Instant {
    if let Some(now) = crate::chance::time() {
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
