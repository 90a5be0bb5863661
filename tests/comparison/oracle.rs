//! The originals: packages of Kubernetes, each in a program of its own that reads questions and writes answers, one JSON
//! object per line.

use std::env;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

/// A peer that runs.
pub(crate) struct Oracle(Child);

impl Oracle {
    /// Starts the peer if it is installed. Says so if not, or panics where it must be.
    pub(crate) fn start(name: &str) -> Option<Self> {
        let path = directory().join(name);
        if !path.exists() {
            let words = format!("{name} is not installed; run cargo xtask peers");
            assert!(env::var_os("FERROPLANE_REQUIRE_PEERS").is_none_or(|value| value != "1"), "{words}");
            say(&format!("skipped: {words}"));
            return None;
        }
        let child = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Some(Self(child))
    }

    /// The answer to each question.
    pub(crate) fn ask(mut self, questions: &[Value]) -> Vec<Value> {
        let mut input = self.0.stdin.take().unwrap();
        let output = BufReader::new(self.0.stdout.take().unwrap());
        let lines: Vec<_> = questions.iter().map(Value::to_string).collect();
        let writer = thread::spawn(move || {
            for line in lines {
                writeln!(input, "{line}").unwrap();
            }
        });
        let answers: Vec<_> =
            output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        writer.join().unwrap();
        assert_eq!(answers.len(), questions.len());
        answers
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tell whoever runs the tests, even when all is well.
pub(crate) fn say(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// The number that a variable of the environment holds.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Whether what the originals say shall be written down anew.
#[allow(dead_code, reason = "not every comparison records answers")]
pub(crate) fn is_recording() -> bool {
    env::var_os("FERROPLANE_UPDATE_GOLDEN").is_some_and(|value| value == "1")
}

/// Where peers are.
pub(crate) fn directory() -> PathBuf {
    let chosen = env::var_os("FERROPLANE_PEERS").filter(|value| !value.is_empty()).map(PathBuf::from);
    chosen.unwrap_or_else(|| env::home_dir().unwrap_or_default().join(".cache/ferroplane/peers"))
}
