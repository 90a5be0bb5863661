//! Functions run in pods, are upgraded and removed in bad weather, and whenever controllers are killed.

use std::time::Duration;

use ferroplane_api::PackageKind;
use ferroplane_testkit::plane::FakeRegistry;
use ferroplane_testkit::plane::registry::NAMESPACE;
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::input_kinds::{INPUTS, inputs_of, wrong_inputs};
use super::world::World;
use crate::packages::{PKG, owners, package_yaml};

/// As many writes as running, upgrading or removing takes at most.
const WRITES: u64 = 30;
const SEEDS: u64 = 4;
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";

/// A world with two versions of a function, on a cluster. The kind of its inputs says which version described it.
async fn cluster(seed: u64) -> World {
    let registry = FakeRegistry::default();
    for version in ["v1.0.0", "v1.1.0"] {
        let spec = json!({"capabilities": ["composition", version]});
        let package = package_yaml("Function", &spec, &[inputs_of(&format!("own:{version}"), version)]);
        registry.push(&format!("registry.example.org/acme/own:{version}"), &package);
    }
    registry.run_in_pods(&[PackageKind::Function, PackageKind::Provider]);
    let world = World::with_one_revision(seed, &registry).await;
    create_namespace(&world).await;
    world
}

/// Create the namespace in which programs of packages run.
pub(super) async fn create_namespace(world: &World) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).await;
}

async fn install(world: &World, version: &str) {
    let package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
        "spec": {"package": format!("registry.example.org/acme/own:{version}")},
    });
    world.plane.apply(FUNCTION, &package).await;
}

pub(super) async fn deployments(world: &World) -> Vec<Value> {
    let list = world.plane.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments")).await;
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Do what Kubernetes does: pods of every Deployment answer. Says whether any did not before.
pub(super) async fn start_pods(world: &World) -> bool {
    let mut has_started = false;
    for deployment in deployments(world).await {
        if deployment["status"]["conditions"].is_array() {
            continue;
        }
        has_started = true;
        let name = deployment["metadata"]["name"].as_str().unwrap();
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}/status");
        let conditions = json!([{"type": "Available", "status": "True"}]);
        world.plane.merge(&path, &json!({"status": {"conditions": conditions}})).await;
    }
    has_started
}

/// Wait until controllers do nothing any more, and pods of all Deployments answer.
pub(super) async fn calm_down_with_pods(world: &World) -> Vec<String> {
    let mut wrongs = Vec::new();
    loop {
        wrongs.extend(calm_down(world).await.err());
        if !start_pods(world).await {
            return wrongs;
        }
    }
}

/// Everything is as it should be, and stays so. Without a version, nothing runs.
async fn settle(world: &World, version: Option<&str>) -> Vec<String> {
    let mut wrongs = calm_down_with_pods(world).await;
    wrongs.extend(wrong_inputs(world).await);
    let running = deployments(world).await;
    let core = |plural: &str, name: &str| format!("/api/v1/namespaces/{NAMESPACE}/{plural}/{name}");
    let service = world.plane.get(&core("services", "own")).await;
    let secret = world.plane.get(&core("secrets", "own-tls-server")).await;
    let Some(version) = version else {
        if !running.is_empty() || !service.is_null() || !secret.is_null() {
            wrongs.push(format!("something is left: {running:?} {service} {secret}"));
        }
        wrongs.extend(stay_still(world).await.err());
        return wrongs;
    };
    let revisions = world.plane.get(&format!("{PKG}/functionrevisions")).await;
    let revisions = revisions["items"].as_array().cloned().unwrap_or_default();
    let active: Vec<_> = revisions.iter().filter(|it| it["spec"]["desiredState"] == "Active").collect();
    let image = format!("registry.example.org/acme/own:{version}");
    let name =
        active.first().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).unwrap_or_default();
    let controlled = |object: &Value| {
        let mut controllers = owners(object).into_iter().filter(|(_, controls)| *controls);
        controllers.next() == Some((name.clone(), true)) && controllers.next().is_none()
    };
    // Both versions bring the first version of the kind, and the newest revision describes it.
    let inputs = world.plane.get(INPUTS).await;
    let about = &inputs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"];
    let is_so = active.len() == 1
        && active[0]["spec"]["image"] == image
        && about == version
        && running.len() == 1
        && running[0]["metadata"]["name"] == name
        && service["spec"]["selector"]["pkg.crossplane.io/revision"] == name
        && [&running[0], &service, &secret].into_iter().all(controlled);
    if !is_so {
        wrongs.push(format!("{version} does not run: {revisions:?} {running:?} {service} {inputs}"));
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

#[test]
fn function_runs_in_pods_and_changes_hands_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let world = cluster(0).await;
        for write in 1..=WRITES {
            for version in [Some("v1.0.0"), Some("v1.1.0"), None] {
                world.weather.kill_soon(write, write % 2 == 0);
                match version {
                    Some(version) => install(&world, version).await,
                    None => world.plane.delete(FUNCTION).await,
                }
                assert_eq!(settle(&world, version).await, Vec::<String>::new(), "killed at write {write}");
                world.weather.assert_all_were_tried(write, WRITES);
            }
        }
        world.end().await;
    });
}

/// Have a configuration with so many replicas, or none.
async fn configure(world: &World, replicas: Option<u32>) {
    const CONFIG: &str = "/apis/pkg.crossplane.io/v1beta1/deploymentruntimeconfigs/sized";
    let Some(replicas) = replicas else { return world.plane.delete(CONFIG).await };
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "sized"},
        "spec": {"deploymentTemplate": {
            "metadata": {"labels": {"replicas": format!("of-{replicas}")}},
            "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": []}}},
        }},
    });
    world.plane.apply(CONFIG, &config).await;
}

#[test]
fn pods_follow_their_configuration_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let world = cluster(0).await;
        let package = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
            "spec": {"package": "registry.example.org/acme/own:v1.0.0", "runtimeConfigRef": {"name": "sized"}},
        });
        for write in 1..=WRITES {
            let kill_soon = || world.weather.kill_soon(write, write % 2 == 0);
            kill_soon();
            configure(&world, Some(1)).await;
            world.plane.apply(FUNCTION, &package).await;
            assert_eq!(settle(&world, Some("v1.0.0")).await, Vec::<String>::new(), "killed at write {write}");
            world.weather.assert_all_were_tried(write, WRITES);
            for replicas in [3, 2] {
                kill_soon();
                configure(&world, Some(replicas)).await;
                assert_eq!(
                    settle(&world, Some("v1.0.0")).await,
                    Vec::<String>::new(),
                    "killed at write {write}"
                );
                let [deployment] = &deployments(&world).await[..] else { panic!() };
                let label = &deployment["metadata"]["labels"]["replicas"];
                let found = (&deployment["spec"]["replicas"], label);
                assert_eq!(
                    found,
                    (&json!(replicas), &json!(format!("of-{replicas}"))),
                    "killed at write {write}"
                );
            }
            kill_soon();
            world.plane.delete(FUNCTION).await;
            configure(&world, None).await;
            assert_eq!(settle(&world, None).await, Vec::<String>::new(), "killed at write {write}");
        }
        world.end().await;
    });
}

#[test]
fn function_runs_in_pods_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let world = cluster(seed).await;
            world.weather.set_stormy(true);
            for version in ["v1.0.0", "v1.1.0", "v1.0.0"] {
                install(&world, version).await;
                tokio::time::sleep(Duration::from_secs(30)).await;
                start_pods(&world).await;
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            world.weather.set_stormy(false);
            assert_eq!(settle(&world, Some("v1.0.0")).await, Vec::<String>::new(), "seed {seed}");
            world.end().await;
        });
    }
}
