//! Operations whose functions hang, panic or fail for ever, and operations that somebody stops.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_runner::AsyncFunction;
use ferroplane_testkit::plane::condition;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::functions::{Function, saying};
use super::in_virtual_time;
use super::operations::{FUNCTION, MAPS, OPS, apply, map, settle, spec};
use super::world::World;

/// How often a function was called, and how often nothing waited for its answer any more.
#[derive(Clone, Default)]
struct Counts {
    calls: Arc<AtomicUsize>,
    broken_off: Arc<AtomicUsize>,
}

impl Counts {
    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn broken_off(&self) -> usize {
        self.broken_off.load(Ordering::Relaxed)
    }
}

/// Counts when it is dropped.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A function that never answers.
fn hanging(counts: &Counts) -> Function {
    let counts = counts.clone();
    let inside = AsyncFunction::new(move |_| {
        counts.calls.fetch_add(1, Ordering::Relaxed);
        let guard = Guard(counts.broken_off.clone());
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    (FUNCTION.to_owned(), inside)
}

/// A function that takes its time.
fn slow(counts: &Counts) -> Function {
    let counts = counts.clone();
    let inside = AsyncFunction::new(move |_| {
        counts.calls.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(ferroplane_wire::from_json(&json!({"meta": {}})).unwrap())
        }
    });
    (FUNCTION.to_owned(), inside)
}

/// A function that panics.
fn panicking(counts: &Counts) -> Function {
    let counts = counts.clone();
    let inside = AsyncFunction::new(move |_| {
        counts.calls.fetch_add(1, Ordering::Relaxed);
        async { panic!("a function panics on purpose") }
    });
    (FUNCTION.to_owned(), inside)
}

async fn operation(world: &World, name: &str, limits: &Value) {
    let mut spec = spec(&json!({"name": name}));
    for (field, value) in limits.as_object().unwrap() {
        spec[field] = value.clone();
    }
    apply(world, "operations", "Operation", name, &spec).await;
}

fn path(name: &str) -> String {
    format!("{OPS}/operations/{name}")
}

async fn until_failed(world: &World, name: &str) -> (Value, Value) {
    let is_so = |it: &Value| condition(it, "Succeeded").as_deref() == Some("False/PipelineError");
    let failed = world.plane.until(&path(name), is_so).await;
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    let succeeded = conditions.iter().find(|it| it["type"] == "Succeeded").unwrap().clone();
    (failed, succeeded)
}

#[test]
fn operation_that_is_deleted_or_paused_while_it_runs_is_broken_off() {
    in_virtual_time(async {
        let counts = Counts::default();
        let world = World::with_operations(0, vec![hanging(&counts)]).await;
        operation(&world, "deleted", &json!({})).await;
        operation(&world, "paused", &json!({})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((counts.calls(), counts.broken_off()), (2, 0));
        world.plane.delete(&path("deleted")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(counts.broken_off(), 1);
        assert!(world.plane.get(&path("deleted")).await.is_null(), "nothing holds it back");
        let pause = |value: Value| json!({"metadata": {"annotations": {"crossplane.io/paused": value}}});
        world.plane.merge(&path("paused"), &pause("true".into())).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(counts.broken_off(), 2);
        settle(&world).await;
        let paused = world.plane.get(&path("paused")).await;
        assert_eq!(condition(&paused, "Succeeded").as_deref(), Some("Unknown/PipelinePending"));
        assert!(paused["status"]["failures"].is_null(), "nobody failed: {paused}");
        world.weather.kill_now();
        settle(&world).await;
        world.plane.merge(&path("paused"), &pause(Value::Null)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(counts.calls(), 3);
        let resumed = world.plane.get(&path("paused")).await;
        assert!(resumed["status"]["interruptions"].is_null(), "no attempt was interrupted: {resumed}");
        world.end().await;
    });
}

#[test]
fn operation_that_takes_the_name_of_one_that_runs_does_not_wait_for_it() {
    in_virtual_time(async {
        let counts = Counts::default();
        let world = World::with_operations(0, vec![hanging(&counts)]).await;
        operation(&world, "o", &json!({})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((counts.calls(), counts.broken_off()), (1, 0));
        // Nobody hears of the deletion, only of the other one.
        *world.weather.blocked.lock().unwrap() = Some("/apis/ops.crossplane.io/v1alpha1/operations");
        world.weather.cut_watches();
        world.plane.delete(&path("o")).await;
        operation(&world, "o", &json!({})).await;
        *world.weather.blocked.lock().unwrap() = None;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!((counts.calls(), counts.broken_off()), (2, 1));
        world.end().await;
    });
}

#[test]
fn attempt_that_takes_too_long_or_panics_counts() {
    in_virtual_time(async {
        for (function, limits, code, calls) in [
            (
                hanging as fn(&Counts) -> Function,
                json!({"attemptDeadlineSeconds": 10}),
                "OperationTimeout",
                3,
            ),
            (panicking, json!({}), "OperationPanicked", 3),
            (panicking, json!({"retryLimit": 1}), "OperationPanicked", 1),
        ] {
            let counts = Counts::default();
            let world = World::with_operations(0, vec![function(&counts)]).await;
            operation(&world, "o", &limits).await;
            let (failed, succeeded) = until_failed(&world, "o").await;
            assert_eq!(succeeded["code"], code, "{failed}");
            // What was found out before it was cut off is kept.
            assert_eq!(
                condition(&failed, "ValidPipeline").as_deref(),
                Some("True/ValidPipeline"),
                "{failed}"
            );
            assert_eq!((&failed["status"]["failures"], counts.calls()), (&json!(calls), calls));
            settle(&world).await;
            assert_eq!(counts.calls(), calls);
            world.end().await;
        }
    });
}

#[test]
fn operation_that_succeeded_does_not_run_again_because_that_cannot_be_written_for_a_moment() {
    in_virtual_time(async {
        let counts = Counts::default();
        let world = World::with_operations(0, vec![slow(&counts)]).await;
        operation(&world, "o", &json!({})).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(counts.calls(), 1);
        let status = "/apis/ops.crossplane.io/v1alpha1/operations/o/status";
        *world.weather.blocked.lock().unwrap() = Some(status);
        tokio::time::sleep(Duration::from_secs(3)).await;
        *world.weather.blocked.lock().unwrap() = None;
        let is_so = |it: &Value| condition(it, "Succeeded").as_deref() == Some("True/PipelineSuccess");
        world.plane.until(&path("o"), is_so).await;
        settle(&world).await;
        assert_eq!(counts.calls(), 1);
        world.end().await;
    });
}

#[test]
fn operation_is_given_up_when_its_time_is_over_even_if_controllers_are_killed() {
    in_virtual_time(async {
        for is_killed in [false, true] {
            let counts = Counts::default();
            let world = World::with_operations(0, vec![hanging(&counts)]).await;
            let began_at = Instant::now();
            operation(
                &world,
                "o",
                &json!({"retryLimit": 99, "attemptDeadlineSeconds": 5, "activeDeadlineSeconds": 30}),
            )
            .await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            if is_killed {
                world.weather.kill_now();
            }
            let (failed, succeeded) = until_failed(&world, "o").await;
            let took = began_at.elapsed().as_secs();
            assert!((29..=33).contains(&took), "{took} s");
            let message = succeeded["message"].as_str().unwrap();
            assert!(message.starts_with("active deadline of 30s exceeded"), "{message}");
            assert!(failed["status"]["failures"].as_u64().unwrap() >= 4, "{failed}");
            settle(&world).await;
            world.end().await;
        }
    });
}

#[test]
fn operation_is_given_up_if_controllers_are_killed_during_each_attempt() {
    in_virtual_time(async {
        let counts = Counts::default();
        let world = World::with_operations(0, vec![hanging(&counts)]).await;
        operation(&world, "o", &json!({"retryLimit": 1})).await;
        for _ in 0..20 {
            // Less than an attempt may take, so that none times out.
            tokio::time::sleep(Duration::from_secs(20)).await;
            world.weather.kill_now();
        }
        let (failed, succeeded) = until_failed(&world, "o").await;
        assert_eq!(succeeded["code"], "OperationAttemptsExhausted", "{failed}");
        assert_eq!(succeeded["message"], "the control plane ended during 6 attempts", "{failed}");
        assert_eq!(counts.calls(), 7);
        settle(&world).await;
        world.end().await;
    });
}

#[test]
fn operation_that_waits_between_two_attempts_counts_no_interruption_when_controllers_are_killed() {
    in_virtual_time(async {
        let failing =
            saying(FUNCTION, |_| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]}));
        let world = World::with_operations(0, vec![failing]).await;
        operation(&world, "o", &json!({"retryLimit": 99})).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            world.weather.kill_now();
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        let tried = world.plane.get(&path("o")).await;
        assert!(tried["status"]["failures"].as_u64() >= Some(7), "{tried}");
        assert!(tried["status"]["interruptions"].is_null(), "no attempt was interrupted: {tried}");
        world.end().await;
    });
}

#[test]
fn attempts_are_further_and_further_apart_unless_somebody_changes_the_spec() {
    in_virtual_time(async {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let notes = calls.clone();
        let failing = saying(FUNCTION, move |_| {
            notes.lock().unwrap().push(Instant::now());
            json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})
        });
        let world = World::with_operations(0, vec![failing]).await;
        operation(&world, "limited", &json!({"retryLimit": 5})).await;
        until_failed(&world, "limited").await;
        let made = std::mem::take(&mut *calls.lock().unwrap());
        let pauses: Vec<_> = made.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8]);

        let count = || calls.lock().unwrap().len();
        operation(&world, "persistent", &json!({"retryLimit": 99})).await;
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(count(), 6, "after 0, 1, 3, 7, 15 and 31 s");
        // Neither what it writes itself nor what others write beside the spec brings the next attempt forward.
        world.plane.merge(&path("persistent"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(count(), 6);
        world.plane.merge(&path("persistent"), &json!({"spec": {"retryLimit": 98}})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(count(), 7, "somebody may have corrected it");
        world.end().await;
    });
}

#[test]
fn functions_that_hang_keep_no_other_operation_waiting() {
    in_virtual_time(async {
        let counts = Counts::default();
        let good = saying(
            "function-good",
            |_| json!({"desired": {"resources": {"map": {"resource": map("made", "done")}}}}),
        );
        let world = World::with_operations(0, vec![hanging(&counts), good]).await;
        // More than can be worked on at once.
        for number in 0..40 {
            operation(&world, &format!("slow-{number}"), &json!({})).await;
        }
        let mut spec = spec(&json!({}));
        spec["pipeline"][0]["functionRef"]["name"] = "function-good".into();
        apply(&world, "operations", "Operation", "quick", &spec).await;
        let began_at = Instant::now();
        world.plane.until(&format!("{MAPS}/made"), |it| it["data"]["v"] == "done").await;
        assert!(began_at.elapsed() < Duration::from_secs(10), "{:?}", began_at.elapsed());
        world.end().await;
    });
}
