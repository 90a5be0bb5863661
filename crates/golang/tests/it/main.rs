//! Go's standard library beside ours: every answer that `tests/go/main.go` recorded is ours, too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cron;
mod yaml;

use std::collections::BTreeMap;

use ferroplane_golang::time::{duration, rfc3339};
use ferroplane_golang::{json, strconv};
use serde_json::{Value, json};

#[test]
fn recorded_answers_are_those_of_go() {
    let mut asked = BTreeMap::new();
    for line in include_str!("answers.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| recorded[name].as_str().unwrap_or_default();
        let (ask, input) = (text("ask"), text("input"));
        assert_eq!(answer(ask, input), said(&recorded), "{ask} of {input:?}");
        *asked.entry(ask.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(asked.len(), 8, "{asked:?}");
}

/// What Go said: a text, a number, or what is wrong.
fn said(recorded: &Value) -> Result<Value, String> {
    match (&recorded["error"], &recorded["number"]) {
        (Value::String(error), _) => Err(error.clone()),
        (_, number @ Value::Number(_)) => Ok(number.clone()),
        _ => Ok(json!(recorded["text"].as_str().unwrap_or_default())),
    }
}

fn answer(ask: &str, input: &str) -> Result<Value, String> {
    let float = || input.parse::<f64>().unwrap();
    Ok(match ask {
        "quote" => json!(strconv::quote(input)),
        "json" => json!(json::marshal(&json!(input))),
        "unquote" => json!(strconv::unquote(input).ok_or("invalid syntax")?),
        "duration" => json!(duration::parse(input)?),
        "time" => json!(rfc3339::parse(input)?.moment.seconds),
        "micro" => json!(rfc3339::parse_micro(input)?.moment.seconds),
        "float" => json!(strconv::format_float(float(), 'g', None)),
        _ => json!(json::float_text(float())),
    })
}
