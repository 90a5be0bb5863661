//! The functions of sprig: what they give, what they may cost, and what the original makes of the same arguments.
//!
//! The comparison asks the peer `text-template`, if it is installed (`cargo xtask peers`), about calls of every function.
//! `FERROPLANE_CASES` says how many of each, `FERROPLANE_SEED` with which number to begin.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arguments;
mod calls;
#[path = "../../../../tests/comparison/dice.rs"]
mod dice;
mod documentation;
mod keys;
mod limits;
#[allow(dead_code, reason = "it is part of several test programs, and not each needs all of it")]
#[path = "../../../../tests/comparison/oracle.rs"]
mod oracle;
mod random;

use std::collections::BTreeMap;

use ferroplane_golang::base64;
use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::time::rfc3339::Moment;
use ferroplane_template::{Budget, Heap, Host, Options, Templates, Value, sprig};
use serde_json::json;

use oracle::{Oracle, number, say};

/// A clock that stands still, and bytes that look random and are always the same.
struct FixedHost(u8);

impl Host for FixedHost {
    fn now(&mut self) -> Option<Moment> {
        Some(Moment { seconds: 1_700_000_000, nanoseconds: 123_456_789 })
    }

    fn random(&mut self, buffer: &mut [u8]) -> bool {
        for byte in buffer {
            self.0 = self.0.wrapping_mul(37).wrapping_add(11);
            *byte = self.0;
        }
        true
    }
}

/// What a template with the functions of sprig gives, or why it gives nothing.
fn rendered(template: &str, data: &serde_json::Value) -> Result<Vec<u8>, String> {
    rendered_within(template, data, Budget::default())
}

fn rendered_within(template: &str, data: &serde_json::Value, budget: Budget) -> Result<Vec<u8>, String> {
    let templates = Templates::parse("t", template, &Options::default(), &sprig::functions());
    let templates = templates.map_err(|error| error.to_string())?;
    let heap = Heap::new();
    let data = Value::from_json(&heap, data, Numbers::AsWritten);
    templates.execute(data, &heap, &mut FixedHost(1), budget).map_err(|error| error.to_string())
}

/// What the original gives.
fn theirs(answer: &serde_json::Value) -> Result<String, String> {
    if let Some(output) = answer["output"].as_str() {
        return Ok(shown(&base64::decode(output.as_bytes()).expect("the peer writes base64")));
    }
    let problem = answer["parse"].as_str().or_else(|| answer["execute"].as_str());
    Err(problem.expect("the peer says what is wrong").to_owned())
}

/// Bytes as text that tells all bytes apart.
fn shown(output: &[u8]) -> String {
    output.escape_ascii().to_string()
}

#[test]
fn calls_give_what_they_give_in_the_original() {
    let Some(oracle) = Oracle::start("text-template") else { return };
    let data = arguments::data();
    let calls = calls::all(number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 60));
    let questions: Vec<_> = calls
        .iter()
        .map(|call| json!({"template": call.template, "name": "t", "data": data, "functions": "sprig"}))
        .collect();
    let answers = oracle.ask(&questions);
    let mut differences = BTreeMap::<&str, Vec<String>>::new();
    let (mut outputs, mut errors) = (0, 0);
    for (call, answer) in calls.iter().zip(&answers) {
        let ours = rendered(&call.template, &data).map(|output| shown(&output));
        let theirs = theirs(answer);
        if theirs.is_ok() {
            outputs += 1;
        } else {
            errors += 1;
        }
        if ours != theirs {
            let difference = format!("{}\n    ours:   {ours:?}\n    theirs: {theirs:?}", call.template);
            differences.entry(call.name).or_default().push(difference);
        }
    }
    say(&format!("{outputs} outputs and {errors} errors of calls compared"));
    let shown: Vec<_> = differences
        .iter()
        .map(|(name, of)| format!("{name}: {} differ\n  {}", of.len(), of[..of.len().min(4)].join("\n  ")))
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}
