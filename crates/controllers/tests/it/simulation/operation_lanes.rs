//! Operations of users while very many of schedules are due.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_runner::AsyncFunction;
use ferroplane_testkit::plane::condition;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::functions::Function;
use super::in_virtual_time;
use super::operations::{FUNCTION, OPS, apply, settle, spec};
use super::world::World;

/// Shorter than the second after which an operation that waits for its function makes room for another one.
const CALL: Duration = Duration::from_millis(900);
/// Several times as many as run at a time.
const SCHEDULES: usize = 200;

/// When the function was called, and for what.
type Calls = Arc<Mutex<Vec<(String, Instant)>>>;

fn unhurried(calls: &Calls) -> Function {
    let calls = calls.clone();
    let inside = AsyncFunction::new(move |request| {
        let name = request.input.as_ref().unwrap().json().unwrap()["name"].as_str().unwrap().to_owned();
        calls.lock().unwrap().push((name, Instant::now()));
        async {
            tokio::time::sleep(CALL).await;
            Ok(ferroplane_wire::from_json(&json!({"meta": {}})).unwrap())
        }
    });
    (FUNCTION.to_owned(), inside)
}

#[test]
fn operation_of_a_user_does_not_wait_for_those_of_schedules_that_are_due() {
    in_virtual_time(async {
        let calls = Calls::default();
        let world = World::with_operations(0, vec![unhurried(&calls)]).await;
        for number in 0..SCHEDULES {
            let name = format!("c-{number}");
            let operation = json!({"spec": spec(&json!({"name": name}))});
            // In a minute of every hour, and all of them in the same.
            let cron = json!({"schedule": "30 * * * *", "operationTemplate": operation});
            apply(&world, "cronoperations", "CronOperation", &name, &cron).await;
        }
        let count = || calls.lock().unwrap().len();
        while count() == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Until all of them are there, and most of them wait.
        let made = || async {
            world.plane.get(&format!("{OPS}/operations")).await["items"].as_array().unwrap().len()
        };
        while made().await < SCHEDULES {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let began_at = Instant::now();
        let waiting = SCHEDULES - count();
        apply(&world, "operations", "Operation", "user", &spec(&json!({"name": "user"}))).await;
        let is_done = |it: &Value| condition(it, "Succeeded").as_deref() == Some("True/PipelineSuccess");
        world.plane.until(&format!("{OPS}/operations/user"), is_done).await;
        let called = calls.lock().unwrap().iter().find(|(name, _)| name == "user").unwrap().1;
        let before = calls.lock().unwrap().iter().filter(|(_, at)| *at > began_at && *at <= called).count();
        assert!(waiting > SCHEDULES / 2, "only {waiting} of {SCHEDULES} wait");
        assert!(called - began_at <= CALL, "{:?}", called - began_at);
        assert!(before < waiting / 2, "{before} of {waiting} that waited were first");
        settle(&world).await;
        assert_eq!(count(), SCHEDULES + 1);
        world.end().await;
    });
}
