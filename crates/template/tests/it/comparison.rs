//! Generated templates give what Go's own package gives, bytes and messages alike.
//!
//! What differs on purpose, and is therefore not generated:
//! * Depth: parentheses, blocks and templates that call each other are nested less deeply than in Go, whose stack grows.
//! * Variables: at most a thousand are declared in one place.
//! * Budgets: a template that does not end, or that makes or writes too much, is stopped. Go continues.
//! * A value that contains itself is an error when it is printed. It ends a program in Go.
//! * `slice` of a list up to its capacity: lists here have no room behind their end, so that no nils appear there.
//! * `%p` of lists and maps: addresses are always the same here.

use ferroplane_golang::base64;
use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{Budget, Functions, Heap, MissingKey, NoHost, Options, Templates, Value};
use serde_json::json;

use crate::functions::FUNCTIONS;
use crate::generator::{Case, case};
use crate::oracle::{Oracle, number, say};

/// What a template gives: its output, or why there is none.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Output(String),
    Parse(String),
    Execute(String),
}

fn ours(case: &Case) -> Outcome {
    let missing_key = MissingKey::parse(&format!("missingkey={}", case.missing_key));
    let options =
        Options { delimiters: case.delimiters, missing_key: missing_key.unwrap_or(MissingKey::Invalid) };
    let functions = Functions::builtin().with(FUNCTIONS);
    let templates = match Templates::parse("name", &case.template, &options, &functions) {
        Ok(templates) => templates,
        Err(error) => return Outcome::Parse(error.to_string()),
    };
    let heap = Heap::new();
    let data = Value::from_json(&heap, &case.data, Numbers::AsWritten);
    match templates.execute(data, &heap, &mut NoHost, Budget::default()) {
        Ok(output) => Outcome::Output(shown(&output)),
        Err(error) => Outcome::Execute(error.to_string()),
    }
}

/// Bytes as text that tells all bytes apart.
fn shown(output: &[u8]) -> String {
    output.escape_ascii().to_string()
}

fn question(case: &Case) -> serde_json::Value {
    json!({
        "template": case.template, "name": "name", "data": case.data, "functions": "test",
        "left": case.delimiters.0, "right": case.delimiters.1, "missingkey": case.missing_key,
    })
}

fn theirs(answer: &serde_json::Value) -> Outcome {
    let text = |key: &str| answer[key].as_str().map(str::to_owned);
    if let Some(output) = text("output") {
        let bytes = base64::decode(output.as_bytes()).expect("the peer writes base64");
        return Outcome::Output(shown(&bytes));
    }
    text("parse").map(Outcome::Parse).or_else(|| text("execute").map(Outcome::Execute)).unwrap()
}

#[test]
fn generated_templates_give_what_they_give_in_go() {
    let Some(oracle) = Oracle::start("text-template") else { return };
    let (seed, count) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 20_000));
    let cases: Vec<_> = (seed..seed + count).map(case).collect();
    let answers = oracle.ask(&cases.iter().map(question).collect::<Vec<_>>());
    let (mut outputs, mut parse_errors, mut execute_errors) = (0, 0, 0);
    let mut differences = Vec::new();
    for ((case, answer), seed) in cases.iter().zip(&answers).zip(seed..) {
        let (ours, theirs) = (ours(case), theirs(answer));
        match &theirs {
            Outcome::Output(_) => outputs += 1,
            Outcome::Parse(_) => parse_errors += 1,
            Outcome::Execute(_) => execute_errors += 1,
        }
        if ours != theirs {
            differences.push(format!("seed {seed}: {case:?}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
    }
    say(&format!(
        "{outputs} outputs, {parse_errors} parse errors, {execute_errors} execution errors compared"
    ));
    let shown = differences.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {count} differ:\n{shown}", differences.len());
    assert!(
        outputs * 4 > count && parse_errors * 20 > count && execute_errors * 5 > count,
        "the cases are lopsided"
    );
}
