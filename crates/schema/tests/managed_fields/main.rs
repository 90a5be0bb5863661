//! Server-side apply and updates against Kubernetes' own field manager.
//!
//! Recorded answers are checked always. Where the peer `kubernetes-managed-fields` is installed, it is asked about
//! generated sequences of writes, too; `FERROPLANE_CASES` says how many, `FERROPLANE_SEED` which.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answer;
mod dice;
mod generate;
#[path = "../peer/oracle.rs"]
mod oracle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use dice::Dice;
use oracle::Oracle;

const PEER: &str = "kubernetes-managed-fields";

#[test]
fn recorded_sequences_end_as_kubernetes_ended_them() {
    let recorded = std::fs::read_to_string(data("recorded.jsonl")).expect("there are recorded answers");
    let mut count = 0;
    for line in recorded.lines() {
        let case: Value = serde_json::from_str(line).expect("a recorded line is JSON");
        let ours = answer::answer(&case["question"]);
        if let Some(difference) = answer::difference(&ours, &case["answer"]) {
            panic!("recorded case {count}: {difference}\nquestion: {}", case["question"]);
        }
        count += 1;
    }
    assert!(count > 100, "there are only {count} recorded answers");
}

#[test]
fn generated_sequences_end_as_kubernetes_ends_them() {
    let Some(oracle) = Oracle::start(PEER) else { return };
    let cases = number("FERROPLANE_CASES", 500);
    let seed = number("FERROPLANE_SEED", 1);
    let question = |case| generate::question(&mut Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(case)));
    let questions: Vec<_> = (0..cases).map(question).collect();
    let answers = oracle.ask(&questions);
    let mut differences = 0;
    let mut steps = 0;
    let mut ends = BTreeMap::<&str, usize>::new();
    for (case, (question, theirs)) in questions.iter().zip(&answers).enumerate() {
        let ours = answer::answer(question);
        steps += question["steps"].as_array().map_or(1, Vec::len);
        for step in theirs["steps"].as_array().into_iter().flatten() {
            *ends.entry(answer::end(step)).or_default() += 1;
        }
        if theirs.get("steps").is_none() {
            let is_answered = theirs.get("error").is_none() && theirs.get("problem").is_none();
            *ends.entry(if is_answered { "parts" } else { "invalid parts" }).or_default() += 1;
        }
        if let Some(difference) = answer::difference(&ours, theirs) {
            differences += 1;
            if differences <= number("FERROPLANE_SHOW", 3) {
                eprintln!("case {case}: {difference}\nquestion: {question}\n");
            }
        }
    }
    oracle::say(&format!("{cases} sequences, {steps} steps, {differences} differences; {ends:?}"));
    assert_eq!(differences, 0);
}

/// Writes the recorded answers anew:
/// `FERROPLANE_RECORD=250 cargo test -p ferroplane-schema --test managed_fields answers_are_written`.
#[test]
fn answers_are_written_anew_if_that_is_asked_for() {
    let count = number("FERROPLANE_RECORD", 0);
    if count == 0 {
        return;
    }
    let oracle = Oracle::start(PEER).expect("the peer `kubernetes-managed-fields` is installed");
    // Some will be too long: ask more than are kept.
    let questions = (0..4 * count).map(|case| generate::question(&mut Dice::new(7_000_000 + case)));
    let questions: Vec<_> = questions.collect();
    let answers = oracle.ask(&questions);
    let cases = questions.iter().zip(answers);
    let cases = cases.map(|(question, answer)| json!({"question": question, "answer": answer}).to_string());
    // Long ones say no more than short ones.
    let short = cases.filter(|case| case.len() < 9_000);
    let lines: Vec<_> = short.take(usize::try_from(count).unwrap_or_default()).collect();
    std::fs::write(data("recorded.jsonl"), lines.join("\n") + "\n").expect("the answers can be written");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/managed_fields").join(name)
}
