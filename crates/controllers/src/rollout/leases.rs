//! Decides which `FunctionIntercept`s are renewed in time.
//!
//! Time counts from when a renewal is observed, by the clock of this machine: the clock of the client that renews it does not matter.
//! After a restart, each lease starts again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use serde_json::Value;
use tokio::time::Instant;

/// Leases, by the uid of the intercept.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<String, Lease>>);

#[derive(Debug, Clone, Copy)]
struct Lease {
    renewals: i64,
    expires_at: Instant,
}

impl Leases {
    /// Record an intercept. Returns whether it was expired or unknown, and is valid from now on.
    pub(crate) fn observe(&self, intercept: &Object) -> bool {
        let number =
            |field: &str| intercept.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_i64);
        let renewals = number("renewals").unwrap_or_default();
        let seconds = number("leaseSeconds").and_then(|it| u64::try_from(it).ok()).unwrap_or(15);
        let now = Instant::now();
        let mut leases = self.lock();
        let known = leases.get(meta::uid(intercept)).copied();
        if known.is_some_and(|known| known.renewals == renewals) {
            return false;
        }
        let lease = Lease { renewals, expires_at: now + Duration::from_secs(seconds) };
        leases.insert(meta::uid(intercept).to_owned(), lease);
        known.is_none_or(|known| known.expires_at <= now)
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// How long a lease is valid without a renewal. None if it has expired.
    pub(crate) fn left(&self, uid: &str) -> Option<Duration> {
        let expires_at = self.lock().get(uid)?.expires_at;
        let left = expires_at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// How long ago a lease expired.
    pub(crate) fn expired_for(&self, uid: &str) -> Option<Duration> {
        Some(Instant::now().saturating_duration_since(self.lock().get(uid)?.expires_at))
    }

    /// When the first of these expires, if it is not renewed.
    pub(crate) fn first_expiry<'u>(&self, uids: impl Iterator<Item = &'u str>) -> Option<Instant> {
        let leases = self.lock();
        uids.filter_map(|uid| Some(leases.get(uid)?.expires_at)).min()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn intercept(renewals: i64) -> Object {
        let spec = json!({"renewals": renewals, "leaseSeconds": 10});
        json!({"metadata": {"uid": "1"}, "spec": spec}).as_object().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn intercept_holds_as_long_as_it_is_renewed() {
        let leases = Leases::default();
        assert!(leases.observe(&intercept(0)), "it is new");
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(!leases.observe(&intercept(1)), "it held all the time");
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(leases.left("1").is_some());
        assert!(!leases.observe(&intercept(1)), "to be seen again is no renewal");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((leases.left("1"), leases.expired_for("1")), (None, Some(Duration::from_secs(1))));
        assert!(leases.observe(&intercept(2)), "it is back");
        assert!(leases.left("1").is_some() && leases.left("2").is_none());
    }
}
