//! How long an answer holds, as functions tell it.

use ferroplane_golang::time::duration;
use prost_types::Duration;

/// A duration such as `1m30s`, as the protocol has it, or what Go says is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    duration::parse(text).map(to_message)
}

fn to_message(nanoseconds: i64) -> Duration {
    const SECOND: i64 = 1_000_000_000;
    let nanos = i32::try_from(nanoseconds % SECOND).unwrap_or_default();
    Duration { seconds: nanoseconds / SECOND, nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_one_sign() {
        assert_eq!(parse("-1.5s"), Ok(Duration { seconds: -1, nanos: -500_000_000 }));
    }
}
