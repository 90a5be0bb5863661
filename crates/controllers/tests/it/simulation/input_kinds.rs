//! Functions bring the kind of their inputs. Two of them, and two active revisions of one, bring the same kind in bad weather, and whenever
//! controllers are killed.

use std::collections::BTreeSet;
use std::time::Duration;

use ferroplane_testkit::plane::{FakeRegistry, condition};
use serde_json::{Value, json};

use super::checker::{calm_down, stay_still};
use super::in_virtual_time;
use super::package_decisions::run;
use super::world::World;
use crate::packages::{PKG, crd, package_yaml};

/// As many writes as a step takes at most.
const WRITES: u64 = 30;
const SEEDS: u64 = 4;
pub(super) const INPUTS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inputs.fn.acme.org";
/// The versions of the kind that images bring, the stored one last.
const BROUGHT: [(&str, &[&str]); 3] =
    [("own:v1.0.0", &["v1"]), ("own:v1.1.0", &["v1", "v2"]), ("other:v1.0.0", &["v1", "v3"])];

/// What a user does.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Install the Function of this name from an image.
    Install(&'static str, &'static str),
    /// Delete the kind of the inputs, which comes back.
    DeleteKind,
    /// Delete the Function of this name.
    Remove(&'static str),
}

/// What the user does, and how many revisions are active then.
const STEPS: [(Step, usize); 6] = [
    (Step::Install("own", "own:v1.0.0"), 1),
    (Step::Install("other", "other:v1.0.0"), 2),
    (Step::Install("own", "own:v1.1.0"), 3),
    (Step::DeleteKind, 3),
    (Step::Remove("own"), 1),
    (Step::Remove("other"), 0),
];

/// The kind of the inputs as an image brings it, with a description.
pub(super) fn inputs_of(image: &str, about: &str) -> Value {
    let mut definition = crd("inputs", "fn.acme.org");
    let names = versions_of(image);
    let of_name = |(place, name): (usize, &&str)| {
        let mut version = definition["spec"]["versions"][0].clone();
        version["name"] = json!(name);
        version["storage"] = json!(place + 1 == names.len());
        version["schema"]["openAPIV3Schema"]["description"] = json!(about);
        version
    };
    let versions: Vec<Value> = names.iter().enumerate().map(of_name).collect();
    definition["spec"]["versions"] = json!(versions);
    definition
}

/// The versions of the kind that an image brings.
fn versions_of(image: &str) -> &'static [&'static str] {
    let name = image.rsplit('/').next().unwrap_or_default();
    BROUGHT.iter().find(|(brings, _)| *brings == name).unwrap().1
}

async fn list(world: &World, plural: &str) -> Vec<Value> {
    let list = world.plane.get(&format!("{PKG}/{plural}")).await;
    list["items"].as_array().cloned().unwrap_or_default()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn is_active(revision: &Value) -> bool {
    revision["spec"]["desiredState"] == "Active"
}

/// What is wrong with the kind. It serves the versions of all revisions that are installed, which own it together with their Functions, and
/// nothing controls it. Without Functions, it does not exist.
pub(super) async fn wrong_inputs(world: &World) -> Option<String> {
    let kind = world.plane.get(INPUTS).await;
    let (functions, revisions) = (list(world, "functions").await, list(world, "functionrevisions").await);
    if functions.is_empty() {
        return (!kind.is_null()).then(|| format!("it is left: {kind}"));
    }
    let is_installed = |it: &&Value| is_active(it) || it["status"]["objectRefs"].is_array();
    let installed: Vec<&Value> = revisions.iter().filter(is_installed).collect();
    let images = installed.iter().filter_map(|revision| revision["spec"]["image"].as_str());
    let brought: BTreeSet<&str> = images.flat_map(versions_of).copied().collect();
    let versions = kind["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let served = versions.iter().filter(|version| version["served"] == true);
    let served: BTreeSet<&str> = served.filter_map(|version| version["name"].as_str()).collect();
    let references = kind["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let owners: BTreeSet<&str> = references.iter().filter_map(|owner| owner["uid"].as_str()).collect();
    let wanted: BTreeSet<&str> = functions.iter().chain(installed.iter().copied()).map(uid).collect();
    let existing: BTreeSet<&str> = functions.iter().chain(&revisions).map(uid).collect();
    let is_so = served.is_superset(&brought)
        && owners.is_superset(&wanted)
        && owners.is_subset(&existing)
        && references.iter().all(|owner| owner["controller"] != true);
    (!is_so).then(|| format!("it does not serve {brought:?} of {wanted:?}: {kind} {revisions:?}"))
}

/// A world that runs functions, with two versions of one, and another one that brings the same kind.
async fn world(seed: u64) -> World {
    let registry = FakeRegistry::default();
    for (image, _) in BROUGHT {
        let package = package_yaml("Function", &json!({}), &[inputs_of(image, "shared")]);
        registry.push(&format!("registry.example.org/acme/{image}"), &package);
    }
    tokio::spawn(run(registry.run_functions()));
    World::with_registry(seed, &registry).await
}

/// Do this as a user. Two revisions of a Function are active at once, if there are two.
async fn take(world: &World, step: Step) {
    let path = |function: &str| format!("{PKG}/functions/{function}");
    match step {
        Step::Install(function, image) => {
            let image = format!("registry.example.org/acme/{image}");
            let package = json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": function},
                "spec": {"package": image, "activeRevisionLimit": 2, "revisionHistoryLimit": 4},
            });
            world.plane.apply(&path(function), &package).await;
        }
        Step::DeleteKind => world.plane.delete(INPUTS).await,
        Step::Remove(function) => world.plane.delete(&path(function)).await,
    }
}

/// No Function blocks another one, and none of their revisions does: all of them are healthy, and stay so.
async fn settle(world: &World) -> Vec<String> {
    let mut wrongs: Vec<String> = calm_down(world).await.err().into_iter().collect();
    let is_healthy =
        |it: &Value, kind: &str| condition(it, kind).as_deref() == Some("True/HealthyPackageRevision");
    for function in list(world, "functions").await {
        if !is_healthy(&function, "Healthy") {
            wrongs.push(format!("it is not healthy: {function}"));
        }
    }
    for revision in list(world, "functionrevisions").await.iter().filter(|it| is_active(it)) {
        if !is_healthy(revision, "RevisionHealthy") || !is_healthy(revision, "RuntimeHealthy") {
            wrongs.push(format!("it is not healthy: {revision}"));
        }
    }
    wrongs.extend(wrong_inputs(world).await);
    wrongs.extend(stay_still(world).await.err());
    wrongs
}

async fn active_revisions(world: &World) -> usize {
    list(world, "functionrevisions").await.iter().filter(|revision| is_active(revision)).count()
}

#[test]
fn functions_and_revisions_share_a_kind_of_inputs_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let world = world(0).await;
        for write in 1..=WRITES {
            for (step, active) in STEPS {
                world.weather.kill_soon(write, write % 2 == 0);
                take(&world, step).await;
                assert_eq!(settle(&world).await, Vec::<String>::new(), "{step:?}, killed at write {write}");
                assert_eq!(active_revisions(&world).await, active, "{step:?}, killed at write {write}");
                world.weather.assert_all_were_tried(write, WRITES);
            }
        }
        world.end().await;
    });
}

#[test]
fn functions_and_revisions_share_a_kind_of_inputs_after_bad_weather() {
    for seed in 0..SEEDS {
        in_virtual_time(async {
            let world = world(seed).await;
            for steps in [&STEPS[..3], &STEPS[4..]] {
                world.weather.set_stormy(true);
                for (step, _) in steps {
                    take(&world, *step).await;
                    tokio::time::sleep(Duration::from_secs(40)).await;
                }
                world.weather.set_stormy(false);
                assert_eq!(settle(&world).await, Vec::<String>::new(), "seed {seed}");
            }
            assert_eq!(active_revisions(&world).await, 0, "seed {seed}");
            world.end().await;
        });
    }
}
