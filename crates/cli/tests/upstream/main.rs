//! Shows the same things to Ferroplane and to Crossplane, and tells in what they differ.
//!
//! Needs the heavy peers (`cargo xtask peers --heavy`). `FERROPLANE_CASES` says how many cases are made,
//! `FERROPLANE_SEED` with which number to begin: a case that fails is made again by its number alone.

mod case;
mod command_line;
mod compare;
mod deliberate;
mod dice;
mod engine;
mod function;
mod generate;
mod kinds;
mod operations;
mod peers;
mod report;
mod seen;
mod shrink;
mod validate;

use std::env;
use std::path::PathBuf;

use tokio::task::JoinSet;

use crate::compare::{Comparison, Engines};
use crate::engine::Engine;
use crate::report::Report;

/// How many cases are compared at once.
const AT_ONCE: u64 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engine_agrees_with_crossplane() {
    let Some(crossplane) = peers::peer("crossplane") else { return };
    let engines = Engines { ours: ferroplane(), theirs: Engine(crossplane) };
    let (seed, cases) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 150));

    let mut comparing = JoinSet::new();
    for offset in 0..AT_ONCE {
        let engines = engines.clone();
        let seeds = (seed + offset..seed + cases).step_by(usize::try_from(AT_ONCE).expect("it is small"));
        comparing.spawn(compare_all(engines, seeds));
    }
    let report = Report(comparing.join_all().await.into_iter().flatten().collect());
    peers::say(&report.to_string());
    if let Some(unexplained) = report.unexplained(&engines).await {
        panic!("{unexplained}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_are_rendered_as_crossplane_renders_them() {
    let Some(crossplane) = peers::peer("crossplane") else { return };
    let engines = Engines { ours: ferroplane(), theirs: Engine(crossplane) };
    let (seed, cases) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 150));
    let mut summary = operations::Summary::default();
    for seed in seed..seed + cases {
        summary.add(&operations::Case::generate(seed), &engines).await;
    }
    peers::say(&summary.to_string());
    summary.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossplane_render_does_not_notice_the_engine() {
    let Some((command_line, crossplane)) = peers::peer("crossplane-cli").zip(peers::peer("crossplane"))
    else {
        return;
    };
    for scenario in command_line::scenarios() {
        let name = scenario.name;
        let stage = scenario.set().await;
        let theirs = stage.render_with(&command_line, &crossplane).await;
        let ours = stage.render_with(&command_line, &ferroplane().0).await;
        assert_eq!(theirs.stdout.is_empty(), name == "fatal result", "{name}: {}", text(&theirs.stderr));
        assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{name}: {}", text(&ours.stderr));
        assert_eq!(ours.status.code(), theirs.status.code(), "{name}: {}", text(&ours.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ferroplane_render_prints_what_crossplane_render_does() {
    let Some((command_line, crossplane)) = peers::peer("crossplane-cli").zip(peers::peer("crossplane"))
    else {
        return;
    };
    for scenario in command_line::scenarios() {
        let name = scenario.name;
        let stage = scenario.set().await;
        let theirs = stage.render_with(&command_line, &crossplane).await;
        let ours = stage.render(&ferroplane().0, &["--hide-deletions".to_owned()]).await;
        assert_eq!(ours.status.success(), theirs.status.success(), "{name}: {}", text(&ours.stderr));
        // After a fatal result, only Ferroplane prints what is known.
        if theirs.status.success() {
            assert_eq!(documents(&ours.stdout), documents(&theirs.stdout), "{name}");
        }
    }
}

#[test]
fn kinds_are_those_of_crossplane_but_for_what_is_listed() {
    let Some(definitions) = kinds::definitions() else {
        peers::say(
            "skipped: the sources of Crossplane are not there; `cargo xtask peers --heavy` gets them\n",
        );
        return;
    };
    let found = kinds::differences(&definitions);
    // See the section on kinds in docs/differences.md.
    let ours = [
        "functionRef.version",
        "functionRevisionRef",
        "inputRef",
        "functionRevisionSelector",
        "pipeline.x-kubernetes-validations",
    ];
    let modes = [
        "mode.default",
        "mode.enum",
        "spec.environment",
        "spec.functions",
        "spec.patchSets",
        "spec.publishConnectionDetailsWithStoreConfigRef",
        "spec.resources",
    ];
    let is_listed = |path: &&String| {
        let is_composition = path.starts_with("Composition.") || path.starts_with("CompositionRevision.");
        ours.iter().any(|end| path.ends_with(end))
            || (is_composition && modes.iter().any(|end| path.ends_with(end)))
            || ["Composition.spec.x-kubernetes-validations", "CompositionRevision.status.warnings"]
                .contains(&path.as_str())
            || path.ends_with(".spec.activeRevisionLimit")
            || ["Function.spec.x-kubernetes-validations"].contains(&path.as_str())
            || ["code", "step", "resource"]
                .iter()
                .any(|end| path.ends_with(&format!("status.conditions.{end}")))
            || *path == "Composition.versions.v2alpha1"
            || ["startDeadline", "suspend", "timeZone"]
                .iter()
                .any(|field| **path == format!("CronOperation.spec.{field}"))
            || [
                "spec.startDeadline",
                "spec.startingDeadlineSeconds",
                "spec.suspend",
                "spec.watch.fields",
                "status.handled",
            ]
            .iter()
            .any(|field| **path == format!("WatchOperation.{field}"))
            || path.ends_with("operationTemplate.metadata")
            || (path.contains("Operation.")
                && ["activeDeadlineSeconds", "attemptDeadlineSeconds"].iter().any(|end| path.ends_with(end)))
            || ["Operation.status.startTime", "Operation.status.interruptions"].contains(&path.as_str())
            || path.ends_with("Revision.status.verification")
            // As the design of operations writes them.
            || ["Operation.status.mutatedResources", "CronOperation.status.active", "WatchOperation.status.active"]
                .contains(&path.as_str())
            || (path.contains("Operation.") && path.ends_with("input.x-kubernetes-embedded-resource"))
            || path.starts_with("DeploymentRuntimeConfig.spec.deploymentTemplate.spec")
    };
    let unlisted: Vec<_> = found.iter().filter(|path| !is_listed(path)).collect();
    assert!(unlisted.is_empty(), "{unlisted:#?}");
}

#[test]
fn validation_agrees_with_crossplanes() {
    let Some(command_line) = peers::peer("crossplane-cli") else { return };
    let differences = validate::compare(&ferroplane().0, &command_line);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it prints text")
}

fn documents(yaml: &[u8]) -> Vec<serde_json::Value> {
    serde_saphyr::from_multiple(text(yaml)).expect("it prints YAML")
}

fn ferroplane() -> Engine {
    Engine(PathBuf::from(env!("CARGO_BIN_EXE_ferroplane")))
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().map_or(default, |text| text.parse().expect("it is a number"))
}

async fn compare_all(engines: Engines, seeds: impl Iterator<Item = u64>) -> Vec<(u64, Comparison)> {
    let mut results = Vec::new();
    for seed in seeds {
        let comparison = engines.compare(&generate::case(seed)).await.expect("a generated case is a request");
        results.push((seed, comparison));
    }
    results
}
