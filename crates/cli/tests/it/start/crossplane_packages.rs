//! Packages that Crossplane and we install on a real API server, from registries with the same images.
//!
//! `cargo xtask compare --packages` runs all of this: Crossplane installs packages, we take over, and Crossplane takes over again. It also
//! installs a package that our command line has built. Then each installs the same packages on a server of its own, and what became of them is
//! compared field by field. Nodes are missing: the tests say in their place that pods run.

mod accepted;
mod crossplane;
mod difference;
mod manifests;
mod report;
mod scenario;
mod snapshot;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ground::Ground;
use super::replica::Replica;
use crate::packages::LocalRegistry;
use accepted::{ACCEPTED, Accepted, is_protected};
use crossplane::{Crossplane, CrossplanePeer};
use difference::{Difference, differences};
use report::Report;
use scenario::{Moment, Scenario};
use snapshot::{Form, Snapshot, snapshot};

/// How we are started: packages are off by default.
const FLAGS: &[&str] = &["--enable-packages"];

/// Where both sides are recorded. Without it, nothing is compared.
fn directory() -> Option<PathBuf> {
    std::env::var_os("FERROPLANE_COMPARE").map(PathBuf::from)
}

/// `crossplane` or `ferroplane`; empty for the comparison of both.
fn side() -> String {
    std::env::var("FERROPLANE_COMPARE_SIDE").unwrap_or_default()
}

fn record(directory: &Path, side: &str) -> PathBuf {
    directory.join(format!("packages-{side}.json"))
}

fn start_replica(ground: &Ground) -> Replica {
    let replica = Replica::start(ground, FLAGS);
    replica.until("became the leader");
    replica
}

/// What differs between two snapshots of one cluster, unless it is accepted and no pod, owner or revision notices.
fn changes(title: &str, before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let is_harmless = |difference: &Difference<'_>| {
        // Either of them may come after the other.
        let reversed = difference.reversed();
        let is_accepted =
            |accepted: &Accepted| (accepted.explains)(difference) || (accepted.explains)(&reversed);
        !is_protected(difference) && ACCEPTED.iter().any(is_accepted)
    };
    let found = differences(title, before, after);
    found.iter().filter(|difference| !is_harmless(difference)).map(Difference::describe).collect()
}

/// A cluster whose packages Crossplane installed has no new revision, no other pod and no other owner when we take over, and none when
/// Crossplane takes over again.
#[test]
fn packages_of_crossplane_are_taken_over_and_given_back_unchanged() {
    let Some(peer) = CrossplanePeer::find() else { return };
    let Some(registry) = LocalRegistry::start() else { return };
    let ground = Ground::new();
    let scenario = Scenario::prepare(&ground, &registry);
    let crossplane = Crossplane::start(&peer, &ground);
    for moment in [Moment::Installed, Moment::Upgraded] {
        scenario.play(moment);
    }
    let look = || snapshot(scenario.settle(), Form::Identity);
    let before = look();
    assert!(before.keys().any(|object| object.starts_with("Pod ")), "nothing runs: {:?}", before.keys());
    crossplane.stop();

    let replica = start_replica(&ground);
    scenario.install_probe("probe-ferroplane");
    let taken_over = look();
    replica.stop();

    let crossplane = Crossplane::start(&peer, &ground);
    scenario.install_probe("probe-crossplane");
    let given_back = look();
    crossplane.stop();

    let mut changed = changes("Ferroplane takes over", &before, &taken_over);
    changed.extend(changes("Crossplane takes over again", &taken_over, &given_back));
    changed.extend(changes("there and back", &before, &given_back));
    assert!(changed.is_empty(), "{} values have changed:\n{}", changed.len(), changed.join("\n"));
}

#[test]
fn package_of_our_command_line_is_installed_by_crossplane() {
    let Some(peer) = CrossplanePeer::find() else { return };
    let Some(registry) = LocalRegistry::start() else { return };
    let ground = Ground::new();
    let scenario = Scenario::prepare(&ground, &registry);
    let crossplane = Crossplane::start(&peer, &ground);
    scenario.install_built();
    crossplane.stop();
}

/// One side of the comparison.
#[test]
fn packages_are_installed_by_one_side() {
    let (Some(directory), side) = (directory(), side()) else { return };
    if side.is_empty() {
        return;
    }
    let (Some(peer), Some(registry)) = (CrossplanePeer::find(), LocalRegistry::start()) else { return };
    let ground = Ground::new();
    let scenario = Scenario::prepare(&ground, &registry);
    let recorded = if side == "crossplane" {
        let crossplane = Crossplane::start(&peer, &ground);
        let recorded = scenario.play_all();
        crossplane.stop();
        recorded
    } else {
        let replica = start_replica(&ground);
        let recorded = scenario.play_all();
        replica.stop();
        recorded
    };
    std::fs::write(record(&directory, &side), recorded.to_string()).unwrap();
}

/// The comparison itself. Writes the chapter for the documentation.
#[test]
fn both_sides_install_packages_the_same_way() {
    let (Some(directory), true) = (directory(), side().is_empty()) else { return };
    let [theirs, ours] = ["crossplane", "ferroplane"].map(|side| read(&record(&directory, side)));
    let report = Report::of(&theirs, &ours);
    std::fs::write(directory.join("packages.md"), report.chapter()).unwrap();
    println!("{report}");
    report.check();
}

/// The snapshots of a side, by moment.
fn read(path: &Path) -> Vec<(String, Snapshot)> {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let recorded: Value = serde_json::from_slice(&text).unwrap();
    let registry = recorded["registry"].as_str().unwrap();
    let moments = recorded["moments"].as_array().unwrap().iter();
    let moment = |moment: &Value| {
        let objects = moment["objects"].as_array().unwrap().clone();
        let title = moment["title"].as_str().unwrap().to_owned();
        (title, snapshot(objects, Form::Comparison { registry }))
    };
    moments.map(moment).collect()
}

#[test]
fn accepted_differences_of_packages_are_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences.md");
    let page = std::fs::read_to_string(page).unwrap();
    let packages = page.split("\n## ").find(|section| section.starts_with("Packages\n")).unwrap();
    for accepted in ACCEPTED {
        assert!(packages.contains(&format!("`{}`", accepted.name)), "{} is not documented", accepted.name);
    }
}
