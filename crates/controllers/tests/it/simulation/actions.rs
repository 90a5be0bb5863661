//! ActionSets in bad weather, and whenever controllers are killed.
//!
//! Every phase creates a ConfigMap whose name it does not know beforehand: what is done twice is there twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use ferroplane_testkit::plane::condition;
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};

use super::functions::saying;
use super::in_virtual_time;
use super::operations::{self, MAPS, OPS, settle};
use super::world::World;

pub(super) const BLUEPRINTS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/blueprints";
pub(super) const ACTION_SETS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets";
const PHASES: [&str; 3] = ["one", "two", "last"];
/// As many writes as an ActionSet takes at most, and some more.
const WRITES: u64 = 12;
const SEEDS: u64 = 6;
/// How many ActionSets there are in bad weather.
const SETS: u64 = 8;

/// A phase that creates a ConfigMap.
fn create(phase: &str) -> Value {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "generateName": format!("{phase}-"), "namespace": "default",
            "labels": {"set": "{{ .Options.set }}", "phase": phase},
        },
    });
    json!({
        "func": "KubeOps", "funcVersion": "v0.1.0", "name": phase,
        "args": {"operation": "create", "spec": map.to_string()},
    })
}

/// A phase that fails, because there is nothing to delete.
fn fail(phase: &str) -> Value {
    let nobody = json!({"apiVersion": "v1", "group": "", "resource": "configmaps", "name": "nobody", "namespace": "default"});
    json!({
        "func": "KubeOps", "funcVersion": "v0.0.0", "name": phase,
        "args": {"operation": "delete", "objectReference": nobody},
    })
}

/// A Blueprint whose second phase fails, and one whose second phase does not.
async fn define(world: &World) {
    for (name, second) in [("works", create("two")), ("fails", fail("two"))] {
        let action = json!({"phases": [create("one"), second], "deferPhase": create("last")});
        let blueprint = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": name},
            "actions": {"backup": action},
        });
        world.plane.apply(&format!("{BLUEPRINTS}/{name}"), &blueprint).await;
    }
}

async fn run(world: &World, name: &str, fails: bool) {
    let blueprint = if fails { "fails" } else { "works" };
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": name},
        "spec": {"actions": [{"name": "backup", "blueprint": blueprint, "options": {"set": name}}]},
    });
    world.plane.apply(&format!("{ACTION_SETS}/{name}"), &set).await;
}

/// How many ConfigMaps each phase of an ActionSet has made.
async fn made(world: &World, name: &str) -> [usize; 3] {
    let list = world.plane.get(MAPS).await;
    let maps = list["items"].as_array().cloned().unwrap_or_default();
    PHASES.map(|phase| {
        let is_it = |map: &&Value| {
            let labels = &map["metadata"]["labels"];
            labels["set"] == name && labels["phase"] == phase
        };
        maps.iter().filter(is_it).count()
    })
}

/// Nothing waits for what has ended.
fn has_finalizers(set: &Value) -> bool {
    set["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

#[test]
fn phases_run_once_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let world = World::with_actions(0).await;
        define(&world).await;
        for write in 1..=WRITES {
            for fails in [false, true] {
                world.weather.kill_soon(write, write % 2 == 0);
                let name = format!("s-{write}-{fails}");
                run(&world, &name, fails).await;
                settle(&world).await;
                let set = world.plane.get(&format!("{ACTION_SETS}/{name}")).await;
                let (state, expected) = if fails { ("failed", [1, 0, 1]) } else { ("complete", [1, 1, 1]) };
                assert_eq!(set["status"]["state"], state, "{name}: {set}");
                assert_eq!(made(&world, &name).await, expected, "{name}: {set}");
                assert_eq!(set["status"]["actions"][0]["deferPhase"]["state"], "complete", "{name}: {set}");
                assert!(!has_finalizers(&set), "{name}: {set}");
            }
        }
        // What has ended stays so.
        world.weather.kill_now();
        settle(&world).await;
        for write in 1..=WRITES {
            assert_eq!(made(&world, &format!("s-{write}-false")).await, [1, 1, 1]);
        }
        world.end().await;
    });
}

/// An operation takes the result of its ActionSet, whichever of the writes of both is the last one of a process.
#[test]
fn operation_ends_like_its_action_set_whenever_controllers_are_killed() {
    let action_set_of = |request: &RunFunctionRequest| {
        let input = request.input.as_ref().unwrap().json().unwrap();
        let action =
            json!({"name": "backup", "blueprint": input["blueprint"], "options": {"set": input["name"]}});
        let action_set = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet",
            "metadata": {"generateName": "s-", "namespace": "default"}, "spec": {"actions": [action]},
        });
        json!({"desired": {"resources": {"it": {"resource": action_set}}}})
    };
    in_virtual_time(async {
        let function = saying(operations::FUNCTION, action_set_of);
        let world = World::with_actions_of_operations(0, vec![function]).await;
        define(&world).await;
        // Those of the operation come before and after those of its ActionSet.
        for write in 1..=WRITES + 4 {
            for fails in [false, true] {
                world.weather.kill_soon(write, write % 2 == 0);
                let name = format!("o-{write}-{fails}");
                let blueprint = if fails { "fails" } else { "works" };
                let spec = operations::spec(&json!({"name": name, "blueprint": blueprint}));
                operations::apply(&world, "operations", "Operation", &name, &spec).await;
                settle(&world).await;
                let operation = world.plane.get(&format!("{OPS}/operations/{name}")).await;
                let (ended, expected) = if fails {
                    ("False/ActionSetFailed", [1, 0, 1])
                } else {
                    ("True/PipelineSuccess", [1, 1, 1])
                };
                assert_eq!(condition(&operation, "Succeeded").as_deref(), Some(ended), "{name}: {operation}");
                assert_eq!(made(&world, &name).await, expected, "{name}: {operation}");
                assert_eq!(operation["status"].get("failures"), None, "{name}: {operation}");
                let applied = operation["status"]["appliedResourceRefs"].as_array().unwrap();
                assert_eq!(applied.len(), 1, "{name}: {operation}");
            }
        }
        world.end().await;
    });
}

/// A process can end after an operation has recorded an ActionSet and before it has applied it. If the next attempt does not want it any
/// more, there is nothing to wait for; if it was applied, the operation takes its result.
#[test]
fn action_set_that_only_the_interrupted_attempt_wants_is_waited_for_if_it_was_applied() {
    let calls = Mutex::new(BTreeSet::new());
    let once = move |request: &RunFunctionRequest| {
        let name = request.input.as_ref().unwrap().json().unwrap()["name"].as_str().unwrap().to_owned();
        if !calls.lock().unwrap().insert(name.clone()) {
            return json!({});
        }
        let action = json!({"name": "backup", "blueprint": "works", "options": {"set": name}});
        let action_set = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet",
            "metadata": {"generateName": "s-", "namespace": "default"}, "spec": {"actions": [action]},
        });
        json!({"desired": {"resources": {"it": {"resource": action_set}}}})
    };
    in_virtual_time(async {
        let world = World::with_actions_of_operations(0, vec![saying(operations::FUNCTION, once)]).await;
        define(&world).await;
        let mut outcomes = BTreeSet::new();
        for write in 1..=WRITES {
            for is_carried_out in [false, true] {
                world.weather.kill_soon(write, is_carried_out);
                let name = format!("o-{write}-{is_carried_out}");
                let spec = operations::spec(&json!({"name": name}));
                operations::apply(&world, "operations", "Operation", &name, &spec).await;
                settle(&world).await;
                let operation = world.plane.get(&format!("{OPS}/operations/{name}")).await;
                let ended = condition(&operation, "Succeeded");
                assert_eq!(ended.as_deref(), Some("True/PipelineSuccess"), "{name}: {operation}");
                let made = made(&world, &name).await;
                let listed = operation["status"]["appliedResourceRefs"].as_array().map_or(0, Vec::len);
                assert!(
                    matches!((made, listed), ([0, 0, 0], 0) | ([1, 1, 1], 1)),
                    "{name}: {made:?} {operation}"
                );
                outcomes.insert(listed);
            }
        }
        assert_eq!(outcomes, BTreeSet::from([0, 1]));
        world.end().await;
    });
}

#[test]
fn action_sets_end_after_bad_weather_and_do_nothing_twice() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let world = World::with_actions(seed).await;
            define(&world).await;
            world.weather.set_stormy(true);
            for number in 0..SETS {
                run(&world, &format!("s-{number}"), number % 4 == 3).await;
                tokio::time::sleep(Duration::from_secs(20)).await;
                if number % 3 == 2 {
                    world.weather.kill_now();
                }
            }
            world.weather.set_stormy(false);
            settle(&world).await;
            for number in 0..SETS {
                let name = format!("s-{number}");
                let set = world.plane.get(&format!("{ACTION_SETS}/{name}")).await;
                check(&set, made(&world, &name).await, number % 4 == 3, seed);
            }
            world.end().await;
        });
    }
}

/// In bad weather an ActionSet may fail for other reasons than its phases, but never without saying so.
#[track_caller]
fn check(set: &Value, made: [usize; 3], fails: bool, seed: u64) {
    let status = &set["status"];
    match status["state"].as_str() {
        Some("complete") => assert!(!fails && made == [1, 1, 1], "seed {seed}: {made:?} {set}"),
        Some("failed") => {
            let message = status["error"]["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty(), "seed {seed}: {set}");
            assert!(made.iter().all(|count| *count <= 1), "seed {seed}: {made:?} {set}");
            assert_eq!(made[1].min(usize::from(fails)), 0, "seed {seed}: {made:?} {set}");
            let succeeded = condition(set, "Succeeded").unwrap_or_default();
            assert!(succeeded.starts_with("False/"), "seed {seed}: {set}");
            let action = &status["actions"][0];
            // What has begun is always ended.
            let has_begun = action["phases"][0]["state"].as_str().is_some_and(|state| state != "pending");
            let last = action["deferPhase"]["state"].as_str().unwrap_or_default();
            let has_ended = ["complete", "failed"].contains(&last);
            assert_eq!(has_ended, has_begun, "seed {seed}: {set}");
            assert!(last != "complete" || made[2] == 1, "seed {seed}: {made:?} {set}");
        }
        _ => panic!("seed {seed}: it never ends: {set}"),
    }
    assert!(!has_finalizers(set), "seed {seed}: {set}");
}
