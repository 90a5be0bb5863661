//! Stored formats keep their promise: what an earlier release wrote opens, and what a later release wrote is refused and left as it is.
//!
//! `tests/fixtures/formats/README.md` says what the fixtures are and how one is added.

mod fixture;
mod newer;
mod older;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::plane::ferroplane;
use crate::sandbox::Ran;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs a command on the data directory `data` below a directory.
fn run(directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = ferroplane(directory, arguments);
    command.env("FERROPLANE_DATA_DIR", "data");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap().into()
}

/// Waits until a line of the recordings of a composite resource contains these words.
fn until_recorded(directory: &Path, xr: &str, words: &str) -> String {
    let began = Instant::now();
    loop {
        let listed = run(directory, &["replay", "list", xr]).stdout;
        if let Some(line) = listed.lines().find(|line| line.contains(words)) {
            return line.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{words:?} is not in {listed}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
