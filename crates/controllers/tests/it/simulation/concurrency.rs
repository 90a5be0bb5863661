//! No more composite resources are reconciled at a time than is allowed, and no fewer.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferroplane_controllers::Tuning;
use ferroplane_runner::AsyncFunction;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::json;

use super::functions::Function;
use super::in_virtual_time;
use super::world::World;

const NAME: &str = "function-unhurried";
/// Shorter than the second after which a reconcile that waits for a function makes room for another one.
const CALL: Duration = Duration::from_millis(300);
/// More than are reconciled at a time.
const COUNT: usize = 8;

/// How many calls there are now, and how many there were at most.
#[derive(Default)]
struct Calls {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A function that takes a while to respond.
fn unhurried(calls: &Arc<Calls>) -> Function {
    let calls = calls.clone();
    let inside = AsyncFunction::new(move |_| {
        let calls = calls.clone();
        async move {
            let now = calls.now.fetch_add(1, Ordering::Relaxed) + 1;
            calls.most.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(CALL).await;
            calls.now.fetch_sub(1, Ordering::Relaxed);
            Ok(RunFunctionResponse::default())
        }
    });
    (NAME.to_owned(), inside)
}

/// How many sites are reconciled at a time, at most, with this limit.
fn most_at_a_time(limit: usize) -> usize {
    in_virtual_time(async {
        let calls = Arc::new(Calls::default());
        let tuning = Tuning { max_concurrent_reconciles: NonZeroUsize::new(limit), ..Tuning::default() };
        let world = World::with_tuning(tuning, vec![unhurried(&calls)]).await;
        world.plane.define_sites().await;
        world.plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": NAME}}])).await;
        for number in 0..COUNT {
            world.plane.create_site(&format!("site-{number}"), "red").await;
        }
        for number in 0..COUNT {
            world.plane.until(&format!("{SITES}/site-{number}"), is_ready).await;
        }
        world.end().await;
        calls.most.load(Ordering::Relaxed)
    })
}

#[test]
fn as_many_are_reconciled_at_a_time_as_is_said() {
    for limit in [1, 3] {
        assert_eq!(most_at_a_time(limit), limit);
    }
}
