//! Runs functions that are written in Starlark. A component of the world in `crates/wasm/wit/function.wit`.
//!
//! The bytes are JSON: `{"run": RunFunctionRequest}` is answered with a RunFunctionResponse, and `{"check": RunFunctionRequest}` with a list of
//! problems, each with `file`, `field`, `line` and `message`. The host keeps an instance for each script, so what is read here once stays read.

mod alphabets;
mod attributes;
mod duration;
mod edits;
mod interpreter;
mod natives;
mod outcome;
mod program;
mod references;
mod script;

use serde_json::{Value, json};

wit_bindgen::generate!({ path: "../../crates/wasm/wit", world: "function" });

struct Starlark;

impl exports::ferroplane::function::handler::Guest for Starlark {
    fn run(request: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut message: Value = serde_json::from_slice(&request).map_err(|error| error.to_string())?;
        let answer =
            if message["check"].is_null() { run(message["run"].take()) } else { check(&message["check"]) };
        serde_json::to_vec(&answer).map_err(|error| error.to_string())
    }
}

export!(Starlark);

fn log(line: &str) {
    ferroplane::function::log::write(line);
}

/// Runs the script of a request.
fn run(request: Value) -> Value {
    match script::of(&request) {
        Ok(script::Found::Script(script)) => interpreter::run(&script, request),
        Ok(script::Found::Wanted(selectors)) => outcome::wants(&request, selectors),
        Err(problem) => outcome::fatal(&request, &problem),
    }
}

/// Reads the scripts of a request without running them.
fn check(request: &Value) -> Value {
    match script::present(request) {
        Ok(script) => interpreter::check(&script),
        Err(message) => json!([{"message": message}]),
    }
}
