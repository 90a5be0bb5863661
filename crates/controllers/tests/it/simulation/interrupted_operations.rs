//! Operations with several steps and objects whose controllers are killed at any write. Every run of the pipeline wants another object, so that
//! the second run does not return everything that the first one has applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ferroplane_testkit::plane::condition;
use serde_json::{Value, json};

use super::functions::{Function, saying};
use super::in_virtual_time;
use super::operations::{FUNCTION, MAPS, OPS, apply, map, settle};
use super::world::World;

/// As many writes as such an operation takes, and some more.
const WRITES: u64 = 9;

/// How often the pipeline of each operation has run.
type Runs = Arc<Mutex<BTreeMap<String, u64>>>;

/// A function that returns one object that is new in every run, and one that is always the same. In the second step, it adds a third one.
fn forgetful(runs: &Runs) -> Function {
    let runs = runs.clone();
    saying(FUNCTION, move |request| {
        let input = Value::Object(request.input.as_ref().unwrap().json().unwrap().clone());
        let name = input["name"].as_str().unwrap();
        let is_first = input["step"] == "first";
        let mut runs = runs.lock().unwrap();
        let run = runs.entry(name.to_owned()).or_default();
        *run += u64::from(is_first);
        let names = [format!("{name}-run-{run}"), format!("{name}-same"), format!("{name}-second")];
        let wanted = &names[..if is_first { 2 } else { 3 }];
        let resources = wanted.iter().map(|name| (name.clone(), json!({"resource": map(name, "done")})));
        json!({"desired": {"resources": resources.collect::<serde_json::Map<_, _>>()}})
    })
}

fn spec(name: &str) -> Value {
    let step = |step: &str| json!({"step": step, "functionRef": {"name": FUNCTION}, "input": {"name": name, "step": step}});
    json!({"mode": "Pipeline", "pipeline": [step("first"), step("second")]})
}

/// The names in a list of references or of objects that belong to an operation.
fn names(list: &Value, operation: &str) -> BTreeSet<String> {
    let items = list.as_array().into_iter().flatten();
    let names = items.filter_map(|it| it["name"].as_str().or_else(|| it["metadata"]["name"].as_str()));
    names.filter(|name| name.starts_with(&format!("{operation}-"))).map(str::to_owned).collect()
}

/// How often each object was created, by its path.
fn creations(world: &World) -> BTreeMap<String, usize> {
    let mut creations = BTreeMap::new();
    for line in world.weather.trace() {
        if let Some((_, path)) = line.strip_suffix(" => 201").and_then(|line| line.split_once("PATCH ")) {
            *creations.entry(path.to_owned()).or_default() += 1;
        }
    }
    creations
}

#[test]
fn operation_names_all_that_it_has_applied_and_creates_nothing_twice_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let runs = Runs::default();
        let world = World::with_operations(0, vec![forgetful(&runs)]).await;
        let mut has_forgotten = false;
        for write in 1..=WRITES {
            for is_carried_out in [false, true] {
                world.weather.kill_soon(write, is_carried_out);
                let name = format!("o-{write}-{is_carried_out}");
                apply(&world, "operations", "Operation", &name, &spec(&name)).await;
                settle(&world).await;
                let operation = world.plane.get(&format!("{OPS}/operations/{name}")).await;
                let succeeded = condition(&operation, "Succeeded");
                assert_eq!(succeeded.as_deref(), Some("True/PipelineSuccess"), "{operation}");
                assert!(operation["status"]["failures"].is_null(), "{operation}");
                let run = runs.lock().unwrap()[&name];
                assert!((1..=2).contains(&run), "{name}: {run} runs");
                let applied = names(&world.plane.get(MAPS).await["items"], &name);
                let told = names(&operation["status"]["appliedResourceRefs"], &name);
                assert!(applied.is_subset(&told), "{name}: {applied:?} are applied, {told:?} are named");
                let last = [format!("{name}-run-{run}"), format!("{name}-same"), format!("{name}-second")];
                assert!(applied.is_superset(&last.into()), "{name}: {applied:?}");
                has_forgotten |= applied.len() > 3;
            }
        }
        assert!(has_forgotten, "the second run of an operation returned all that the first one had applied");
        let twice: Vec<_> = creations(&world).into_iter().filter(|(_, count)| *count > 1).collect();
        assert!(twice.is_empty(), "created twice: {twice:?}");
        // What has ended stays so.
        let before = runs.lock().unwrap().clone();
        world.weather.kill_now();
        settle(&world).await;
        assert_eq!(*runs.lock().unwrap(), before);
        world.end().await;
    });
}
