//! Sends sequences of requests to a real API server and to [`ferroplane_schema::writes`], and tells in what they differ.
//!
//! `recorded.jsonl` holds sequences and what the real server answered; that comparison always runs. Where
//! `FERROPLANE_ORACLE_URL` names a server (`cargo xtask oracle` starts one), generated sequences are compared too:
//! `FERROPLANE_CASES` says how many, `FERROPLANE_SEED` with which number to begin, and `FERROPLANE_RECORD` how many to
//! record anew.

mod difference;
mod generate;
mod names;
mod ours;
mod play;
mod remote;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use remote::Remote;

/// How many sequences share a definition.
const SHARED: u64 = 10;
/// How many definitions are made at once: the server takes seconds to serve a new one, however many there are.
const BATCH: u64 = 20;
/// How long a recorded line may be.
const LONGEST: usize = 27_000;

#[test]
fn recorded_sequences_end_as_the_real_server_ended_them() {
    let recorded = fs::read_to_string(data()).expect("there are recorded answers");
    let mut count = 0;
    for line in recorded.lines() {
        let case: Value = serde_json::from_str(line).expect("a recorded line is JSON");
        for sequence in case["sequences"].as_array().into_iter().flatten() {
            if let Some(difference) = difference::find(&case["definition"], sequence) {
                panic!("recorded sequence {count}: {difference}");
            }
            count += 1;
        }
    }
    assert!(count > 100, "there are only {count} recorded sequences");
}

#[test]
fn generated_sequences_end_as_the_real_server_ends_them() {
    let Some(remote) = Remote::find() else { return };
    let started = Instant::now();
    let (seed, count) = (number("FERROPLANE_SEED", 1), number("FERROPLANE_CASES", 200));
    let mut tally = BTreeMap::<String, usize>::new();
    let (mut steps, mut differences, mut refused) = (0, Vec::new(), 0);
    let definitions = count.div_ceil(SHARED);
    for first in (0..definitions).step_by(usize::try_from(BATCH).unwrap()) {
        let numbers = (first..definitions.min(first + BATCH)).map(|case| seed.wrapping_mul(1_000_003) + case);
        let cases: Vec<_> = numbers.collect();
        for case in play::play(&remote, &cases, SHARED) {
            let case = match case {
                Ok(case) => case,
                Err(why) => {
                    refused += 1;
                    say(&format!("refused: {why}"));
                    continue;
                }
            };
            for sequence in case["sequences"].as_array().into_iter().flatten() {
                for step in sequence.as_array().into_iter().flatten() {
                    steps += 1;
                    *tally.entry(format!("{} {}", step["verb"], step["answer"]["code"])).or_default() += 1;
                }
                differences.extend(difference::find(&case["definition"], sequence));
            }
        }
    }
    say(&format!(
        "{definitions} definitions ({refused} refused), {steps} steps in {:.0} s, {} differences; {tally:?}",
        started.elapsed().as_secs_f64(),
        differences.len()
    ));
    let shown = usize::try_from(number("FERROPLANE_SHOW", 4)).unwrap();
    let shown: Vec<_> = differences.iter().take(shown).cloned().collect();
    assert!(differences.is_empty(), "{} sequences differ:\n{}", differences.len(), shown.join("\n\n"));
}

/// Writes the recorded answers anew if that is asked for.
#[test]
fn answers_are_recorded_anew_if_that_is_asked_for() {
    let count = number("FERROPLANE_RECORD", 0);
    let Some(remote) = Remote::find().filter(|_| count > 0) else { return };
    let mut lines = Vec::new();
    let cases: Vec<_> = (0..count.div_ceil(4)).map(|case| 7_000_000 + case).collect();
    for batch in cases.chunks(usize::try_from(BATCH).unwrap()) {
        let cases = play::play(&remote, batch, 4).into_iter().flatten();
        lines.extend(cases.map(|case| generate::without_run(&case.to_string())));
    }
    // Long ones say no more than short ones.
    lines.retain(|line| line.len() < LONGEST);
    fs::write(data(), lines.join("\n") + "\n").expect("the answers can be written");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/api_server/recorded.jsonl")
}

/// Tell the process that runs the tests, even when all is well.
fn say(words: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{words}");
}
