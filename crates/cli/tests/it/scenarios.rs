//! The scenarios of `tests/scenarios`, each against a control plane of its own, with `kubectl`.
//!
//! Their steps and checks are those of Crossplane's end-to-end tests (`test/e2e` of v2.4.0), which makes this the nearest we come to
//! running the tests of the people that our users come from.

use std::path::Path;

use crate::peers::peer;
use crate::plane::Plane;

/// Where the scripts and their manifests are.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios");

/// Runs the script of one scenario, and ends with what it said if it fails.
fn run(name: &str) {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::find();
    let said = plane.says(&format!("sh {DIRECTORY}/run {name}"));
    assert!(said.contains("---"), "the scenario {name} has no steps: {said}");
}

macro_rules! scenarios {
    ($($test:ident: $directory:literal,)*) => {
        const ALL: &[&str] = &[$($directory),*];

        $(
            #[test]
            fn $test() {
                run($directory);
            }
        )*
    };
}

scenarios! {
    basic_cluster: "basic-cluster",
    basic_namespaced: "basic-namespaced",
    bind_existing: "bind-existing",
    circuit_breaker: "circuit-breaker",
    claim: "claim",
    composition_selection: "composition-selection",
    composition_validation: "composition-validation",
    definition_validation: "definition-validation",
    environment: "environment",
    follows_revisions: "follows-revisions",
    namespaced_composes_cluster: "namespaced-composes-cluster",
    referenceable_version: "referenceable-version",
    removed_fields: "removed-fields",
    scale: "scale",
    usage_cluster: "usage-cluster",
    usage_composed: "usage-composed",
    usage_legacy: "usage-legacy",
    usage_namespaced: "usage-namespaced",
}

#[test]
fn every_scenario_is_run() {
    let entries = std::fs::read_dir(Path::new(DIRECTORY)).unwrap().map(|entry| entry.unwrap());
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ALL);
}
