//! Other work while very many operations run: operations of users, and composite resources.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use super::calls::Calls;
use super::{MANY, OPS, PATIENCE, object, pipeline};
use crate::composition::plane::{Plane, site};

/// How long it takes from one of them to the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Create operations until the function was called for each of the many. Returns how long each took to its first call.
pub(super) async fn others(plane: &Plane, calls: &Calls, prefix: &str) -> Vec<Duration> {
    let deadline = Instant::now() + PATIENCE;
    let mut delays = Vec::new();
    while calls.len() < MANY + delays.len() {
        let name = format!("{prefix}-{}", delays.len());
        let before = Instant::now();
        plane.post(&format!("{OPS}/operations"), &object("Operation", &name, &pipeline(&name))).await;
        let called = loop {
            if let Some(called) = calls.find(&name) {
                break called;
            }
            assert!(Instant::now() < deadline, "{} of {MANY} calls", calls.len());
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        delays.push(called.saturating_duration_since(before));
        tokio::time::sleep(PAUSE).await;
    }
    delays
}

/// Create composite resources one after the other, until dropped. Notes how long each took to become ready.
pub(super) async fn composites(plane: &Plane, delays: &mut Vec<Duration>) -> Infallible {
    loop {
        let name = format!("beside-{}", delays.len());
        let before = Instant::now();
        plane.user().make(&site(&name)).await;
        plane.ready(delays.len() + 1).await;
        delays.push(plane.ready_since(&name) - before);
        tokio::time::sleep(PAUSE).await;
    }
}
