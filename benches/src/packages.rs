//! Packages: the solver, a thousand installed packages at rest, a function of 40 MB from a registry to its first call, and an upgrade under
//! a thousand composite resources.

mod served;

use std::time::Duration;

use ferroplane_api::{Dependency, LockPackage};
use ferroplane_engine::packages::{KnownTags, ResolveOptions, resolve_dependencies};
use ferroplane_testkit::plane::{FakeRegistry, Plane};
use nix::sys::resource::UsageWho;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::measure::{Stopwatch, Times, at_rest, pretty, resident, settle};

const SOLVED: usize = 500;
const INSTALLED: usize = 1000;
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn run() {
    solve();
    rest();
    served::run();
}

/// Packages of which each depends on up to three others, with ten tags each and five hundred that are missing.
fn solve() {
    let source = |number: usize| format!("registry.example.org/org/package-{number}");
    let package = |number: usize| LockPackage {
        name: format!("package-{number}-1"),
        source: source(number),
        version: "v1.4.0".to_owned(),
        dependencies: [number / 2, number / 3, SOLVED + number]
            .into_iter()
            .filter(|other| *other != number)
            .map(|other| Dependency {
                kind: Some("Provider".to_owned()),
                package: source(other),
                constraints: ">=v1.0.0, <v2.0.0".to_owned(),
                ..Dependency::default()
            })
            .collect(),
        ..LockPackage::default()
    };
    let lock: Vec<LockPackage> = (0..SOLVED).map(package).collect();
    let tags: Vec<String> = (0..10).map(|minor| format!("v1.{minor}.0")).collect();
    let known: KnownTags = (0..2 * SOLVED).map(|number| (source(number), Ok(tags.clone()))).collect();
    let options = ResolveOptions { upgrades: true, downgrades: true };
    let found = resolve_dependencies(&lock, &[], &known, options).changes.len();
    let times =
        Times::of(Duration::from_secs(2), || resolve_dependencies(&lock, &[], &known, options).changes.len());
    println!("| solver | best | p50 | p99 |\n|---|---|---|---|");
    println!(
        "| {SOLVED} packages in the Lock, {found} to install | {} | {} | {} |\n",
        pretty(times.best()),
        pretty(times.p50()),
        pretty(times.p99())
    );
}

/// Functions that nothing calls: each has its package and its revision, and nothing runs.
fn rest() {
    Runtime::new().expect("there is a runtime").block_on(async {
        let registry = FakeRegistry::default();
        let _nobody_runs_them = registry.run_functions();
        for number in 0..INSTALLED {
            let package = json!({
                "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Function",
                "metadata": {"name": format!("function-{number}")}, "spec": {},
            });
            registry.push(&image(number), &package.to_string());
        }
        let plane = Plane::with_registry(&registry).await;
        let alone = at_rest(IDLE).await;
        let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
        for number in 0..INSTALLED {
            let function = json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
                "metadata": {"name": format!("function-{number}")}, "spec": {"package": image(number)},
            });
            plane.apply(&format!("/apis/pkg.crossplane.io/v1/functions/function-{number}"), &function).await;
        }
        let revisions = "/apis/pkg.crossplane.io/v1/functionrevisions";
        let is_there = |list: &serde_json::Value| list["items"].as_array().is_some_and(|all| all.len() == INSTALLED);
        plane.until(revisions, is_there).await;
        plane.quiet().await;
        let used = processor.read();
        settle().await;
        plane.writes();
        registry.asked();
        let idle = at_rest(IDLE).await;
        println!("| packages | CPU to install one | resident | CPU in {0} s of rest | CPU in {0} s without packages | writes | requests to registries |", IDLE.as_secs());
        println!("|---|---|---|---|---|---|---|");
        println!(
            "| {INSTALLED} | {} | {} MB | {} | {} | {} | {} |\n",
            pretty(used / u32::try_from(INSTALLED).expect("it is small")),
            resident() / 1_000_000,
            pretty(idle),
            pretty(alone),
            plane.writes().len(),
            registry.asked().len(),
        );
    });
}

fn image(number: usize) -> String {
    format!("registry.example.org/org/function-{number}:v1.0.0")
}
