//! Packages are installed, upgraded and removed in bad weather, and whenever controllers are killed.

use std::time::Duration;

use ferroplane_testkit::plane::{FakeRegistry, condition};
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::world::World;
use crate::packages::{LOCK, PKG, XRD, definition, owners, package_yaml};

/// As many writes as installing, upgrading or removing takes at most.
const WRITES: u64 = 30;
const SEEDS: u64 = 6;
const CONFIGURATION: &str = "/apis/pkg.crossplane.io/v1/configurations/platform";

/// A registry with two versions of a platform, which depends on a provider, and a mirror of it.
fn registry() -> FakeRegistry {
    let registry = FakeRegistry::default();
    let push = |image: &str, package: &str| {
        for host in ["registry.example.org", "mirror.example.org"] {
            registry.push(&format!("{host}/acme/{image}"), package);
        }
    };
    push("provider:v1.0.0", &package_yaml("Provider", &json!({}), &[]));
    let spec =
        json!({"dependsOn": [{"provider": "registry.example.org/acme/provider", "version": "v1.0.0"}]});
    for version in ["v1.0.0", "v1.1.0"] {
        let package = package_yaml("Configuration", &spec, &[definition(version)]);
        push(&format!("platform:{version}"), &package);
    }
    registry
}

/// Have an `ImageConfig` that rewrites images to the mirror, or none.
async fn set_mirror(world: &World, is_used: bool) {
    const CONFIG: &str = "/apis/pkg.crossplane.io/v1beta1/imageconfigs/mirror";
    if !is_used {
        return world.plane.delete(CONFIG).await;
    }
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "mirror"},
        "spec": {
            "matchImages": [{"prefix": "registry.example.org/"}],
            "rewriteImage": {"prefix": "mirror.example.org/"},
        },
    });
    world.plane.apply(CONFIG, &config).await;
}

async fn install(world: &World, version: &str) {
    let package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Configuration", "metadata": {"name": "platform"},
        "spec": {"package": format!("registry.example.org/acme/platform:{version}")},
    });
    world.plane.apply(CONFIGURATION, &package).await;
}

async fn remove(world: &World) {
    world.plane.delete(CONFIGURATION).await;
}

/// Everything is as it should be, and stays so. Without a version, nothing is installed.
async fn settle(world: &World, version: Option<&str>) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    if version.is_none() {
        // Only now: as long as somebody depends on it, it is installed again.
        world.plane.delete(&format!("{PKG}/providers/acme-provider")).await;
        wrongs.extend(calm_down(world).await.err());
    }
    let (xrd, lock) = (world.plane.get(XRD).await, world.plane.get(LOCK).await);
    let revisions = world.plane.get(&format!("{PKG}/configurationrevisions")).await;
    let revisions = revisions["items"].as_array().cloned().unwrap_or_default();
    let active: Vec<&Value> = revisions.iter().filter(|it| it["spec"]["desiredState"] == "Active").collect();
    let locked = lock["packages"].as_array().map(Vec::len).unwrap_or_default();
    match version {
        None if xrd.is_null() && revisions.is_empty() && locked == 0 => {}
        None => wrongs.push(format!("something is left: {xrd} {revisions:?} {lock}")),
        Some(version) => {
            let package = world.plane.get(CONFIGURATION).await;
            let is_healthy = condition(&package, "Healthy").as_deref() == Some("True/HealthyPackageRevision");
            let about = &xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"];
            let controllers: Vec<_> = owners(&xrd).into_iter().filter(|(_, controls)| *controls).collect();
            let is_owned = active.len() == 1 && controllers == [(text(&active[0]["metadata"]["name"]), true)];
            if !is_healthy || about != version || !is_owned || locked != 2 {
                wrongs.push(format!("{version} is not installed: {package} {xrd} {revisions:?} {lock}"));
            }
        }
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn packages_are_installed_upgraded_and_removed_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let world = World::with_registry(0, &registry()).await;
        for write in 1..=WRITES {
            for version in [Some("v1.0.0"), Some("v1.1.0"), None] {
                world.weather.kill_soon(write, write % 2 == 0);
                match version {
                    Some(version) => install(&world, version).await,
                    None => remove(&world).await,
                }
                assert_eq!(settle(&world, version).await, Vec::<String>::new(), "killed at write {write}");
                world.weather.assert_all_were_tried(write, WRITES);
            }
        }
        world.end().await;
    });
}

#[test]
fn packages_become_as_they_should_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let registry = registry();
            let world = World::with_registry(seed, &registry).await;
            world.weather.set_stormy(true);
            for (step, version) in ["v1.0.0", "v1.1.0", "v1.0.0"].into_iter().enumerate() {
                install(&world, version).await;
                registry.set_down((step == 1).then_some("cannot connect"));
                tokio::time::sleep(Duration::from_secs(40)).await;
            }
            world.weather.set_stormy(false);
            registry.set_down(None);
            assert_eq!(settle(&world, Some("v1.0.0")).await, Vec::<String>::new(), "seed {seed}");
            world.weather.set_stormy(true);
            remove(&world).await;
            tokio::time::sleep(Duration::from_secs(40)).await;
            world.weather.set_stormy(false);
            assert_eq!(settle(&world, None).await, Vec::<String>::new(), "seed {seed}");
            world.end().await;
        });
    }
}

#[test]
fn packages_come_from_where_the_last_state_of_an_image_config_says_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let world = World::with_registry(seed, &registry()).await;
            install(&world, "v1.0.0").await;
            assert_eq!(settle(&world, Some("v1.0.0")).await, Vec::<String>::new(), "seed {seed}");
            for is_used in [true, false, true] {
                world.weather.set_stormy(true);
                for is_used in [is_used, !is_used, is_used] {
                    set_mirror(&world, is_used).await;
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                world.weather.set_stormy(false);
                assert_eq!(settle(&world, Some("v1.0.0")).await, Vec::<String>::new(), "seed {seed}");
                let host = if is_used { "mirror.example.org" } else { "registry.example.org" };
                let revisions = world.plane.get(&format!("{PKG}/configurationrevisions")).await;
                let [revision] = &revisions["items"].as_array().unwrap()[..] else {
                    panic!("seed {seed}: the image is the same: {revisions}")
                };
                let status = &revision["status"];
                assert_eq!(status["resolvedImage"], format!("{host}/acme/platform:v1.0.0"), "seed {seed}");
                let applied = &status["appliedImageConfigRefs"][0]["name"];
                let expected = if is_used { json!("mirror") } else { Value::Null };
                assert_eq!(*applied, expected, "seed {seed}");
            }
            world.end().await;
        });
    }
}

/// Statement 2: a package that always pulls asks its registry again after a minute, and no other package asks at all.
#[test]
fn tag_that_moved_is_noticed_after_a_minute_by_packages_that_always_pull() {
    in_virtual_time(async {
        let registry = FakeRegistry::default();
        let push = |about: &str| {
            let package = package_yaml("Configuration", &json!({}), &[definition(about)]);
            registry.push("registry.example.org/acme/platform:latest", &package);
        };
        push("one");
        let world = World::with_registry(0, &registry).await;
        let install = async |policy: &str| {
            let package = json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Configuration", "metadata": {"name": "platform"},
                "spec": {"package": "registry.example.org/acme/platform:latest", "packagePullPolicy": policy},
            });
            world.plane.apply(CONFIGURATION, &package).await;
            tokio::time::sleep(Duration::from_secs(30)).await;
        };
        let about = async || {
            let xrd = world.plane.get(XRD).await;
            text(&xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"])
        };
        install("IfNotPresent").await;
        assert_eq!(about().await, "one");
        registry.asked();
        push("two");
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!((about().await, registry.asked()), ("one".to_owned(), Vec::new()));

        install("Always").await;
        assert_eq!(about().await, "two");
        push("three");
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(about().await, "three");
        world.end().await;
    });
}
