//! The retry limit and the deadlines of an operation.

use std::time::Duration;

use ferroplane_api::Object;
use ferroplane_golang::time::rfc3339;
use serde_json::Value;

/// The default number of attempts.
const RETRY_LIMIT: u64 = 5;
/// How many interrupted attempts are forgiven. An upgrade of the control plane must not fail an operation that may not be retried, and a
/// function that ends the process of the control plane each time must not be called for ever.
const INTERRUPTION_LIMIT: u64 = 5;
/// The default timeout of an attempt, in seconds.
const ATTEMPT: u64 = 120;

/// How many attempts have failed.
pub(super) fn failures(operation: &Object) -> u64 {
    operation.get("status").and_then(|status| status.get("failures")?.as_u64()).unwrap_or_default()
}

/// How many attempts ended with the process that made them, without a result.
pub(super) fn interruptions(operation: &Object) -> u64 {
    operation.get("status").and_then(|status| status.get("interruptions")?.as_u64()).unwrap_or_default()
}

/// How many attempts were interrupted, if that is too often beside so many that have failed.
pub(super) fn too_many_interruptions(operation: &Object, failures: u64) -> Option<u64> {
    let most = retry_limit(operation).saturating_add(INTERRUPTION_LIMIT);
    Some(interruptions(operation)).filter(|count| *count > 0 && failures.saturating_add(*count) >= most)
}

/// How many attempts may fail.
pub(super) fn retry_limit(operation: &Object) -> u64 {
    let limit = operation.get("spec").and_then(|spec| spec.get("retryLimit")?.as_i64());
    limit.map_or(RETRY_LIMIT, |limit| u64::try_from(limit).unwrap_or_default())
}

/// How many seconds all attempts may take together, pauses included.
pub(super) fn active_deadline_of(operation: &Object) -> Option<u64> {
    seconds(operation, "activeDeadlineSeconds")
}

/// When the first attempt began, in seconds since 1970. Recorded only if there is a deadline.
pub(super) fn started_at(operation: &Object) -> Option<i64> {
    let started = operation.get("status").and_then(|status| status.get("startTime")?.as_str());
    started.and_then(rfc3339::moment).map(|moment| moment.seconds)
}

/// The time that is left for all attempts together. None without a deadline.
pub(super) fn time_left(operation: &Object, now: &str) -> Option<Duration> {
    let deadline = active_deadline_of(operation)?;
    let (Some(started), Some(now)) = (started_at(operation), rfc3339::moment(now)) else {
        return Some(Duration::from_secs(deadline));
    };
    // Setting the clock back does not extend the deadline.
    let passed = u64::try_from(now.seconds.saturating_sub(started)).unwrap_or_default();
    Some(Duration::from_secs(deadline.saturating_sub(passed)))
}

/// How long the attempt that begins now may take.
pub fn attempt_limit(operation: &Object, now: &str) -> Duration {
    let limit = Duration::from_secs(seconds(operation, "attemptDeadlineSeconds").unwrap_or(ATTEMPT));
    time_left(operation, now).map_or(limit, |left| left.min(limit))
}

fn seconds(operation: &Object, field: &str) -> Option<u64> {
    operation.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(spec: &Value, status: &Value) -> Object {
        json!({"spec": spec, "status": status}).as_object().unwrap().clone()
    }

    #[test]
    fn attempt_takes_no_longer_than_it_may_and_than_all_may_together() {
        let started = json!({"startTime": "2026-01-01T00:00:00Z"});
        let cases = [
            (json!({}), json!({}), 120),
            (json!({"attemptDeadlineSeconds": 600}), json!({}), 600),
            (json!({"attemptDeadlineSeconds": 5, "activeDeadlineSeconds": 60}), started.clone(), 5),
            (json!({"activeDeadlineSeconds": 60}), json!({}), 60),
            (json!({"activeDeadlineSeconds": 60}), started.clone(), 20),
            (json!({"activeDeadlineSeconds": 30}), started, 0),
            // The clock was set back.
            (json!({"activeDeadlineSeconds": 60}), json!({"startTime": "2026-01-02T00:00:00Z"}), 60),
        ];
        for (spec, status, expected) in cases {
            let limit = attempt_limit(&operation(&spec, &status), "2026-01-01T00:00:40Z");
            assert_eq!(limit.as_secs(), expected, "{spec} {status}");
        }
    }
}
