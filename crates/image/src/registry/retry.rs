//! When to try again, and how long to wait before.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;
use uuid::Uuid;

use super::Failure;

/// How often something is tried, and the pauses between.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// How often something is tried altogether.
    pub attempts: u32,
    /// The first pause; each is twice the one before.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// How long a registry may ask us to wait (`Retry-After`).
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(10),
            longest_wait: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// Do something until it succeeds, fails for good, or was tried often enough.
    pub(super) async fn run<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Failure> {
        let mut failures = 0;
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(failure) => self.wait(&mut failures, failure).await?,
            }
        }
    }

    /// Wait before another try, or give up.
    pub(super) async fn wait(&self, failures: &mut u32, failure: Failure) -> Result<(), Failure> {
        *failures += 1;
        if !failure.is_transient() || *failures >= self.attempts {
            return Err(failure);
        }
        sleep(self.pause(*failures, failure)?).await;
        Ok(())
    }

    fn pause(&self, failures: u32, failure: Failure) -> Result<Duration, Failure> {
        if let Some(asked) = failure.pause() {
            if asked <= self.longest_wait {
                return Ok(asked);
            }
            let (seconds, limit) = (asked.as_secs(), self.longest_wait.as_secs());
            return match failure {
                Failure::Status { host, .. } => Err(Failure::Throttled { host, seconds, limit }),
                other => Err(other),
            };
        }
        let doubled = self.first_pause.saturating_mul(1 << (failures - 1).min(30));
        Ok(spread(doubled.min(self.longest_pause)))
    }
}

/// Between half of it and all of it, so that those who failed together do not come back together.
fn spread(pause: Duration) -> Duration {
    let random = f64::from(Uuid::new_v4().as_bytes()[0]) / 255.0;
    pause.mul_f64(0.5 + random / 2.0)
}

/// What `Retry-After` asks for: seconds, or a time.
pub(super) fn retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = header.trim().parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(header.trim()).ok()?.timestamp();
    let pause = until.duration_since(now).max(SignedDuration::ZERO);
    Duration::try_from(pause).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn failure(status: u16, pause: Option<Duration>) -> Failure {
        let status = StatusCode::from_u16(status).unwrap();
        Failure::Status { host: "h".to_owned(), what: "w", status, said: String::new(), pause }
    }

    #[test]
    fn waiting_time_is_seconds_or_a_date() {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        for (header, expected) in [
            ("120", Some(120)),
            ("Wed, 21 Oct 2015 07:29:00 GMT", Some(60)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(header, now), expected.map(Duration::from_secs), "{header}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let policy = RetryPolicy::default();
        for (failures, longest) in [(1, 500), (2, 1000), (3, 2000), (20, 10_000), (90, 10_000)] {
            let pause = policy.pause(failures, failure(500, None)).unwrap().as_millis();
            assert!(pause <= longest && pause >= longest / 2, "{failures}: {pause}");
        }
    }

    #[test]
    fn registry_that_asks_for_too_long_a_pause_is_given_up_on() {
        let policy = RetryPolicy::default();
        let short = failure(429, Some(Duration::from_mins(1)));
        assert_eq!(policy.pause(1, short).unwrap(), Duration::from_mins(1));
        let long = policy.pause(1, failure(429, Some(Duration::from_hours(1)))).unwrap_err();
        assert!(matches!(long, Failure::Throttled { seconds: 3600, limit: 60, .. }), "{long}");
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for (status, is_transient) in [
            (500, true),
            (502, true),
            (503, true),
            (504, true),
            (429, true),
            (408, true),
            (501, false),
            (400, false),
            (403, false),
        ] {
            assert_eq!(failure(status, None).is_transient(), is_transient, "{status}");
        }
    }
}
