//! Operations and schedules in bad weather, and whenever controllers are killed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_testkit::plane::condition;
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::functions::{Function, saying};
use super::in_virtual_time;
use super::world::World;

pub(super) const OPS: &str = "/apis/ops.crossplane.io/v1alpha1";
pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const FUNCTION: &str = "function-operate";
/// As many writes as an operation takes at most, and some more.
const WRITES: u64 = 12;
const SEEDS: u64 = 6;

/// What a function was asked, in order.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A function that applies what its input says, or fails if it says so.
fn obedient(asked: &Asked) -> Function {
    let asked = asked.clone();
    saying(FUNCTION, move |request| {
        let input = Value::Object(request.input.as_ref().unwrap().json().unwrap().clone());
        asked.note(input["name"].as_str().unwrap().to_owned());
        if input["fails"] == true {
            return json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]});
        }
        json!({"desired": {"resources": {"map": {"resource": map(input["name"].as_str().unwrap(), "done")}}}})
    })
}

pub(super) fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"v": value},
    })
}

pub(super) fn spec(input: &Value) -> Value {
    json!({"mode": "Pipeline", "retryLimit": 3, "pipeline": [{"step": "work", "functionRef": {"name": FUNCTION}, "input": input}]})
}

pub(super) async fn apply(world: &World, plural: &str, kind: &str, name: &str, spec: &Value) {
    let object = json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    world.plane.apply(&format!("{OPS}/{plural}/{name}"), &object).await;
}

/// Controllers come to rest, and stay so.
pub(super) async fn settle(world: &World) {
    assert_eq!(calm_down(world).await, Ok(()));
    assert_eq!(stay_still(world).await, Ok(()));
    assert_eq!(world.weather.wrongs(), Vec::<String>::new());
}

#[test]
fn operation_ends_once_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let asked = Asked::default();
        let world = World::with_operations(0, vec![obedient(&asked)]).await;
        for write in 1..=WRITES {
            for fails in [false, true] {
                world.weather.kill_soon(write, write % 2 == 0);
                let name = format!("o-{write}-{fails}");
                apply(
                    &world,
                    "operations",
                    "Operation",
                    &name,
                    &spec(&json!({"name": name, "fails": fails})),
                )
                .await;
                settle(&world).await;
                let operation = world.plane.get(&format!("{OPS}/operations/{name}")).await;
                let (succeeded, failures) =
                    (condition(&operation, "Succeeded"), operation["status"]["failures"].as_u64());
                let calls = asked.all().into_iter().filter(|call| *call == name).count();
                if fails {
                    assert_eq!(
                        (succeeded.as_deref(), failures),
                        (Some("False/PipelineError"), Some(3)),
                        "{name}: {operation}"
                    );
                    // The outcome of one attempt can be lost with whoever made it.
                    assert!((3..=4).contains(&calls), "{name}: {calls} calls");
                } else {
                    assert_eq!(
                        (succeeded.as_deref(), failures),
                        (Some("True/PipelineSuccess"), None),
                        "{name}: {operation}"
                    );
                    assert_eq!(world.plane.get(&format!("{MAPS}/{name}")).await["data"]["v"], "done");
                    assert!((1..=2).contains(&calls), "{name}: {calls} calls");
                }
            }
        }
        // What has ended stays so.
        let before = asked.all();
        world.weather.kill_now();
        settle(&world).await;
        assert_eq!(asked.all(), before);
        world.end().await;
    });
}

#[test]
fn operations_end_as_they_should_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let asked = Asked::default();
            let world = World::with_operations(seed, vec![obedient(&asked)]).await;
            world.weather.set_stormy(true);
            for number in 0..8 {
                let (name, fails) = (format!("o-{number}"), number % 4 == 3);
                apply(
                    &world,
                    "operations",
                    "Operation",
                    &name,
                    &spec(&json!({"name": name, "fails": fails})),
                )
                .await;
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            world.weather.set_stormy(false);
            settle(&world).await;
            for number in 0..8 {
                let operation = world.plane.get(&format!("{OPS}/operations/o-{number}")).await;
                let (succeeded, failures) =
                    (condition(&operation, "Succeeded"), operation["status"]["failures"].as_u64());
                // In bad weather an operation may fail for other reasons than its function, but never without saying so.
                let is_over = match succeeded.as_deref() {
                    Some("True/PipelineSuccess") => number % 4 != 3 && failures.unwrap_or_default() < 3,
                    Some("False/PipelineError") => failures == Some(3),
                    _ => false,
                };
                assert!(is_over, "seed {seed}: {operation}");
                if succeeded.as_deref() == Some("True/PipelineSuccess") {
                    let applied = world.plane.get(&format!("{MAPS}/o-{number}")).await;
                    assert_eq!(applied["data"]["v"], "done", "seed {seed}");
                }
            }
            world.end().await;
        });
    }
}

/// How many operations ran at the same time at most, of those that belong together, over so many seconds.
pub(super) async fn most_running(world: &World, seconds: u64, group: impl Fn(&Value) -> String) -> usize {
    let mut most = 0;
    for _ in 0..seconds * 2 {
        let list = world.plane.get(&format!("{OPS}/operations")).await;
        let mut running = BTreeMap::<String, usize>::new();
        for operation in list["items"].as_array().into_iter().flatten() {
            let is_done = condition(operation, "Succeeded").is_some_and(|it| !it.starts_with("Unknown/"));
            if !is_done {
                *running.entry(group(operation)).or_default() += 1;
            }
        }
        most = most.max(running.into_values().max().unwrap_or_default());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    most
}

#[test]
fn policies_of_schedules_hold_whatever_becomes_of_requests_and_watches() {
    for (seed, policy) in (0..SEEDS).zip(["Allow", "Forbid", "Replace"].into_iter().cycle()) {
        in_virtual_time(async {
            let world = World::with_operations(seed, vec![obedient(&Asked::default())]).await;
            // It fails after 0, 1, 3 and 7 seconds, so that its operations last longer than its schedule.
            let mut template = spec(&json!({"name": "made", "fails": true}));
            template["retryLimit"] = 4.into();
            let cron = json!({
                "schedule": "@every 3s", "concurrencyPolicy": policy, "operationTemplate": {"spec": template},
            });
            apply(&world, "cronoperations", "CronOperation", "c", &cron).await;
            let one = |_: &Value| String::new();
            world.weather.set_stormy(true);
            let mut most = 0;
            for _ in 0..4 {
                most = most.max(most_running(&world, 60, one).await);
                world.weather.kill_now();
            }
            world.weather.set_stormy(false);
            // Until a caller that waits for another attempt has made it.
            most = most.max(most_running(&world, 180, one).await);
            let made = world.plane.get(&format!("{OPS}/cronoperations/c")).await;
            most = most.max(most_running(&world, 60, one).await);
            let later = world.plane.get(&format!("{OPS}/cronoperations/c")).await;
            let is_as_said = if policy == "Allow" { most > 1 } else { most == 1 };
            assert!(is_as_said, "seed {seed}, {policy}: {most} at the same time");
            let time = |cron: &Value| cron["status"]["lastScheduleTime"].clone();
            assert_ne!(time(&made), time(&later), "seed {seed}, {policy}: it goes on");
            world.end().await;
        });
    }
}

/// The times of a schedule for which there are operations, in minutes.
async fn minutes(world: &World) -> Vec<i64> {
    let list = world.plane.get(&format!("{OPS}/operations")).await;
    let names = list["items"].as_array().cloned().unwrap_or_default();
    let seconds = |it: &Value| it["metadata"]["name"].as_str()?.strip_prefix("c-")?.parse::<i64>().ok();
    let mut minutes: Vec<_> = names.iter().filter_map(seconds).map(|seconds| seconds / 60).collect();
    minutes.sort_unstable();
    minutes
}

#[test]
fn schedule_goes_on_after_bad_weather_and_misses_nothing_in_good() {
    for (seed, policy) in (0..SEEDS).zip(["Allow", "Forbid", "Replace"].into_iter().cycle()) {
        in_virtual_time(async {
            let asked = Asked::default();
            let world = World::with_operations(seed, vec![obedient(&asked)]).await;
            let cron = json!({
                "schedule": "* * * * *", "concurrencyPolicy": policy, "successfulHistoryLimit": 1000, "failedHistoryLimit": 1000,
                "operationTemplate": {"spec": spec(&json!({"name": "made"}))},
            });
            world.weather.set_stormy(true);
            apply(&world, "cronoperations", "CronOperation", "c", &cron).await;
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_secs(100)).await;
                world.weather.kill_now();
            }
            world.weather.set_stormy(false);
            // Until a caller that waits for another attempt has made it.
            tokio::time::sleep(Duration::from_mins(5)).await;
            let before = minutes(&world).await;
            tokio::time::sleep(Duration::from_mins(20)).await;
            let after = minutes(&world).await;
            let new: Vec<_> = after.iter().copied().filter(|minute| !before.contains(minute)).collect();
            let first = *before.last().unwrap() + 1;
            assert_eq!(new, (first..first + 20).collect::<Vec<_>>(), "seed {seed}, {policy}");
            let mut suspended = cron.clone();
            suspended["suspend"] = true.into();
            apply(&world, "cronoperations", "CronOperation", "c", &suspended).await;
            settle(&world).await;
            let cron = world.plane.get(&format!("{OPS}/cronoperations/c")).await;
            let running = &cron["status"]["runningOperationRefs"];
            assert!(running.is_null() || *running == json!([]), "seed {seed}: {cron}");
            world.end().await;
        });
    }
}

/// A plane with a schedule for every minute.
async fn world_with_a_schedule() -> World {
    let world = World::with_operations(0, vec![obedient(&Asked::default())]).await;
    let cron = json!({
        "schedule": "* * * * *", "successfulHistoryLimit": 1000, "failedHistoryLimit": 1000,
        "operationTemplate": {"spec": spec(&json!({"name": "made"}))},
    });
    apply(&world, "cronoperations", "CronOperation", "c", &cron).await;
    world
}

/// Controllers start again, with a clock that is wrong by this many hours.
fn restart_with_clock(world: &World, hours: i64) {
    world.weather.clock.store(hours * 3600, Ordering::Relaxed);
    world.weather.kill_now();
}

/// Half a minute more, so that nothing is due at that moment.
async fn pass(minutes: u64) {
    tokio::time::sleep(Duration::from_mins(minutes) + Duration::from_secs(30)).await;
}

#[test]
fn schedule_continues_ten_minutes_after_its_clock_was_far_ahead() {
    in_virtual_time(async {
        let world = world_with_a_schedule().await;
        restart_with_clock(&world, 48);
        pass(3).await;
        let ahead = minutes(&world).await;
        restart_with_clock(&world, 0);
        pass(8).await;
        assert_eq!(minutes(&world).await, ahead, "it may be this clock that is wrong");
        pass(4).await;
        let after = minutes(&world).await;
        let new: Vec<_> = after.iter().filter(|minute| !ahead.contains(minute)).collect();
        let last = *ahead.last().unwrap();
        assert!(!new.is_empty() && new.iter().all(|minute| **minute < last - 47 * 60), "{ahead:?} {new:?}");
        world.plane.until_said("c", "which is too far in the future").await;
        world.end().await;
    });
}

/// As on a machine without a battery for its clock, until it reaches a time server.
#[test]
fn schedule_repeats_nothing_if_its_clock_boots_behind_and_is_corrected() {
    in_virtual_time(async {
        let world = world_with_a_schedule().await;
        pass(5).await;
        let last = || async {
            world.plane.get(&format!("{OPS}/cronoperations/c")).await["status"]["lastScheduleTime"].clone()
        };
        restart_with_clock(&world, -2);
        let (before, last_before) = (minutes(&world).await, last().await);
        pass(5).await;
        assert_eq!((minutes(&world).await, last().await), (before.clone(), last_before));
        world.weather.clock.store(0, Ordering::Relaxed);
        pass(3).await;
        let after = minutes(&world).await;
        assert!(after.starts_with(&before) && after.len() > before.len(), "{before:?} {after:?}");
        world.end().await;
    });
}
