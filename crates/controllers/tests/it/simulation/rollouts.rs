//! New revisions of a function are rolled out in bad weather, and whenever controllers are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_testkit::plane::FakeRegistry;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use serde_json::json;

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

/// Serve every revision that is wanted, by the version of its image.
async fn serve(functions: Arc<PackagedFunctions>, digests: BTreeMap<String, u64>) {
    let mut wanted = functions.wanted();
    let mut served = BTreeSet::new();
    loop {
        let images = wanted.borrow_and_update().clone();
        for (revision, image) in images {
            let digest = image.image.image.rsplit('@').next().unwrap_or_default();
            let number = digests[digest];
            if served.insert(revision.clone()) {
                let color = number.to_string();
                let runner = runner(move |_| match number % 3 {
                    0 => answer(&color, &["a", "b"]),
                    1 => fatal(),
                    _ => answer(&color, &["a"]),
                });
                functions.set(&revision, Some(PackagedFunction::Serving(runner)));
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
    world.plane.apply(ROLLOUT, &function_rollout("own", &json!({"minReadySeconds": 2}))).await;
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
