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
mod peers;
mod seen;
mod shrink;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::path::PathBuf;

use tokio::task::JoinSet;

use crate::compare::{Comparison, Engines};
use crate::engine::Engine;

/// How many cases are compared at once.
const AT_ONCE: u64 = 2;
/// How many cases that differ are shrunk and shown.
const SHOWN: usize = 3;

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
    let results: BTreeMap<_, _> = comparing.join_all().await.into_iter().flatten().collect();

    let failed: Vec<_> =
        results.iter().filter(|(_, comparison)| !comparison.differences.is_empty()).collect();
    peers::say(&summary(&results));
    if !failed.is_empty() {
        panic!("{}", explanation(&engines, &failed).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossplane_render_does_not_notice_the_engine() {
    let (Some(command_line), Some(crossplane)) = (peers::peer("crossplane-cli"), peers::peer("crossplane"))
    else {
        return;
    };
    for scenario in command_line::scenarios() {
        let name = scenario.name;
        let stage = scenario.set().await;
        let theirs = stage.render_with(&command_line, &crossplane).await;
        let ours = stage.render_with(&command_line, &ferroplane().0).await;
        let said = String::from_utf8_lossy(&ours.stderr);
        assert_eq!(theirs.stdout.is_empty(), name == "fatal result", "{name}: {}", text(&theirs.stderr));
        assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{name}: {said}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ferroplane_render_prints_what_crossplane_render_does() {
    let (Some(command_line), Some(crossplane)) = (peers::peer("crossplane-cli"), peers::peer("crossplane"))
    else {
        return;
    };
    for scenario in command_line::scenarios() {
        let name = scenario.name;
        let stage = scenario.set().await;
        let theirs = stage.render_with(&command_line, &crossplane).await;
        let ours = stage.render(&ferroplane().0, &["--hide-deletions".to_owned()]).await;
        let said = String::from_utf8_lossy(&ours.stderr);
        assert_eq!(ours.status.success(), theirs.status.success(), "{name}: {said}");
        // After a fatal result, only Ferroplane prints what is known.
        if theirs.status.success() {
            assert_eq!(documents(&ours.stdout), documents(&theirs.stdout), "{name}: {said}");
        }
    }
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

fn summary(results: &BTreeMap<u64, Comparison>) -> String {
    let mut kinds = BTreeMap::new();
    for kind in results.values().flat_map(|comparison| &comparison.deliberate) {
        *kinds.entry(format!("{kind:?}")).or_insert(0) += 1;
    }
    let unexplained: usize = results.values().map(|comparison| comparison.differences.len()).sum();
    let deliberate: usize = kinds.values().sum();
    let kinds: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    format!(
        "{} cases, {} differences, {deliberate} deliberate ({})",
        results.len(),
        unexplained + deliberate,
        kinds.join(", ")
    )
}

async fn explanation(engines: &Engines, failed: &[(&u64, &Comparison)]) -> String {
    let mut text = format!("{} cases differ\n", failed.len());
    for (seed, comparison) in failed {
        let _ = writeln!(text, "FERROPLANE_SEED={seed}");
        for difference in comparison.differences.iter().take(6) {
            let _ = writeln!(text, "  {difference}");
        }
        let [ours, theirs] = &comparison.words;
        let _ = writeln!(text, "  ferroplane said: {ours}\n  crossplane said: {theirs}");
    }
    for (seed, _) in failed.iter().take(SHOWN) {
        let case = generate::case(**seed);
        let comparison = engines.compare(&case).await.expect("it was compared before");
        let (case, comparison) = shrink::shrink(engines, case, comparison).await;
        let _ = writeln!(text, "\nThe least of FERROPLANE_SEED={seed} FERROPLANE_CASES=1:\n{case}");
        for difference in &comparison.differences {
            let _ = writeln!(text, "  {difference}");
        }
        let [ours, theirs] = &comparison.words;
        let _ = writeln!(text, "  ferroplane said: {ours}\n  crossplane said: {theirs}");
    }
    text
}
