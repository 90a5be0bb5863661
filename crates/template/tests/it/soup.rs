//! Templates of all words of the language end within their budget: with their output, and with the memory that the process takes.
//!
//! `FERROPLANE_CASES` says how many there are, `FERROPLANE_SEED` with which number to begin.

mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::{env, fs};

use crate::dice::Dice;
use crate::oracle::{number, say};
use words::{BUDGET, Words};

const NAME: &str = "soup::templates_of_all_words_end_within_their_budget";
/// Set for the process that executes the templates. It does nothing else, so that the memory that it takes is theirs.
const ALONE: &str = "FERROPLANE_SOUP_ALONE";
/// How much more memory the process may take than one template: values are copied while they are made, expressions are compiled.
const GROWTH: u64 = 64;

#[test]
fn templates_of_all_words_end_within_their_budget() {
    if env::var_os(ALONE).is_some() {
        return execute_all();
    }
    let mut program = Command::new(env::current_exe().unwrap());
    let output = program.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
}

fn execute_all() {
    let (words, before) = (Words::new(), peak());
    let first = number("FERROPLANE_SEED", 1);
    let (mut outputs, mut mistakes, mut exhausted) = (0, 0, 0);
    for seed in first..first + number("FERROPLANE_CASES", 600) {
        let mut dice = Dice::new(seed);
        let text = words.template(&mut || dice.below(usize::MAX));
        let ran = catch_unwind(AssertUnwindSafe(|| words.run(&text)));
        match ran.unwrap_or_else(|_| panic!("seed {seed}: {text}")) {
            None => {}
            Some(Ok(_)) => outputs += 1,
            Some(Err(error)) if error.exhausted.is_some() => exhausted += 1,
            Some(Err(_)) => mistakes += 1,
        }
        let grown = peak().saturating_sub(before);
        assert!(grown <= GROWTH * BUDGET.memory, "seed {seed} took {grown} bytes: {text}");
    }
    say(&format!("{outputs} outputs, {mistakes} mistakes and {exhausted} templates that were stopped"));
    assert!(outputs > 0 && mistakes > 0 && exhausted > 0, "the templates are all of one kind");
}

/// The most memory that the process has taken so far, in bytes; zero where the kernel does not count it.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
