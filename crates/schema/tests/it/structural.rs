//! Shows the same definitions and objects to us and to a Kubernetes API server's packages, and tells in what we differ.
//!
//! `recorded.jsonl` holds questions and what the original answered; that comparison always runs. With the peer
//! `kubernetes-structural` installed (`cargo xtask peers`), generated cases are compared too.

mod answer;
mod cases;
mod generate;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::oracle::{self, Oracle, number};

const PEER: &str = "kubernetes-structural";

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/structural/recorded.jsonl")
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
fn parts_are_written_as_in_kubernetes() {
    check("writes to a part", cases::write_part);
}

#[test]
fn rules_are_estimated_as_in_kubernetes() {
    check("rules", cases::cost);
}

#[test]
fn costly_definitions_are_refused_as_in_kubernetes() {
    check("costly definitions", cases::define_costly);
}

#[test]
fn bundles_of_certificates_are_judged_as_in_kubernetes() {
    check("bundles", cases::rebundle);
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
    if oracle::is_recording() {
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
