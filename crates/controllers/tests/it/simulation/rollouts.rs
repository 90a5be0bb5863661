//! New revisions of a function are rolled out in bad weather, and whenever controllers are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::FakeRegistry;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::world::World;
use crate::function_rollout::{answer, fatal, function_rollout, runner};
use crate::packages::package_yaml;

const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/sites";
const SITES_COUNT: usize = 4;
/// As many writes as a rollout takes at most.
const WRITES: u64 = 24;
const SEEDS: u64 = 4;

fn image(number: u64) -> String {
    format!("registry.example.org/acme/function-own:v1.0.{number}")
}

/// A registry with so many versions of a function. Every third one works, every third fails, and every third drops a resource.
/// Returns their numbers by their digests, too.
fn registry(versions: u64) -> (FakeRegistry, BTreeMap<String, u64>) {
    let registry = FakeRegistry::default();
    let push = |number: u64| {
        let package = package_yaml("Function", &json!({}), &[]);
        (registry.push(&image(number), &format!("# {number}\n{package}")), number)
    };
    let digests = (0..versions).map(push).collect();
    (registry, digests)
}

fn is_good(number: u64) -> bool {
    number.is_multiple_of(3)
}

/// What a version does wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Fatal,
    Drops,
    Renames,
    Hangs,
    Slow,
    NeverReady,
    Restless,
    Requires,
    ChangesImmutable,
    /// It works for two composite resources, and no longer.
    FailsLater,
}

const FAULTS: [Fault; 10] = [
    Fault::Fatal,
    Fault::Drops,
    Fault::Renames,
    Fault::Hangs,
    Fault::Slow,
    Fault::NeverReady,
    Fault::Restless,
    Fault::Requires,
    Fault::ChangesImmutable,
    Fault::FailsLater,
];

/// What composes the resources `a` and `b`, of which the latter cannot be changed.
fn fixed(color: &str, value: &str) -> Value {
    let mut answer = answer(color, &["a", "b"]);
    answer["desired"]["resources"]["b"]["resource"] =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"value": value}});
    answer
}

/// A function that does something wrong, or nothing.
fn faulty(fault: Option<Fault>, color: &str) -> Arc<Runner> {
    let (color, calls) = (color.to_owned(), Arc::new(Mutex::new((0, BTreeSet::new()))));
    let call = move |request| {
        let (color, calls) = (color.clone(), calls.clone());
        async move {
            let took = if matches!(fault, Some(Fault::Slow)) { 3000 } else { 20 };
            tokio::time::sleep(Duration::from_millis(took)).await;
            let request = to_json(&request).unwrap();
            let name =
                request["observed"]["composite"]["resource"]["metadata"]["name"].as_str().unwrap().to_owned();
            let (count, is_known) = {
                let mut calls = calls.lock().unwrap();
                calls.0 += 1;
                let is_known = calls.1.contains(&name) || calls.1.len() < 2;
                if is_known {
                    calls.1.insert(name);
                }
                (calls.0, is_known)
            };
            let mut answer = fixed(&color, "first");
            match fault {
                None | Some(Fault::Slow) => {}
                Some(Fault::Fatal) => answer = fatal(),
                Some(Fault::Drops) => {
                    drop(answer["desired"]["resources"].as_object_mut().unwrap().remove("b"));
                }
                Some(Fault::Renames) => {
                    let resources = answer["desired"]["resources"].as_object_mut().unwrap();
                    let b = resources.remove("b").unwrap();
                    resources.insert("c".to_owned(), b);
                }
                Some(Fault::Hangs) => std::future::pending().await,
                Some(Fault::NeverReady) => {
                    answer["desired"]["resources"]["a"]["ready"] = json!("READY_FALSE");
                }
                Some(Fault::Restless) => {
                    answer["desired"]["resources"]["a"]["resource"]["data"]["call"] =
                        json!(count.to_string());
                }
                Some(Fault::Requires) => {
                    answer = fatal();
                    let nothing =
                        json!({"apiVersion": "nothing.example.org/v1", "kind": "Nothing", "matchName": "x"});
                    answer["requirements"] = json!({"resources": {"nothing": nothing}});
                }
                Some(Fault::ChangesImmutable) => answer = fixed(&color, "second"),
                Some(Fault::FailsLater) => {
                    if !is_known {
                        answer = fatal();
                    }
                }
            }
            Ok(from_json(&answer).unwrap())
        }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

/// Serve every revision that is wanted, by the version of its image.
async fn serve(functions: Arc<PackagedFunctions>, digests: BTreeMap<String, u64>) {
    let work = |number: u64| {
        let color = number.to_string();
        runner(move |_| match number % 3 {
            0 => answer(&color, &["a", "b"]),
            1 => fatal(),
            _ => answer(&color, &["a"]),
        })
    };
    serve_by(functions, digests, work).await;
}

/// The same, with what a version does.
async fn serve_by(
    functions: Arc<PackagedFunctions>,
    digests: BTreeMap<String, u64>,
    work: impl Fn(u64) -> Arc<Runner>,
) {
    let mut wanted = functions.wanted();
    let mut served = BTreeSet::new();
    loop {
        let images = wanted.borrow_and_update().clone();
        for (revision, image) in images {
            let digest = image.image.image.rsplit('@').next().unwrap_or_default();
            let number = digests[digest];
            if served.insert(revision.clone()) {
                functions.set(&revision, Some(PackagedFunction::Serving(work(number))));
            }
        }
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

async fn install(world: &World, number: u64) {
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
        "spec": {"package": image(number), "revisionHistoryLimit": 4, "activeRevisionLimit": 2},
    });
    world.plane.apply(FUNCTION, &function).await;
}

async fn set_up(world: &World) {
    set_up_with(world, &json!({"minReadySeconds": 2})).await;
}

async fn set_up_with(world: &World, rollout: &Value) {
    world.plane.define_sites().await;
    install(world, 0).await;
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [{"step": "own", "functionRef": {"name": "own"}}],
        },
    });
    world.plane.apply(COMPOSITION, &composition).await;
    for number in 0..SITES_COUNT {
        world.plane.create_site(&format!("site-{number}"), "any").await;
    }
    calm_down(world).await.unwrap();
    world.plane.apply(ROLLOUT, &function_rollout("own", rollout)).await;
    calm_down(world).await.unwrap();
}

/// The identities of everything that sites compose.
async fn composed(world: &World) -> Vec<String> {
    let list = world.plane.get("/api/v1/configmaps?labelSelector=crossplane.io/composite").await;
    let mut composed: Vec<_> =
        list["items"].as_array().into_iter().flatten().map(|it| it["metadata"]["uid"].to_string()).collect();
    composed.sort_unstable();
    composed
}

/// The rollout has ended as it should, all sites are of this version, and all of it stays so.
async fn settle(world: &World, state: &str, color: u64) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    let rollout = world.plane.get(ROLLOUT).await;
    if rollout["status"]["state"] != state {
        wrongs.push(format!("the rollout is not {state}: {rollout:#}"));
    }
    for number in 0..SITES_COUNT {
        let site = world.plane.get(&format!("{SITES}/site-{number}")).await;
        if !is_ready(&site) || site["status"]["color"] != json!(color.to_string()) {
            wrongs.push(format!("site-{number} is not ready with version {color}: {site:#}"));
        }
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

#[test]
fn rollouts_end_as_they_should_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let (registry, digests) = registry(3 * WRITES + 3);
        let supervisor = tokio::spawn(serve(registry.run_functions(), digests));
        let world = World::with_registry(0, &registry).await;
        set_up(&world).await;
        let before = composed(&world).await;
        let mut color = 0;
        for write in 1..=WRITES {
            for number in 3 * write - 2..=3 * write {
                world.weather.kill_soon(write, write % 2 == 0);
                install(&world, number).await;
                let state = if is_good(number) { "Promoted" } else { "RolledBack" };
                color = if is_good(number) { number } else { color };
                let wrongs = settle(&world, state, color).await;
                assert_eq!(wrongs, Vec::<String>::new(), "version {number}, killed at write {write}");
            }
        }
        assert_eq!(composed(&world).await, before, "nothing was deleted");
        world.end().await;
        supervisor.abort();
    });
}

#[test]
fn rollouts_end_as_they_should_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let (registry, digests) = registry(4);
            let supervisor = tokio::spawn(serve(registry.run_functions(), digests));
            let world = World::with_registry(seed, &registry).await;
            set_up(&world).await;
            let before = composed(&world).await;
            world.weather.set_stormy(true);
            for number in [1, 2, 3] {
                install(&world, number).await;
                tokio::time::sleep(Duration::from_secs(40)).await;
            }
            world.weather.set_stormy(false);
            let rollout = world.plane.get(ROLLOUT).await;
            calm_down(&world).await.unwrap();
            // What fails in bad weather may be held against a good revision: then all are of the old one.
            let after = world.plane.get(ROLLOUT).await;
            let is_promoted = after["status"]["state"] == "Promoted";
            let (state, color) = if is_promoted { ("Promoted", 3) } else { ("RolledBack", 0) };
            let wrongs = settle(&world, state, color).await;
            assert_eq!(wrongs, Vec::<String>::new(), "seed {seed}: {rollout:#}");
            assert_eq!(composed(&world).await, before, "seed {seed}: nothing was deleted");
            world.end().await;
            supervisor.abort();
        });
    }
}

/// Each fault, with the controllers killed at a write, or in bad weather at first.
#[test]
fn every_fault_of_a_revision_is_rolled_back_and_deletes_nothing() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let (registry, digests) = registry(1 + FAULTS.len() as u64);
            let work = |number: u64| {
                let fault = number.checked_sub(1).map(|index| FAULTS[usize::try_from(index).unwrap()]);
                faulty(fault, &number.to_string())
            };
            let supervisor = tokio::spawn(serve_by(registry.run_functions(), digests, work));
            let world = World::with_registry(seed, &registry).await;
            let rollout = json!({
                "minReadySeconds": 2, "progressDeadlineSeconds": 60, "gates": {"minCalls": 2},
                "refuse": ["Deleted", "Renamed", "NotDeterministic"],
            });
            set_up_with(&world, &rollout).await;
            let before = composed(&world).await;
            for (number, fault) in (1..).zip(FAULTS) {
                if seed > 0 {
                    world.weather.kill_soon(3 * seed + number, number % 2 == 0);
                }
                install(&world, number).await;
                let wrongs = settle(&world, "RolledBack", 0).await;
                assert_eq!(wrongs, Vec::<String>::new(), "{fault:?}, seed {seed}");
                assert_eq!(composed(&world).await, before, "{fault:?}, seed {seed}: nothing was deleted");
                let status = world.plane.get(ROLLOUT).await["status"].clone();
                let record = &status["history"][0];
                let latest = status["rejected"].as_str().unwrap_or_default();
                assert_eq!(record["revision"], latest, "{fault:?}, seed {seed}: {status:#}");
            }
            world.end().await;
            supervisor.abort();
        });
    }
}
