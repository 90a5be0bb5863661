//! Server-side apply and updates against Kubernetes' own field manager.
//!
//! Recorded answers are checked always. Where the peer `kubernetes-managed-fields` is installed, it is asked about
//! generated sequences of writes, too.

mod answer;
mod generate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::oracle::{self, Oracle, number};

const PEER: &str = "kubernetes-managed-fields";

/// So many sequences are recorded.
const RECORDED: usize = 260;

#[test]
fn recorded_sequences_end_as_kubernetes_ended_them() {
    if oracle::is_recording() {
        record();
    }
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

fn record() {
    let oracle = Oracle::start(PEER).expect("the peer is needed to record its answers");
    // Some will be too long: ask more than are kept.
    let seeds = 7_000_000..7_000_000 + 4 * RECORDED as u64;
    let questions: Vec<_> = seeds.map(|seed| generate::question(&mut Dice::new(seed))).collect();
    let answers = oracle.ask(&questions);
    let cases = questions.iter().zip(answers);
    let cases = cases.map(|(question, answer)| json!({"question": question, "answer": answer}).to_string());
    // Long ones say no more than short ones.
    let lines: Vec<_> = cases.filter(|case| case.len() < 9_000).take(RECORDED).collect();
    std::fs::write(data("recorded.jsonl"), lines.join("\n") + "\n").expect("the answers can be written");
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/managed_fields").join(name)
}
