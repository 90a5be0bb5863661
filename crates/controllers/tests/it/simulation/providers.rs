//! Providers run on this machine, their kinds become managed, and both change hands whenever controllers are killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::keys;
use ferroplane_controllers::{PackagedProviders, ProviderState};
use ferroplane_engine::packages::protecting_usage_name;
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::{FakeRegistry, condition};
use http::Method;
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::world::World;
use crate::packages::{PKG, crd, owners, package_yaml};

/// As many writes as running, upgrading or removing takes at most.
const WRITES: u64 = 36;
/// More writes than there ever are.
const FAR: u64 = 1 << 40;
const SEEDS: u64 = 4;
const PROVIDER: &str = "/apis/pkg.crossplane.io/v1/providers/cloud";
const DEFINITION: &str =
    "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions/buckets.cloud.acme.org";
const KIND: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/buckets.cloud.acme.org";
const BUCKET: &str = "/apis/cloud.acme.org/v1/buckets/b";

/// A world with two versions of a provider.
async fn world(seed: u64) -> (World, Arc<PackagedProviders>) {
    world_of(seed, &FakeRegistry::default()).await
}

/// The same with a registry.
async fn world_of(seed: u64, registry: &FakeRegistry) -> (World, Arc<PackagedProviders>) {
    for version in ["v1.0.0", "v1.1.0"] {
        let package = package_yaml("Provider", &json!({}), &[crd("buckets", "cloud.acme.org")]);
        let package = format!("# {version}\n{package}");
        registry.push(&format!("registry.example.org/acme/cloud:{version}"), &package);
    }
    let providers = registry.run_providers();
    tokio::spawn(run(providers.clone()));
    (World::with_registry(seed, registry).await, providers)
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
                world.weather.assert_all_were_tried(write, WRITES);
            }
        }
        world.end().await;
    });
}

/// Once nothing happens any more, the provider is protected or it is not. Returns the identifier of the usage that protects it.
async fn protection(world: &World, is_wanted: bool, when: &str) -> Value {
    assert_eq!(calm_down(world).await, Ok(()), "{when}");
    // Controllers also answer the webhook. They are not killed while they do.
    world.weather.kill_soon(FAR, false);
    let name = protecting_usage_name("buckets.cloud.acme.org");
    let usage = format!("/apis/protection.crossplane.io/v1beta1/clusterusages/{name}");
    let (usage, provider) = (world.plane.get(&usage).await, world.plane.get(PROVIDER).await);
    let is_in_use = provider["metadata"]["labels"][keys::IN_USE] == "true";
    assert_eq!((!usage.is_null(), is_in_use), (is_wanted, is_wanted), "{when}: {usage:#} {provider:#}");
    if is_wanted {
        assert_eq!(condition(&usage, "Ready").as_deref(), Some("True/Available"), "{when}: {usage:#}");
        let (code, answer) =
            world.plane.send(Method::DELETE, PROVIDER, "application/json", &Value::Null).await;
        assert_eq!(code, 409, "{when}: {answer:#}");
    }
    usage["metadata"]["uid"].clone()
}

#[test]
fn provider_is_protected_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let registry = FakeRegistry::default();
        registry.protect_providers();
        let (world, providers) = world_of(0, &registry).await;
        install(&world, "v1.0.0").await;
        assert_eq!(settle(&world, &providers, Some("v1.0.0")).await, Vec::<String>::new());
        let bucket = json!({"apiVersion": "cloud.acme.org/v1", "kind": "Input", "metadata": {"name": "b"}});
        for write in 1..=WRITES {
            let when = format!("killed at write {write}");
            let kill_soon = || world.weather.kill_soon(write, write % 2 == 0);
            kill_soon();
            world.plane.apply(BUCKET, &bucket).await;
            let first = protection(&world, true, &when).await;

            kill_soon();
            let version = if write % 2 == 0 { "v1.0.0" } else { "v1.1.0" };
            install(&world, version).await;
            let second = protection(&world, true, &when).await;
            assert_eq!(second, first, "{when}: it was not protected all the time");
            assert_eq!(settle(&world, &providers, Some(version)).await, Vec::<String>::new(), "{when}");

            kill_soon();
            world.plane.delete(BUCKET).await;
            protection(&world, false, &when).await;
        }
        world.plane.delete(PROVIDER).await;
        assert_eq!(settle(&world, &providers, None).await, Vec::<String>::new());
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
