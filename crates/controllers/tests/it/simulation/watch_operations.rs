//! `WatchOperation`s in bad weather, and whenever controllers are killed: every last state of an object has its operation, and no state
//! has two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ferroplane_testkit::plane::condition;
use serde_json::{Value, json};

use super::chance::Chance;
use super::functions::{Function, saying};
use super::in_virtual_time;
use super::operations::{FUNCTION, MAPS, OPS, apply, map, most_running, settle, spec};
use super::world::World;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const SEEDS: u64 = 9;
/// How many things a user does in bad weather.
const THINGS: u64 = 25;
/// As many writes as a change takes at most, and some more.
const WRITES: u64 = 9;
const WATCHED: &str = "ops.crossplane.io/watched-resource";
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A function that is given what was changed, whatever has become of it meanwhile.
fn watching() -> Function {
    saying(FUNCTION, |request| {
        let given = &request.required_resources[WATCHED].items;
        assert_eq!(given.len(), 1, "a function is given what was changed, even if it is gone");
        json!({})
    })
}

async fn watch(world: &World, policy: &str) {
    let watch = json!({
        "watch": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchLabels": {"watched": "yes"}},
        "concurrencyPolicy": policy, "successfulHistoryLimit": 1000, "failedHistoryLimit": 1000,
        "operationTemplate": {"spec": spec(&json!({}))},
    });
    apply(world, "watchoperations", "WatchOperation", "w", &watch).await;
}

/// Somebody who changes objects, each time to something else.
struct User<'a> {
    world: &'a World,
    chance: Chance,
    count: u64,
}

impl User<'_> {
    async fn change(&mut self, name: &str) {
        self.count += 1;
        let mut map = map(name, &self.count.to_string());
        map["metadata"]["labels"] = json!({"watched": "yes"});
        self.world.plane.apply(&format!("{MAPS}/{name}"), &map).await;
    }

    async fn do_something(&mut self) {
        let name = *self.chance.pick(&NAMES);
        match self.chance.below(10) {
            0..=5 => self.change(name).await,
            6 | 7 => self.world.plane.delete(&format!("{MAPS}/{name}")).await,
            8 => self.world.weather.kill_soon(self.chance.below(WRITES) + 1, self.chance.happens(50)),
            _ => self.world.weather.cut_watches(),
        }
    }
}

/// An operation, by what it notes of the object that it was made for.
#[derive(Debug)]
struct Made {
    sequence: u64,
    version: String,
    /// The object and its state.
    state: String,
}

/// The operations that were made, by the names of objects, oldest first.
async fn made(world: &World) -> BTreeMap<String, Vec<Made>> {
    let list = world.plane.get(&format!("{OPS}/operations")).await;
    let mut made = BTreeMap::<String, Vec<Made>>::new();
    for operation in list["items"].as_array().into_iter().flatten() {
        let annotations = &operation["metadata"]["annotations"];
        let text = |key: &str| annotations[key].as_str().unwrap_or_default().to_owned();
        let note = text("ferroplane.io/watched-state");
        let parts: Vec<_> = note.split('.').collect();
        let [uid, _, state, _, sequence] = parts[..] else { panic!("{operation}") };
        made.entry(text("ops.crossplane.io/watched-resource-name")).or_default().push(Made {
            sequence: sequence.parse().unwrap(),
            version: text("ops.crossplane.io/watched-resource-resourceversion"),
            state: format!("{uid}.{state}"),
        });
    }
    for made in made.values_mut() {
        made.sort_by_key(|it| it.sequence);
    }
    made
}

/// The last state of every object has its operation, and no state has two in a row.
async fn check(world: &World, story: &str) {
    let made = made(world).await;
    let mut seen = BTreeSet::new();
    for name in NAMES {
        let object = world.plane.get(&format!("{MAPS}/{name}")).await;
        let made = made.get(name).map(Vec::as_slice).unwrap_or_default();
        match (object["metadata"]["resourceVersion"].as_str(), made.last()) {
            (Some(version), Some(last)) => assert_eq!(last.version, version, "{story}: {name} {made:#?}"),
            (Some(_), None) => panic!("{story}: {name} has no operation"),
            // One that was gone before anybody saw it has none.
            (None, None) => {}
            (None, Some(last)) => {
                assert_eq!(last.version, "ops.crossplane.io/synthetic-deleted", "{story}: {name} {made:#?}");
            }
        }
        for pair in made.windows(2) {
            assert_ne!(pair[0].state, pair[1].state, "{story}: {name} was handled twice: {made:#?}");
        }
        for it in made {
            assert!(seen.insert(it.sequence), "{story}: two operations have the number {}", it.sequence);
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_done_twice_in_bad_weather() {
    for (seed, policy) in (0..SEEDS).zip(POLICIES.into_iter().cycle()) {
        in_virtual_time(async {
            let world = World::with_operations(seed, vec![watching()]).await;
            let mut user = User { world: &world, chance: Chance::new(seed, 3), count: 0 };
            watch(&world, policy).await;
            world.weather.set_stormy(true);
            for _ in 0..THINGS {
                tokio::time::sleep(user.chance.up_to(Duration::from_secs(20))).await;
                user.do_something().await;
            }
            world.weather.set_stormy(false);
            settle(&world).await;
            let story = format!("seed {seed}, {policy}");
            check(&world, &story).await;
            let watch = world.plane.get(&format!("{OPS}/watchoperations/w")).await;
            assert_eq!(condition(&watch, "Watching").as_deref(), Some("True/WatchActive"), "{story}");
            let running = &watch["status"]["runningOperationRefs"];
            assert!(running.is_null() || *running == json!([]), "{story}: {watch}");
            world.end().await;
        });
    }
}

#[test]
fn policies_of_watches_hold_whatever_becomes_of_requests_and_watches() {
    for (seed, policy) in (0..SEEDS).zip(POLICIES.into_iter().cycle()) {
        in_virtual_time(async {
            // It fails after 0, 1 and 3 seconds, so that its operations last for a while.
            let failing =
                saying(FUNCTION, |_| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]}));
            let world = World::with_operations(seed, vec![failing]).await;
            let mut user = User { world: &world, chance: Chance::new(seed, 4), count: 0 };
            watch(&world, policy).await;
            // Which operations may not run at the same time.
            let group = |operation: &Value| {
                let name = &operation["metadata"]["annotations"]["ops.crossplane.io/watched-resource-name"];
                if policy == "Replace" { name.to_string() } else { String::new() }
            };
            world.weather.set_stormy(true);
            let mut most = 0;
            for _ in 0..THINGS {
                user.do_something().await;
                let seconds = 1 + user.chance.below(5);
                most = most.max(most_running(&world, seconds, group).await);
            }
            world.weather.set_stormy(false);
            // Until a caller that waits for another attempt has made it.
            most = most.max(most_running(&world, 120, group).await);
            for name in NAMES {
                user.change(name).await;
            }
            most = most.max(most_running(&world, 30, group).await);
            let is_as_said = if policy == "Allow" { most > 1 } else { most == 1 };
            assert!(is_as_said, "seed {seed}, {policy}: {most} at the same time");
            world.end().await;
        });
    }
}

#[test]
fn change_has_its_operation_whenever_controllers_are_killed() {
    for policy in POLICIES {
        in_virtual_time(async {
            let world = World::with_operations(0, vec![watching()]).await;
            let mut user = User { world: &world, chance: Chance::new(0, 3), count: 0 };
            watch(&world, policy).await;
            settle(&world).await;
            for write in 1..=WRITES {
                for is_carried_out in [false, true] {
                    let story = format!("{policy}, killed at write {write}, carried out: {is_carried_out}");
                    world.weather.kill_soon(write, is_carried_out);
                    user.change("a").await;
                    user.change("b").await;
                    tokio::time::sleep(Duration::from_millis(1500)).await;
                    user.change("a").await;
                    world.plane.delete(&format!("{MAPS}/b")).await;
                    settle(&world).await;
                    check(&world, &story).await;
                }
            }
            // A restart repeats nothing.
            let before = made(&world).await.values().map(Vec::len).sum::<usize>();
            world.weather.kill_now();
            settle(&world).await;
            assert_eq!(made(&world).await.values().map(Vec::len).sum::<usize>(), before);
            world.end().await;
        });
    }
}

/// A function that panics costs its operation an attempt, and nobody else anything.
#[test]
fn watch_goes_on_although_its_function_panics() {
    in_virtual_time(async {
        let panics = saying(FUNCTION, |request| {
            let object =
                request.required_resources[WATCHED].items[0].resource.as_ref().unwrap().json().unwrap();
            assert!(!object["metadata"].as_object().unwrap().contains_key("deletionTimestamp"), "on purpose");
            json!({})
        });
        let world = World::with_operations(0, vec![panics]).await;
        let mut user = User { world: &world, chance: Chance::new(0, 3), count: 0 };
        watch(&world, "Forbid").await;
        user.change("a").await;
        settle(&world).await;
        world.plane.delete(&format!("{MAPS}/a")).await;
        settle(&world).await;
        user.change("b").await;
        settle(&world).await;
        check(&world, "panicking").await;
        let list = world.plane.get(&format!("{OPS}/operations")).await;
        let items = list["items"].as_array().unwrap().iter();
        let mut endings: Vec<Value> = items.map(|it| condition(it, "Succeeded").into()).collect();
        endings.sort_by_key(ToString::to_string);
        assert_eq!(endings, ["False/PipelineError", "True/PipelineSuccess", "True/PipelineSuccess"]);
        world.end().await;
    });
}
