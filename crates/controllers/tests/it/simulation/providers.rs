//! Providers run on this machine, their kinds become managed, and both change hands whenever controllers are killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_controllers::{PackagedProviders, ProviderState};
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::{FakeRegistry, condition};
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::world::World;
use crate::packages::{PKG, crd, owners, package_yaml};

/// As many writes as running, upgrading or removing takes at most.
const WRITES: u64 = 36;
const SEEDS: u64 = 4;
const PROVIDER: &str = "/apis/pkg.crossplane.io/v1/providers/cloud";
const DEFINITION: &str =
    "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions/buckets.cloud.acme.org";
const KIND: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/buckets.cloud.acme.org";

/// A world with two versions of a provider.
async fn world(seed: u64) -> (World, Arc<PackagedProviders>) {
    let registry = FakeRegistry::default();
    for version in ["v1.0.0", "v1.1.0"] {
        let package = package_yaml("Provider", &json!({}), &[crd("buckets", "cloud.acme.org")]);
        let package = format!("# {version}\n{package}");
        registry.push(&format!("registry.example.org/acme/cloud:{version}"), &package);
    }
    let providers = registry.run_providers();
    tokio::spawn(run(providers.clone()));
    (World::with_registry(seed, &registry).await, providers)
}

/// Run every provider that is wanted.
async fn run(providers: Arc<PackagedProviders>) {
    let mut wanted = providers.wanted();
    let mut running = BTreeSet::new();
    loop {
        let now: BTreeSet<String> = wanted.borrow_and_update().keys().cloned().collect();
        for gone in running.difference(&now) {
            providers.set(gone, None);
        }
        for new in now.difference(&running) {
            providers.set(new, Some(ProviderState::Running("runs in a simulation".to_owned())));
        }
        running = now;
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

async fn install(world: &World, version: &str) {
    let package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "metadata": {"name": "cloud"},
        "spec": {"package": format!("registry.example.org/acme/cloud:{version}")},
    });
    world.plane.apply(PROVIDER, &package).await;
}

/// Everything is as it should be, and stays so. Without a version, nothing runs.
async fn settle(world: &World, providers: &PackagedProviders, version: Option<&str>) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    let wanted: Vec<String> = providers.wanted().borrow().keys().cloned().collect();
    let (definition, kind) = (world.plane.get(DEFINITION).await, world.plane.get(KIND).await);
    let revisions = world.plane.get(&format!("{PKG}/providerrevisions")).await;
    let revisions = revisions["items"].as_array().cloned().unwrap_or_default();
    let accounts = world.plane.get(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts")).await;
    let has_account = |name: &str| {
        let mut all = accounts["items"].as_array().into_iter().flatten();
        all.any(|account| account["metadata"]["name"] == name)
    };
    match version {
        None => {
            let is_left =
                !definition.is_null() || !kind.is_null() || !revisions.is_empty() || !wanted.is_empty();
            if is_left {
                wrongs.push(format!("something is left: {definition} {kind} {revisions:?} {wanted:?}"));
            }
        }
        Some(version) => {
            let image = format!("registry.example.org/acme/cloud:{version}");
            let active: Vec<_> =
                revisions.iter().filter(|it| it["spec"]["desiredState"] == "Active").collect();
            let name = active.first().map(|it| text(&it["metadata"]["name"])).unwrap_or_default();
            let package = world.plane.get(PROVIDER).await;
            let is_so = active.len() == 1
                && active[0]["spec"]["image"] == image
                && condition(&package, "Healthy").as_deref() == Some("True/HealthyPackageRevision")
                && wanted == [name.clone()]
                && has_account(&name)
                && [&definition, &kind].into_iter().all(|object| controllers(object) == [name.clone()]);
            if !is_so {
                wrongs.push(format!(
                    "{version} does not run: {package} {revisions:?} {wanted:?} {definition} {kind}"
                ));
            }
        }
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn controllers(object: &Value) -> Vec<String> {
    owners(object).into_iter().filter(|(_, controls)| *controls).map(|(name, _)| name).collect()
}

#[test]
fn provider_runs_and_changes_hands_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let (world, providers) = world(0).await;
        for write in 1..=WRITES {
            for version in [Some("v1.0.0"), Some("v1.1.0"), None] {
                world.weather.kill_soon(write, write % 2 == 0);
                match version {
                    Some(version) => install(&world, version).await,
                    None => world.plane.delete(PROVIDER).await,
                }
                let wrongs = settle(&world, &providers, version).await;
                assert_eq!(wrongs, Vec::<String>::new(), "killed at write {write}");
            }
        }
        world.end().await;
    });
}

#[test]
fn provider_runs_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let (world, providers) = world(seed).await;
            world.weather.set_stormy(true);
            for version in ["v1.0.0", "v1.1.0", "v1.0.0"] {
                install(&world, version).await;
                tokio::time::sleep(Duration::from_secs(40)).await;
            }
            world.weather.set_stormy(false);
            let wrongs = settle(&world, &providers, Some("v1.0.0")).await;
            assert_eq!(wrongs, Vec::<String>::new(), "seed {seed}");
            world.weather.set_stormy(true);
            world.plane.delete(PROVIDER).await;
            tokio::time::sleep(Duration::from_secs(40)).await;
            world.weather.set_stormy(false);
            assert_eq!(settle(&world, &providers, None).await, Vec::<String>::new(), "seed {seed}");
            world.end().await;
        });
    }
}
