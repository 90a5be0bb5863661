//! New revisions of a function are rolled out in bad weather, and whenever controllers are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_runner::{AsyncFunction, CallError, Runner};
use ferroplane_testkit::plane::FakeRegistry;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::checker::{calm_down, stay_still};
use super::world::World;
use super::{in_virtual_time, seeds_or};
use crate::function_rollout::{
    answer, fatal, fixed, function_rollout, renamed, requiring, runner, slow_runner,
};
use crate::packages::package_yaml;

const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/sites";
const SITES_COUNT: usize = 4;
/// As many writes as a rollout takes at most.
const WRITES: u64 = 24;
/// The seeds that are always tried.
const SEEDS: Range<u64> = 0..4;

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

/// One of the writes of a rollout, by a number from 1 on.
fn write_of(number: u64) -> u64 {
    (number - 1) % WRITES + 1
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
    /// It answers 100 MB, which no client accepts.
    Huge,
    /// It answers as much as a client accepts.
    Large,
    /// It takes more and more memory, until it is killed.
    Killed,
}

const FAULTS: [Fault; 13] = [
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
    Fault::Huge,
    Fault::Large,
    Fault::Killed,
];

/// How many calls a process answers before it is killed for its memory.
const CALLS_OF_A_LIFE: u32 = 3;
/// How many seconds a rollout is watched.
const WATCHED: u32 = 120;
/// How many seconds may pass between a rollback and the moment when nobody is harmed any more.
const LATEST: u32 = 5;
/// For how many seconds functions are watched that start again, or do not.
const RESTARTED: u32 = 300;
/// How many sites are created while a revision is rolled out.
const LATE_COUNT: usize = 10;

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
                Some(Fault::Renames) => answer = renamed(answer),
                Some(Fault::Hangs) => std::future::pending().await,
                Some(Fault::NeverReady) => {
                    answer["desired"]["resources"]["a"]["ready"] = json!("READY_FALSE");
                }
                Some(Fault::Restless) => {
                    answer["desired"]["resources"]["a"]["resource"]["data"]["call"] =
                        json!(count.to_string());
                }
                Some(Fault::Requires) => answer = requiring(),
                Some(Fault::ChangesImmutable) => answer = fixed(&color, "second"),
                Some(Fault::Huge) => {
                    return Err(CallError::ResponseTooLarge { target: "own".to_owned(), limit: 16 << 20 });
                }
                Some(Fault::Large) => {
                    answer["desired"]["resources"]["a"]["resource"]["data"]["long"] =
                        json!("x".repeat(4 << 20));
                }
                Some(Fault::Killed) => {
                    if count > CALLS_OF_A_LIFE {
                        let (target, reason) = ("own".to_owned(), "it was killed".to_owned());
                        return Err(CallError::Lost { target, reason });
                    }
                }
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

/// Sites that the first version has composed, a rollout, and what runs further versions.
struct Scene {
    world: World,
    supervisor: JoinHandle<()>,
    /// The identities of everything that sites compose at first.
    before: Vec<String>,
}

impl Scene {
    async fn begin(
        seed: u64,
        registry: &FakeRegistry,
        serving: impl Future<Output = ()> + Send + 'static,
        rollout: &Value,
    ) -> Self {
        let supervisor = tokio::spawn(serving);
        let world = World::with_registry(seed, registry).await;
        set_up(&world, rollout).await;
        let before = composed(&world).await;
        Self { world, supervisor, before }
    }

    /// The rollout ends so, all sites are of this version, and nothing was deleted.
    async fn settle(&self, state: &str, color: u64, case: &str) {
        let wrongs = settle(&self.world, state, color).await;
        assert_eq!(wrongs, Vec::<String>::new(), "{case}");
        assert_eq!(composed(&self.world).await, self.before, "{case}: something was deleted");
    }

    async fn end(self) {
        self.world.end().await;
        self.supervisor.abort();
    }
}

/// A policy by which a wave is observed for a short time.
fn short() -> Value {
    json!({"minReadySeconds": 2})
}

async fn set_up(world: &World, rollout: &Value) {
    world.plane.define_sites().await;
    install(world, 0).await;
    compose(world, &["own"]).await;
    for number in 0..SITES_COUNT {
        world.plane.create_site(&format!("site-{number}"), "any").await;
    }
    calm_down(world).await.unwrap();
    world.plane.apply(ROLLOUT, &function_rollout("own", rollout)).await;
    calm_down(world).await.unwrap();
}

/// Sites become what these steps say, each of which calls the function.
async fn compose(world: &World, steps: &[&str]) {
    let steps: Vec<_> =
        steps.iter().map(|step| json!({"step": step, "functionRef": {"name": "own"}})).collect();
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": steps,
        },
    });
    world.plane.apply(COMPOSITION, &composition).await;
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

/// Wait until the status of the rollout is so.
async fn until(world: &World, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..3600 {
        let status = world.plane.get(ROLLOUT).await["status"].clone();
        if is_so(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("the rollout never came so far: {:#}", world.plane.get(ROLLOUT).await);
}

/// Send all back from a revision.
async fn undo(world: &World, revision: &Value) {
    let undo = json!({"metadata": {"annotations": {"rollout.ferroplane.io/undo": revision}}});
    world.plane.merge(ROLLOUT, &undo).await;
}

/// How many sites are harmed at the same time at most, and for how many seconds some are that the rollout has sent back.
async fn harm(world: &World) -> (usize, u32) {
    let (mut most, mut late) = (0, 0);
    for _ in 0..WATCHED {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sites = world.plane.get(SITES).await;
        let harmed = sites["items"].as_array().unwrap().iter().filter(|site| !is_ready(site)).count();
        let rollout = world.plane.get(ROLLOUT).await;
        let is_back = rollout["status"]["state"].as_str().is_some_and(|state| state.starts_with("Roll"));
        most = most.max(harmed);
        late += u32::from(is_back && harmed > 0);
    }
    (most, late)
}

#[test]
fn rollouts_end_as_they_should_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let (registry, digests) = registry(3 * WRITES + 3);
        let scene = Scene::begin(0, &registry, serve(registry.run_functions(), digests), &short()).await;
        let mut color = 0;
        for write in 1..=WRITES {
            for number in 3 * write - 2..=3 * write {
                scene.world.weather.kill_soon(write, write % 2 == 0);
                install(&scene.world, number).await;
                let state = if is_good(number) { "Promoted" } else { "RolledBack" };
                color = if is_good(number) { number } else { color };
                scene.settle(state, color, &format!("version {number}, killed at write {write}")).await;
            }
        }
        scene.end().await;
    });
}

#[test]
fn rollouts_end_as_they_should_after_bad_weather() {
    for seed in seeds_or(SEEDS) {
        in_virtual_time(async {
            let (registry, digests) = registry(4);
            let serving = serve(registry.run_functions(), digests);
            let scene = Scene::begin(seed, &registry, serving, &short()).await;
            let world = &scene.world;
            world.weather.set_stormy(true);
            for number in [1, 2, 3] {
                install(world, number).await;
                tokio::time::sleep(Duration::from_secs(40)).await;
            }
            world.weather.set_stormy(false);
            let rollout = world.plane.get(ROLLOUT).await;
            calm_down(world).await.unwrap();
            // What fails in bad weather may be held against a good revision: then all are of the old one.
            let after = world.plane.get(ROLLOUT).await;
            let is_promoted = after["status"]["state"] == "Promoted";
            let (state, color) = if is_promoted { ("Promoted", 3) } else { ("RolledBack", 0) };
            scene.settle(state, color, &format!("seed {seed}: {rollout:#}")).await;
            scene.end().await;
        });
    }
}

/// Who takes a while to start again is waited for, in which nothing is deleted. Who never does is rolled back, and not before it had time.
#[test]
fn functions_that_die_with_the_plane_are_given_time_to_start_again() {
    // After how many seconds the old and the new revision start again, and what comes of it.
    let cases = [
        (Some(0), Some(40), "Promoted", 1),
        (Some(40), Some(0), "Promoted", 1),
        (Some(20), Some(20), "Promoted", 1),
        (None, Some(0), "Promoted", 1),
        (Some(0), None, "RolledBack", 0),
        (None, None, "RolledBack", 0),
    ];
    for (seed, (old, new, state, color)) in (0..).zip(cases) {
        in_virtual_time(async {
            let (registry, digests) = registry(2);
            let functions = registry.run_functions();
            let work = |number: u64| {
                let color = number.to_string();
                runner(move |_| answer(&color, if number == 1 { &["a", "b", "c"] } else { &["a", "b"] }))
            };
            let serving = serve_by(functions.clone(), digests, work);
            let scene = Scene::begin(seed, &registry, serving, &json!({"minReadySeconds": 60})).await;
            let world = &scene.world;
            install(world, 1).await;
            let status = until(world, |status| status["composites"]["ready"] == 1).await;
            let before = composed(world).await;
            let starts = [(0, &status["stable"], old), (1, &status["candidate"], new)]
                .map(|(number, revision, after)| (number, revision.as_str().unwrap().to_owned(), after));
            // They end with the controllers, which must not see it before they end.
            world.weather.is_down.store(true, Ordering::Relaxed);
            for (_, revision, _) in &starts {
                functions.set(revision, Some(PackagedFunction::Starting));
            }
            world.weather.kill_now();
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.weather.is_down.store(false, Ordering::Relaxed);
            for second in 0..RESTARTED {
                for (number, revision, _) in starts.iter().filter(|(.., after)| *after == Some(second)) {
                    functions.set(revision, Some(PackagedFunction::Serving(work(*number))));
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                if state == "Promoted" || second < 60 {
                    let status = world.plane.get(ROLLOUT).await["status"].clone();
                    let is_going_on = status["candidate"].is_string() || status["state"] == "Promoted";
                    assert!(is_going_on, "seed {seed}, after {second} s: {status:#}");
                    let now = composed(world).await;
                    assert!(before.iter().all(|uid| now.contains(uid)), "seed {seed}: something was deleted");
                }
            }
            if old.is_none() && new.is_none() {
                functions.set(&starts[0].1, Some(PackagedFunction::Serving(work(0))));
            }
            let wrongs = settle(world, state, color).await;
            assert_eq!(wrongs, Vec::<String>::new(), "seed {seed}");
            scene.end().await;
        });
    }
}

/// The controllers are killed when the rollout is in each of its states.
#[test]
fn rollouts_go_on_in_whichever_state_controllers_are_killed() {
    let states = ["Idle", "Previewing", "Paused", "Progressing", "RollingBack", "RolledBack", "Promoted"];
    for (seed, state) in (0..).zip(states) {
        in_virtual_time(async {
            let (registry, digests) = registry(2);
            // Calls that take a while, so that no state is over before it is seen.
            let work = |number: u64| faulty(Some(Fault::Slow), &number.to_string());
            let rollout = json!({
                "minReadySeconds": 5, "preview": state == "Previewing", "paused": state == "Paused",
            });
            let serving = serve_by(registry.run_functions(), digests, work);
            let scene = Scene::begin(seed, &registry, serving, &rollout).await;
            let world = &scene.world;
            if state != "Idle" {
                install(world, 1).await;
            }
            let goes_back = state.starts_with("Roll");
            if goes_back {
                let seen = until(world, |status| status["composites"]["ready"] == 2).await;
                undo(world, &seen["candidate"]).await;
            }
            until(world, |status| status["state"] == state).await;
            world.weather.kill_now();
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
            if state == "Idle" {
                install(world, 1).await;
            }
            let (ending, color) = if goes_back { ("RolledBack", 0) } else { ("Promoted", 1) };
            scene.settle(ending, color, &format!("killed when it was {state}")).await;
            scene.end().await;
        });
    }
}

/// The registry does not have the images any more, and controllers are killed besides. What was fetched is there.
#[test]
fn registry_that_loses_images_stops_neither_a_rollout_nor_its_way_back() {
    for seed in seeds_or(SEEDS) {
        in_virtual_time(async {
            let (registry, digests) = registry(4);
            let serving = serve(registry.run_functions(), digests);
            let scene = Scene::begin(seed, &registry, serving, &short()).await;
            let world = &scene.world;
            install(world, 3).await;
            let status = until(world, |status| status["composites"]["ready"] == 1).await;
            registry.set_down(Some("manifest unknown"));
            if seed > 0 {
                world.weather.kill_soon(write_of(seed), seed % 2 == 0);
            }
            until(world, |status| status["state"] == "Promoted").await;
            undo(world, &status["candidate"]).await;
            until(world, |status| status["state"] == "RolledBack").await;
            registry.set_down(None);
            scene.settle("RolledBack", 0, &format!("seed {seed}")).await;
            scene.end().await;
        });
    }
}

/// Each fault, with the controllers killed at a write, or in bad weather at first.
#[test]
fn every_fault_of_a_revision_is_rolled_back_and_deletes_nothing() {
    for seed in seeds_or(SEEDS) {
        in_virtual_time(async {
            let (registry, digests) = registry(1 + FAULTS.len() as u64);
            let work = |number: u64| {
                let fault = number.checked_sub(1).map(|index| FAULTS[usize::try_from(index).unwrap()]);
                faulty(fault, &number.to_string())
            };
            let rollout = json!({
                "minReadySeconds": 2, "progressDeadlineSeconds": 60, "gates": {"minCalls": 2},
                "refuse": ["Deleted", "Renamed", "NotDeterministic", "Larger"],
            });
            let serving = serve_by(registry.run_functions(), digests, work);
            let scene = Scene::begin(seed, &registry, serving, &rollout).await;
            let world = &scene.world;
            for (number, fault) in (1..).zip(FAULTS) {
                if seed > 0 {
                    world.weather.kill_soon(write_of(3 * seed + number), number % 2 == 0);
                }
                install(world, number).await;
                let (most, late) = harm(world).await;
                assert!(most <= 1, "{fault:?}, seed {seed}: {most} were harmed");
                // Controllers that are killed take a while to come back.
                assert!(
                    seed > 0 || late <= LATEST,
                    "{fault:?}: some were harmed {late} s after the rollback"
                );
                scene.settle("RolledBack", 0, &format!("{fault:?}, seed {seed}")).await;
                let status = world.plane.get(ROLLOUT).await["status"].clone();
                let record = &status["history"][0];
                let latest = status["rejected"].as_str().unwrap_or_default();
                assert_eq!(record["revision"], latest, "{fault:?}, seed {seed}: {status:#}");
            }
            scene.end().await;
        });
    }
}

/// No call takes too long, and all calls of a reconcile together do.
#[test]
fn preview_of_a_revision_that_takes_too_long_harms_nobody() {
    in_virtual_time(async {
        let (registry, digests) = registry(2);
        let work = |number: u64| {
            let took = if number == 1 { Duration::from_secs(45) } else { Duration::ZERO };
            slow_runner(took, answer(&number.to_string(), &["a", "b"]))
        };
        let serving = serve_by(registry.run_functions(), digests, work);
        let rollout = json!({"minReadySeconds": 2, "preview": true});
        let scene = Scene::begin(0, &registry, serving, &rollout).await;
        let world = &scene.world;
        compose(world, &["one", "two", "three"]).await;
        calm_down(world).await.unwrap();
        install(world, 1).await;
        for _ in 0..4 {
            let (most, _) = harm(world).await;
            assert_eq!(most, 0, "{:#}", world.plane.get(ROLLOUT).await);
        }
        let status = world.plane.get(ROLLOUT).await["status"].clone();
        assert!(status["message"].as_str().unwrap().contains("did not answer within"), "{status:#}");
        scene.settle("RolledBack", 0, "it takes too long").await;
        scene.end().await;
    });
}

/// The process of a revision ends before the new one reaches anybody, and is there again after five minutes. Nobody asks the old one
/// meanwhile what it would do.
#[test]
fn process_of_either_revision_may_end_during_a_rollout() {
    // Which one ends, whether the new one drops a resource, and what comes of it.
    let cases = [(0, false, "Promoted", 1), (0, true, "RolledBack", 0), (1, false, "RolledBack", 0)];
    for (seed, (ends, drops, state, color)) in (0..).zip(cases) {
        in_virtual_time(async {
            let (registry, digests) = registry(2);
            let functions = registry.run_functions();
            let work = move |number: u64| {
                let color = number.to_string();
                let drops = drops && number == 1;
                runner(move |_| answer(&color, if drops { &["a"] } else { &["a", "b"] }))
            };
            let serving = serve_by(functions.clone(), digests, work);
            let rollout = json!({"minReadySeconds": 2, "paused": true});
            let scene = Scene::begin(seed, &registry, serving, &rollout).await;
            let world = &scene.world;
            install(world, 1).await;
            let status = until(world, |status| status["state"] == "Paused").await;
            let ended = status[if ends == 0 { "stable" } else { "candidate" }].as_str().unwrap();
            functions.set(ended, Some(PackagedFunction::Down("it ended".to_owned())));
            tokio::time::sleep(Duration::from_secs(10)).await;
            world.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
            tokio::time::sleep(Duration::from_mins(5)).await;
            assert_eq!(composed(world).await, scene.before, "seed {seed}: something was deleted");
            functions.set(ended, Some(PackagedFunction::Serving(work(ends))));
            scene.settle(state, color, &format!("seed {seed}")).await;
            scene.end().await;
        });
    }
}

/// Sites are created, and clocks jump, while revisions are rolled out of which the last one works.
#[test]
fn sites_that_are_created_and_clocks_that_jump_do_not_mislead_rollouts() {
    for (seed, jump) in (0..).zip([0, -300, 3600]) {
        in_virtual_time(async {
            let (registry, digests) = registry(4);
            let serving = serve(registry.run_functions(), digests);
            let scene = Scene::begin(seed, &registry, serving, &short()).await;
            let world = &scene.world;
            for number in 1..=3 {
                install(world, number).await;
                for late in 0..LATE_COUNT {
                    world.plane.create_site(&format!("late-{number}-{late}"), "any").await;
                }
                world.weather.clock.fetch_add(jump, Ordering::Relaxed);
                calm_down(world).await.unwrap();
                let status = world.plane.get(ROLLOUT).await["status"].clone();
                // A clock that jumps ahead may make somebody late who is not ready yet.
                let is_promoted = is_good(number) && (jump <= 0 || status["state"] == "Promoted");
                let (state, color) = if is_promoted { ("Promoted", number) } else { ("RolledBack", 0) };
                let wrongs = settle(world, state, color).await;
                assert_eq!(wrongs, Vec::<String>::new(), "version {number}, clock {jump:+}");
                let sites = world.plane.get(SITES).await;
                for site in sites["items"].as_array().unwrap() {
                    let is_so = is_ready(site) && site["status"]["color"] == color.to_string().as_str();
                    assert!(is_so, "version {number}, clock {jump:+}: {site:#}");
                }
            }
            let after = composed(world).await;
            assert!(
                scene.before.iter().all(|uid| after.contains(uid)),
                "clock {jump:+}: something was deleted"
            );
            scene.end().await;
        });
    }
}
