//! Shows the same definitions and objects to us and to a Kubernetes API server's packages, and tells in what we differ.
//!
//! `recorded.jsonl` holds questions and what the original answered; that comparison always runs. With the peer
//! `kubernetes-structural` installed (`cargo xtask peers`), generated cases are compared too: `FERROPLANE_CASES` says
//! how many, `FERROPLANE_SEED` with which number to begin, and `FERROPLANE_UPDATE_GOLDEN=1` records answers anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answer;
mod cases;
#[path = "../peer/dice.rs"]
mod dice;
mod generate;
#[path = "../peer/oracle.rs"]
mod oracle;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use oracle::Oracle;

const PEER: &str = "kubernetes-structural";

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/structural/recorded.jsonl")
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// What is different, in a form that can be read.
fn compare(questions: &[Value], answers: &[Value]) -> Vec<String> {
    assert_eq!(questions.len(), answers.len());
    questions
        .iter()
        .zip(answers)
        .filter_map(|(question, theirs)| answer::difference(question, theirs))
        .collect()
}

fn check(what: &str, make: fn(u64) -> Value) {
    let Some(oracle) = Oracle::start(PEER) else { return };
    let (seed, count) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 2000));
    let questions: Vec<_> = (seed..seed + count).map(make).collect();
    let answers = oracle.ask(&questions);
    let having = |part: &str| answers.iter().filter(|answer| !answer[part].is_null()).count();
    let (failed, wrong) = (having("failure"), having("errors"));
    let differences = compare(&questions, &answers);
    oracle::say(&format!("{count} {what}: {failed} refused, {wrong} wrong, {} different", differences.len()));
    let shown = differences.iter().take(6).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differences.is_empty(), "{} of {count} differ:\n{shown}", differences.len());
}

#[test]
fn new_objects_are_treated_as_in_kubernetes() {
    check("new objects", cases::create);
}

#[test]
fn updated_objects_are_treated_as_in_kubernetes() {
    check("updated objects", cases::update);
}

#[test]
fn new_definitions_are_judged_as_in_kubernetes() {
    check("new definitions", cases::define);
}

#[test]
fn updated_definitions_are_judged_as_in_kubernetes() {
    check("updated definitions", cases::redefine);
}

#[test]
fn rules_judge_new_objects_as_in_kubernetes() {
    check("new objects with rules", cases::create_ruled);
}

#[test]
fn rules_judge_updated_objects_as_in_kubernetes() {
    check("updated objects with rules", cases::update_ruled);
}

#[test]
fn rules_are_accepted_as_in_kubernetes() {
    check("definitions with rules", cases::define_ruled);
}

#[test]
fn documents_are_those_of_kubernetes() {
    check("documents", cases::publish);
}

#[test]
fn text_is_read_as_in_kubernetes() {
    check("texts", cases::text);
}

#[test]
fn formats_are_those_of_kubernetes() {
    check("formats", cases::format);
}

#[test]
fn recorded_cases_are_treated_as_in_kubernetes() {
    if std::env::var_os("FERROPLANE_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        record();
    }
    let text = fs::read_to_string(recorded()).unwrap();
    let (questions, answers): (Vec<Value>, Vec<Value>) =
        text.lines().map(|line| serde_json::from_str::<(Value, Value)>(line).unwrap()).unzip();
    let differences = compare(&questions, &answers);
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n\n"));
}

fn record() {
    let oracle = Oracle::start(PEER).expect("the peer is needed to record its answers");
    let questions = cases::recorded();
    let answers = oracle.ask(&questions);
    let lines = questions.iter().zip(&answers).map(|pair| serde_json::to_string(&pair).unwrap() + "\n");
    fs::write(recorded(), lines.collect::<String>()).unwrap();
}
