//! Shows the same objects of Kubernetes' own kinds to us and to Kubernetes' packages, and tells in what we differ.
//!
//! `recorded.jsonl` holds questions and what the original answered; that comparison always runs. With the peer
//! `kubernetes-kinds` installed (`cargo xtask peers --heavy`), generated objects of all kinds are compared too:
//! `FERROPLANE_CASES` says how many of each, `FERROPLANE_SEED` with which number to begin, and
//! `FERROPLANE_UPDATE_GOLDEN=1` records answers anew.

mod answer;
mod cases;
mod manifests;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::oracle::{self, Oracle, number};

const PEER: &str = "kubernetes-kinds";

/// Makes a question of an object and a seed.
type Make = fn(&Value, u64) -> Value;

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kinds/recorded.jsonl")
}

/// The peer, if it is installed: it is one of those that take minutes to build.
fn start() -> Option<Oracle> {
    let is_required = std::env::var_os("FERROPLANE_REQUIRE_HEAVY_PEERS").is_some_and(|value| value == "1");
    if !is_required && !oracle::directory().join(PEER).exists() {
        oracle::say(&format!("skipped: {PEER} is not installed; run cargo xtask peers --heavy"));
        return None;
    }
    Oracle::start(PEER)
}

fn ask(questions: &[Value]) -> Option<Vec<Value>> {
    Some(start()?.ask(questions))
}

/// What is different, in a form that can be read.
fn compare(questions: &[Value], answers: &[Value]) -> Vec<String> {
    assert_eq!(questions.len(), answers.len());
    let pairs = questions.iter().zip(answers);
    pairs.filter_map(|(question, theirs)| answer::difference(question, theirs)).collect()
}

/// Asks for objects of every kind, then about what is made of them.
fn check(what: &str, make: Make) {
    let (seed, count) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 20));
    let Some(questions) = prepare(seed, count, make) else { return };
    let answers = ask(&questions).unwrap();
    let failed = answers.iter().filter(|answer| !answer["failure"].is_null()).count();
    let differences = compare(&questions, &answers);
    let total = questions.len();
    oracle::say(&format!("{total} {what}: {failed} refused, {} different", differences.len()));
    let shown = differences.iter().take(12).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differences.is_empty(), "{} of {total} differ:\n{shown}", differences.len());
}

fn prepare(seed: u64, count: u64, make: Make) -> Option<Vec<Value>> {
    let samples = cases::samples(seed, count);
    let objects = ask(&samples)?;
    let pairs = samples.iter().zip(&objects);
    Some(pairs.map(|(sample, object)| make(&cases::subject(sample, object), cases::seed(sample))).collect())
}

#[test]
fn objects_are_read_and_defaulted_as_in_kubernetes() {
    check("objects", cases::whole);
}

#[test]
fn objects_with_mistakes_are_refused_as_in_kubernetes() {
    check("objects with a mistake", cases::mistaken);
}

#[test]
fn fields_are_those_that_kubernetes_tracks() {
    check("sets of fields", cases::typed);
}

#[test]
fn patches_merge_as_in_kubernetes() {
    check("patches", cases::patched);
}

#[test]
fn mistakes_in_manifests_are_told_as_in_kubernetes() {
    let questions = manifests::questions();
    let Some(answers) = ask(&questions) else { return };
    let differences = compare(&questions, &answers);
    let total = questions.len();
    oracle::say(&format!("{total} manifests: {} different", differences.len()));
    assert!(differences.is_empty(), "{} of {total} differ:\n{}", differences.len(), differences.join("\n\n"));
}

#[test]
fn schemas_are_those_of_kubernetes() {
    let Some(answers) = ask(&[serde_json::json!({"op": "schemas"})]) else { return };
    let (count, differences) = answer::compare_schemas(&answers[0]["schemas"]);
    oracle::say(&format!("{count} schemas: {} different", differences.len()));
    assert!(count > 500);
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n\n"));
}

#[test]
fn recorded_cases_are_treated_as_in_kubernetes() {
    if std::env::var_os("FERROPLANE_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        record();
    }
    let text = fs::read_to_string(recorded()).unwrap();
    let (questions, answers): (Vec<Value>, Vec<Value>) =
        text.lines().map(|line| serde_json::from_str::<(Value, Value)>(line).unwrap()).unzip();
    assert!(questions.len() > 400);
    let differences = compare(&questions, &answers);
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n\n"));
}

fn record() {
    let mut lines = String::new();
    let makers: [(u64, Make); 4] =
        [(1, cases::whole), (4, cases::mistaken), (1, cases::typed), (1, cases::patched)];
    let questions = manifests::questions();
    let answers = ask(&questions).expect("the peer is needed to record its answers");
    let pairs = questions.iter().zip(&answers).filter(|(question, _)| question.to_string().len() < 100_000);
    pairs.for_each(|pair| lines.push_str(&(serde_json::to_string(&pair).unwrap() + "\n")));
    for (index, (count, make)) in makers.into_iter().enumerate() {
        let seed = 1_000_000 * (index as u64 + 1);
        let questions = prepare(seed, count, make).expect("the peer is needed to record its answers");
        let answers = ask(&questions).unwrap();
        for pair in questions.iter().zip(&answers) {
            lines.push_str(&serde_json::to_string(&pair).unwrap());
            lines.push('\n');
        }
    }
    fs::write(recorded(), lines).unwrap();
}
