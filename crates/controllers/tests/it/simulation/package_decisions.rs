//! What decides about packages changes: policies that demand signatures come and go, users activate revisions by hand, and packages want
//! other versions of what they depend on. Meanwhile controllers are killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_engine::packages::ResolveOptions;
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::registry::NAMESPACE;
use ferroplane_testkit::plane::{FakeRegistry, ImageSigner, condition};
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::world::World;
use crate::packages::{LOCK, PKG, XRD, definition, owners, package_yaml};

/// As many writes as a step takes at most.
const WRITES: u64 = 20;
/// The same, where a provider is installed and moved, too.
const WRITES_OF_DEPENDENCIES: u64 = 64;
const SEEDS: u64 = 4;
const REGISTRY: &str = "registry.example.org/acme";
const VERSIONS: [&str; 2] = ["v1.0.0", "v1.1.0"];
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const PLATFORM: &str = "/apis/pkg.crossplane.io/v1/configurations/platform";
const PROVIDER: &str = "/apis/pkg.crossplane.io/v1/providers/acme-provider";
const POLICY: &str = "/apis/pkg.crossplane.io/v1beta1/imageconfigs/verify";

async fn install(world: &World, path: &str, image: &str, more: &Value) {
    let (kind, name) = match path {
        FUNCTION => ("Function", "own"),
        _ => ("Configuration", "platform"),
    };
    let mut package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"package": format!("{REGISTRY}/{image}")},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        package["spec"][field] = value.clone();
    }
    world.plane.apply(path, &package).await;
}

/// The revisions of a kind of package, the oldest first.
async fn revisions(world: &World, kind: &str) -> Vec<Value> {
    let list = world.plane.get(&format!("{PKG}/{kind}revisions")).await;
    let mut revisions = list["items"].as_array().cloned().unwrap_or_default();
    revisions.sort_by_key(|revision| revision["spec"]["revision"].as_i64());
    revisions
}

fn is_active(revision: &Value) -> bool {
    revision["spec"]["desiredState"] == "Active"
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn code(object: &Value, kind: &str) -> Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).map(|it| it["code"].clone()).unwrap_or_default()
}

fn controllers(object: &Value) -> Vec<String> {
    owners(object).into_iter().filter(|(_, controls)| *controls).map(|(name, _)| name).collect()
}

/// Run every function that is wanted.
pub(super) async fn run(functions: Arc<PackagedFunctions>) {
    let mut wanted = functions.wanted();
    let mut running = BTreeSet::new();
    loop {
        let now: BTreeSet<String> = wanted.borrow_and_update().keys().cloned().collect();
        for gone in running.difference(&now) {
            functions.set(gone, None);
        }
        for new in now.difference(&running) {
            let answer = AsyncFunction::new(|_| async { Ok(RunFunctionResponse::default()) });
            functions.set(new, Some(PackagedFunction::Serving(Arc::new(Runner::AsyncFunction(answer)))));
        }
        running = now;
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// A world that runs functions, with a signed version of one and one that nobody signed.
async fn signed_and_unsigned(seed: u64) -> (World, Arc<PackagedFunctions>) {
    let (registry, signer) = (FakeRegistry::default(), ImageSigner::generate());
    for version in VERSIONS {
        let package = package_yaml("Function", &json!({"capabilities": ["composition", version]}), &[]);
        let digest = registry.push(&format!("{REGISTRY}/own:{version}"), &package);
        if version == VERSIONS[0] {
            registry.sign(&digest, signer.sign(&digest));
        }
    }
    let functions = registry.run_functions();
    tokio::spawn(run(functions.clone()));
    let world = World::with_registry(seed, &registry).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE},
        "stringData": {"ours": signer.public_key()},
    });
    world.plane.apply(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/keys"), &secret).await;
    (world, functions)
}

/// Have signatures demanded, or not.
async fn set_policy(world: &World, is_there: bool) {
    if !is_there {
        return world.plane.delete(POLICY).await;
    }
    let key = json!({"secretRef": {"name": "keys", "key": "ours"}, "hashAlgorithm": "sha256"});
    let config = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "verify"},
        "spec": {
            "matchImages": [{"prefix": REGISTRY}],
            "verification": {"provider": "Cosign", "cosign": {"authorities": [{"name": "ours", "key": key}]}},
        },
    });
    world.plane.apply(POLICY, &config).await;
}

/// What should be of the function.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// Whether the image that the user wants satisfies the policy.
    is_trusted: bool,
    active: &'static str,
    runs: bool,
}

/// The function is as expected, and stays so. Without an expectation, there is none.
async fn settle_function(
    world: &World,
    functions: &PackagedFunctions,
    expected: Option<Expected>,
) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    let package = world.plane.get(FUNCTION).await;
    let revisions = revisions(world, "function").await;
    let running: Vec<String> = functions.wanted().borrow().keys().cloned().collect();
    let is_so = match expected {
        None => package.is_null() && revisions.is_empty() && running.is_empty(),
        Some(expected) => {
            let active: Vec<&Value> = revisions.iter().filter(|it| is_active(it)).collect();
            let image = format!("{REGISTRY}/own:{}", expected.active);
            let is_judged = if expected.is_trusted {
                condition(&package, "Installed").as_deref() == Some("True/ActivePackageRevision")
                    && condition(&package, "Healthy").as_deref() == Some("True/HealthyPackageRevision")
            } else {
                code(&package, "Installed") == "PackageUnverified"
            };
            is_judged
                && active.len() == 1
                && active[0]["spec"]["image"] == image
                && running == if expected.runs { vec![name(active[0])] } else { Vec::new() }
                && (expected.runs || code(active[0], "RevisionHealthy") == "PackageUnverified")
        }
    };
    if !is_so {
        wrongs.push(format!("not {expected:?}: {package} {revisions:?} {running:?}"));
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

#[test]
fn only_signed_functions_run_while_a_policy_demands_it_whenever_controllers_are_killed() {
    let expected = |is_trusted, active, runs| Some(Expected { is_trusted, active, runs });
    let [signed, unsigned] = VERSIONS;
    let steps = [
        (Some(true), signed, expected(true, signed, true)),
        // What runs stays in use if its successor cannot be verified.
        (None, unsigned, expected(false, signed, true)),
        (Some(false), unsigned, expected(true, unsigned, true)),
        (Some(true), unsigned, expected(false, unsigned, false)),
        (None, signed, expected(true, signed, true)),
        (None, "", None),
        (Some(false), "", None),
    ];
    in_virtual_time(async {
        let (world, functions) = signed_and_unsigned(0).await;
        for write in 1..=WRITES {
            for (policy, version, expected) in steps {
                world.weather.kill_soon(write, write % 2 == 0);
                if let Some(is_there) = policy {
                    set_policy(&world, is_there).await;
                }
                if version.is_empty() {
                    world.plane.delete(FUNCTION).await;
                } else {
                    install(&world, FUNCTION, &format!("own:{version}"), &json!({})).await;
                }
                let wrongs = settle_function(&world, &functions, expected).await;
                assert_eq!(wrongs, Vec::<String>::new(), "killed at write {write}");
                world.weather.assert_all_were_tried(write, WRITES);
            }
        }
        world.end().await;
    });
}

#[test]
fn last_policy_decides_after_bad_weather() {
    let [signed, unsigned] = VERSIONS;
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let (world, functions) = signed_and_unsigned(seed).await;
            for (version, is_demanded) in
                [(signed, true), (unsigned, false), (unsigned, true), (signed, true)]
            {
                world.weather.set_stormy(true);
                for (version, is_demanded) in
                    [(unsigned, !is_demanded), (signed, false), (version, is_demanded)]
                {
                    install(&world, FUNCTION, &format!("own:{version}"), &json!({})).await;
                    set_policy(&world, is_demanded).await;
                    tokio::time::sleep(Duration::from_secs(20)).await;
                }
                world.weather.set_stormy(false);
                assert_eq!(calm_down(&world).await, Ok(()), "seed {seed}");
                let package = world.plane.get(FUNCTION).await;
                let is_trusted = version == signed || !is_demanded;
                let is_refused = code(&package, "Installed") == "PackageUnverified";
                assert_eq!(is_refused, !is_trusted, "seed {seed}, {version}: {package}");
                let running: Vec<String> = functions.wanted().borrow().keys().cloned().collect();
                let revisions = revisions(&world, "function").await;
                let images: Vec<_> = revisions.iter().filter(|it| running.contains(&name(it))).collect();
                let is_allowed =
                    |it: &&Value| !is_demanded || it["spec"]["image"] == format!("{REGISTRY}/own:{signed}");
                assert!(images.iter().all(is_allowed), "seed {seed}, {version}: {images:?}");
                if is_trusted {
                    let image = format!("{REGISTRY}/own:{version}");
                    assert!(
                        images.len() == 1 && images[0]["spec"]["image"] == image,
                        "seed {seed}: {images:?}"
                    );
                }
                assert_eq!(stay_still(&world).await, Ok(()), "seed {seed}");
            }
            world.end().await;
        });
    }
}

/// A user sets the state of the revision that was made of a version.
async fn set_state(world: &World, version: &str, state: &str) {
    let image = format!("{REGISTRY}/platform:{version}");
    let revisions = revisions(world, "configuration").await;
    let revision = revisions.iter().rfind(|revision| revision["spec"]["image"] == image).unwrap();
    let path = format!("{PKG}/configurationrevisions/{}", name(revision));
    world.plane.merge(&path, &json!({"spec": {"desiredState": state}})).await;
}

/// The revision of this version is active, and controls what it brings. Without one, no revision is.
async fn settle_manual(world: &World, count: usize, active: Option<&str>) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    let revisions = revisions(world, "configuration").await;
    let (xrd, lock) = (world.plane.get(XRD).await, world.plane.get(LOCK).await);
    let images: Vec<&Value> =
        revisions.iter().filter(|it| is_active(it)).map(|it| &it["spec"]["image"]).collect();
    let names: Vec<String> = revisions.iter().filter(|it| is_active(it)).map(name).collect();
    let locked: Vec<&Value> =
        lock["packages"].as_array().into_iter().flatten().map(|it| &it["version"]).collect();
    let about = &xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"];
    let expected: Vec<Value> =
        active.iter().map(|version| json!(format!("{REGISTRY}/platform:{version}"))).collect();
    let is_so = revisions.len() == count
        && images.iter().copied().eq(&expected)
        && controllers(&xrd) == names
        && locked.iter().copied().eq(&active.map(Value::from))
        && active.is_none_or(|version| about == version);
    if !is_so {
        wrongs.push(format!("not {active:?} of {count}: {revisions:?} {xrd} {lock}"));
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

#[test]
fn users_activate_revisions_by_hand_whenever_controllers_are_killed() {
    let registry = FakeRegistry::default();
    for version in VERSIONS {
        let package = package_yaml("Configuration", &json!({}), &[definition(version)]);
        registry.push(&format!("{REGISTRY}/platform:{version}"), &package);
    }
    let manual = json!({"revisionActivationPolicy": "Manual"});
    let [old, new] = VERSIONS;
    in_virtual_time(async {
        let world = World::with_registry(0, &registry).await;
        for write in 1..=WRITES {
            let kill_soon = || world.weather.kill_soon(write, write % 2 == 0);
            let settled = async |count: usize, active: Option<&str>| {
                let wrongs = settle_manual(&world, count, active).await;
                assert_eq!(wrongs, Vec::<String>::new(), "killed at write {write}");
                world.weather.assert_all_were_tried(write, WRITES);
            };
            kill_soon();
            install(&world, PLATFORM, &format!("platform:{old}"), &manual).await;
            settled(1, None).await;
            kill_soon();
            set_state(&world, old, "Active").await;
            settled(1, Some(old)).await;
            kill_soon();
            install(&world, PLATFORM, &format!("platform:{new}"), &manual).await;
            settled(2, Some(old)).await;
            kill_soon();
            set_state(&world, old, "Inactive").await;
            set_state(&world, new, "Active").await;
            settled(2, Some(new)).await;
            kill_soon();
            set_state(&world, new, "Inactive").await;
            settled(2, None).await;
            kill_soon();
            world.plane.delete(PLATFORM).await;
            settled(0, None).await;
        }
        world.end().await;
    });
}

/// The provider has the version that the platform wants. Without one, neither exists.
async fn settle_dependency(world: &World, version: Option<&str>) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    if version.is_none() {
        // Only now: as long as the platform depends on it, it is installed again.
        world.plane.delete(PROVIDER).await;
        wrongs.extend(calm_down(world).await.err());
    }
    let (platform, provider) = (world.plane.get(PLATFORM).await, world.plane.get(PROVIDER).await);
    let lock = world.plane.get(LOCK).await;
    let packages = lock["packages"].as_array().cloned().unwrap_or_default();
    let is_so = match version {
        None => platform.is_null() && provider.is_null() && packages.is_empty(),
        Some(version) => {
            condition(&platform, "Healthy").as_deref() == Some("True/HealthyPackageRevision")
                && provider["spec"]["package"] == format!("{REGISTRY}/provider:{version}")
                && condition(&lock, "Resolved").as_deref() == Some("True/DependencyResolutionSucceeded")
                && packages.len() == 2
                && packages.iter().all(|package| package["version"] == version)
        }
    };
    if !is_so {
        wrongs.push(format!("not {version:?}: {platform} {provider} {lock}"));
    }
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

#[test]
fn dependencies_move_with_their_parents_whenever_controllers_are_killed() {
    let registry = FakeRegistry::default();
    registry.allow(ResolveOptions { upgrades: true, downgrades: true });
    for version in VERSIONS {
        let provider = package_yaml("Provider", &json!({"capabilities": [version]}), &[]);
        registry.push(&format!("{REGISTRY}/provider:{version}"), &provider);
        let depends = json!({"dependsOn": [{"provider": format!("{REGISTRY}/provider"), "version": format!("={version}")}]});
        let platform = package_yaml("Configuration", &depends, &[definition(version)]);
        registry.push(&format!("{REGISTRY}/platform:{version}"), &platform);
    }
    let [old, new] = VERSIONS;
    in_virtual_time(async {
        let world = World::with_registry(0, &registry).await;
        for write in 1..=WRITES_OF_DEPENDENCIES {
            for version in [Some(old), Some(new), Some(old), None] {
                world.weather.kill_soon(write, write % 2 == 0);
                match version {
                    Some(version) => {
                        install(&world, PLATFORM, &format!("platform:{version}"), &json!({})).await;
                    }
                    None => world.plane.delete(PLATFORM).await,
                }
                let wrongs = settle_dependency(&world, version).await;
                assert_eq!(wrongs, Vec::<String>::new(), "killed at write {write}");
                world.weather.assert_all_were_tried(write, WRITES_OF_DEPENDENCIES);
            }
        }
        world.end().await;
    });
}
