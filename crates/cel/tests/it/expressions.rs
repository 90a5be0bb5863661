//! Shows the same expressions to us and to a Kubernetes API server's environment, and tells in what we differ.
//!
//! `golden.jsonl` holds what the original said of every line of `expressions.txt`; that comparison always runs.
//! With the peer `kubernetes-cel` installed (`cargo xtask peers`), generated expressions are compared too.

mod answer;
mod generate;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::oracle::{self, Oracle, number};
use answer::{Answer, answer};

const PEER: &str = "kubernetes-cel";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/expressions")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

fn variables() -> Value {
    serde_json::from_str(&read("variables.json")).unwrap()
}

fn expressions() -> Vec<String> {
    let text = read("expressions.txt");
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")).map(str::to_owned).collect()
}

/// What is different, in a form that can be read.
fn compare(cases: impl Iterator<Item = (String, Answer)>) -> (usize, Vec<String>) {
    let variables = variables();
    let (mut count, mut differences) = (0, Vec::new());
    for (expression, theirs) in cases {
        count += 1;
        let ours = answer(&expression, &variables);
        if let Some(difference) = ours.difference(&theirs) {
            differences.push(format!("{expression}\n    {difference}"));
        }
    }
    (count, differences)
}

#[test]
fn known_expressions_evaluate_as_in_kubernetes() {
    if oracle::is_recording() {
        update_golden();
    }
    let golden = read("golden.jsonl");
    let cases = golden.lines().map(|line| {
        let (expression, answer): (String, Answer) = serde_json::from_str(line).unwrap();
        (expression, answer)
    });
    let (count, differences) = compare(cases);
    assert_eq!(count, expressions().len(), "golden.jsonl is not up to date");
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn generated_expressions_evaluate_as_in_kubernetes() {
    let Some(oracle) = Oracle::start(PEER) else { return };
    let (seed, cases) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 4000));
    let variables = variables();
    let expressions: Vec<_> = (seed..seed + cases).map(generate::expression).collect();
    let answers = ask(oracle, &expressions, &variables);
    let failed = answers.iter().filter(|answer| answer.error.is_some()).count();
    let refused = answers.iter().filter(|answer| answer.compile.is_some()).count();
    let (count, differences) = compare(expressions.into_iter().zip(answers));
    oracle::say(&format!(
        "{count} generated expressions: {refused} refused, {failed} failed, {} different",
        differences.len()
    ));
    let shown = differences.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {count} differ:\n{shown}", differences.len());
}

/// What the original says of each expression.
fn ask(oracle: Oracle, expressions: &[String], variables: &Value) -> Vec<Answer> {
    let question = |expression: &String| json!({"expression": expression, "variables": variables});
    let questions: Vec<_> = expressions.iter().map(question).collect();
    oracle.ask(&questions).into_iter().map(|answer| serde_json::from_value(answer).unwrap()).collect()
}

fn update_golden() {
    let oracle = Oracle::start(PEER).expect("the peer is needed to write golden.jsonl");
    let expressions = expressions();
    let answers = ask(oracle, &expressions, &variables());
    let lines = expressions.iter().zip(&answers).map(|pair| serde_json::to_string(&pair).unwrap() + "\n");
    fs::write(folder().join("golden.jsonl"), lines.collect::<String>()).unwrap();
}
