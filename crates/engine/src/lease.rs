//! Decides which replica leads, from a `Lease`. Performs no I/O and has no clock.
//!
//! # Invariants
//! * A replica never takes a lease that was renewed within its duration, as that replica observed it: clocks of different machines are
//!   never compared.

use std::time::Duration;

use serde_json::{Value, json};

/// The duration of a lease that has none.
const USUAL: Duration = Duration::from_secs(15);

/// The spec of a `Lease`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Empty if no replica holds it.
    pub holder: String,
    pub duration: Duration,
    pub transitions: i64,
    pub acquired: String,
    /// When it was renewed, by the holder's clock. It is only compared with itself.
    pub renewed: String,
}

/// What a replica may do with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseClaim {
    /// It may be taken.
    Take,
    /// Another replica holds it, for at least so long.
    Wait(Duration),
}

impl Lease {
    /// Reads the `spec` of a `Lease`. Invalid fields count as absent.
    pub fn read(spec: &Value) -> Self {
        let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        let duration = spec["leaseDurationSeconds"].as_u64().filter(|seconds| *seconds > 0);
        Self {
            holder: text("holderIdentity"),
            duration: duration.map_or(USUAL, Duration::from_secs),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
        }
    }

    /// What a replica may do that has observed no change of the lease for this time.
    pub fn claim(&self, who: &str, unchanged_for: Duration) -> LeaseClaim {
        // The own name may take it, too: a replica that restarts within the lease takes over from itself at once.
        if self.holder.is_empty() || self.holder == who {
            return LeaseClaim::Take;
        }
        match self.duration.checked_sub(unchanged_for) {
            Some(left) if !left.is_zero() => LeaseClaim::Wait(left),
            _ => LeaseClaim::Take,
        }
    }
}

/// The `spec` of a lease that a replica holds now.
pub fn held_lease(before: Option<&Lease>, who: &str, duration: Duration, now: &str) -> Value {
    let same = before.filter(|before| before.holder == who);
    let acquired = same.map_or(now, |before| &before.acquired);
    let transitions = match (before, same) {
        (None, _) => 0,
        (_, Some(before)) => before.transitions,
        (Some(before), None) => before.transitions.saturating_add(1),
    };
    json!({
        "holderIdentity": who, "leaseDurationSeconds": duration.as_secs().max(1), "acquireTime": acquired,
        "renewTime": now, "leaseTransitions": transitions,
    })
}

/// The `spec` of a released lease.
pub fn released_lease(before: &Lease, now: &str) -> Value {
    json!({
        // client-go writes one second here, too: the API server refuses zero.
        "holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now,
        "leaseTransitions": before.transitions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(holder: &str) -> Lease {
        Lease::read(&held_lease(None, holder, 15 * SECOND, "then"))
    }

    #[test]
    fn lease_is_taken_when_it_is_free_ours_or_was_not_renewed() {
        assert_eq!(lease("").claim("me", Duration::ZERO), LeaseClaim::Take);
        assert_eq!(lease("me").claim("me", Duration::ZERO), LeaseClaim::Take);
        assert_eq!(lease("other").claim("me", 5 * SECOND), LeaseClaim::Wait(10 * SECOND));
        assert_eq!(lease("other").claim("me", 15 * SECOND), LeaseClaim::Take);
        assert_eq!(lease("other").claim("me", 99 * SECOND), LeaseClaim::Take);
    }

    #[test]
    fn lease_remembers_since_when_and_how_often_it_changed_hands() {
        let first = lease("one");
        let renewed = Lease::read(&held_lease(Some(&first), "one", 15 * SECOND, "now"));
        assert_eq!(
            (renewed.acquired.as_str(), renewed.renewed.as_str(), renewed.transitions),
            ("then", "now", 0)
        );
        let taken = Lease::read(&held_lease(Some(&renewed), "two", 15 * SECOND, "later"));
        assert_eq!((taken.acquired.as_str(), taken.transitions), ("later", 1));
        let released = Lease::read(&released_lease(&taken, "end"));
        assert_eq!((released.holder.as_str(), released.transitions), ("", 1));
    }

    #[test]
    fn nothing_makes_it_panic() {
        for spec in [json!(null), json!([]), json!({"leaseDurationSeconds": -1, "leaseTransitions": "x"})] {
            let lease = Lease::read(&spec);
            assert_eq!(lease.claim("me", Duration::ZERO), LeaseClaim::Take);
            assert!(!lease.duration.is_zero());
        }
    }
}
