//! Shows the same patches, selectors, paths, quantities, metadata, tables and errors to us and to Kubernetes' own
//! code, and tells in what we differ.
//!
//! `golden.jsonl` holds what the original said of some questions; that comparison always runs. With the peer
//! `kubernetes-views` installed (`cargo xtask peers`), generated questions of each kind are compared too.

mod answer;
mod generate;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::oracle::{self, Oracle, number};

const PEER: &str = "kubernetes-views";

/// So many of the generated questions of each kind are recorded.
const RECORDED: u64 = 30;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/views")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// What is different, in a form that can be read.
fn differences<'c>(cases: impl Iterator<Item = &'c (Value, Value)>) -> Vec<String> {
    let facts = serde_json::from_str(&read("facts.json")).unwrap();
    let different = |(question, theirs): &(Value, Value)| {
        let ours = answer::answer(question, &facts);
        let is_same = theirs.as_array().unwrap().iter().any(|theirs| answer::agrees(question, &ours, theirs));
        (!is_same).then(|| format!("{question}\n    ours   {ours}\n    theirs {theirs}"))
    };
    cases.filter_map(different).collect()
}

#[test]
fn known_questions_are_answered_as_by_kubernetes() {
    if oracle::is_recording() {
        update_golden();
    }
    let golden = read("golden.jsonl");
    let cases: Vec<(Value, Value)> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() > 400, "golden.jsonl is not complete");
    let differences = differences(cases.iter());
    let count = differences.len();
    assert!(differences.is_empty(), "{count} of {} differ:\n{}", cases.len(), differences.join("\n"));
}

#[test]
fn generated_questions_are_answered_as_by_kubernetes() {
    let Some(oracle) = Oracle::start(PEER) else { return };
    let (seed, cases) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 1000));
    let questions: Vec<_> = generate::KINDS
        .iter()
        .flat_map(|(_, generate)| (seed..seed + cases).map(|seed| generate(&mut Dice::new(seed))))
        .collect();
    let answers = oracle.ask(&questions);
    let cases: Vec<_> = questions.into_iter().zip(answers).collect();
    assert!(cases.iter().all(|(_, answers)| answers.is_array()));
    let mut counts = BTreeMap::new();
    for (question, answers) in &cases {
        let (all, failed, panicked) = counts.entry(question["op"].to_string()).or_insert((0, 0, 0));
        *all += 1;
        *failed += u64::from(answers[0].get("error").is_some());
        *panicked += u64::from(answers[0].get("panic").is_some());
    }
    for (kind, (all, failed, panicked)) in counts {
        oracle::say(&format!("{kind}: {all} questions, {failed} errors, {panicked} panics of the original"));
    }
    let differences = differences(cases.iter());
    let (count, all) = (differences.len(), cases.len());
    oracle::say(&format!("{all} generated questions, {count} answered differently"));
    let shown = differences.iter().take(number("FERROPLANE_SHOWN", 20).try_into().unwrap());
    assert!(differences.is_empty(), "{count} differ:\n{}", shown.cloned().collect::<Vec<_>>().join("\n"));
}

fn update_golden() {
    let oracle = Oracle::start(PEER).expect("recording needs the original");
    let kinds = ["Pod", "Deployment", "Service"];
    let generated = generate::KINDS
        .iter()
        .flat_map(|(_, generate)| (1..=RECORDED).map(|seed| generate(&mut Dice::new(seed))))
        .filter(|question| question.to_string().len() < 10_000);
    let written = read("questions.jsonl");
    let written =
        written.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap());
    let mut questions: Vec<_> = kinds.iter().map(|kind| json!({"op": "facts", "kind": kind})).collect();
    questions.extend(written.chain(generated));
    let mut answers = oracle.ask(&questions);
    let facts: Vec<_> = answers.drain(..kinds.len()).map(|answers| answers[0]["ok"].clone()).collect();
    fs::write(folder().join("facts.json"), format!("{}\n", Value::from(facts))).unwrap();
    let lines =
        questions.into_iter().skip(kinds.len()).zip(answers).map(|case| json!(case).to_string() + "\n");
    fs::write(folder().join("golden.jsonl"), lines.collect::<String>()).unwrap();
}
