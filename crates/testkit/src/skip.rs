//! Tests that do nothing where something is missing, and the one way to say so.

use std::io::Write as _;

/// Say that a test does nothing here, although it passes, and why.
pub fn skip(why: &str) {
    // Not `eprintln!`: the harness discards what that prints in tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The same for a test that needs containers. Panics where `cargo xtask test` has found that the machine runs them.
#[track_caller]
pub fn skip_containers(why: &str) {
    let insists = std::env::var_os("FERROPLANE_REQUIRE_CONTAINERS").is_some_and(|value| !value.is_empty());
    assert!(!insists, "containers are required here: {why}");
    skip(why);
}
