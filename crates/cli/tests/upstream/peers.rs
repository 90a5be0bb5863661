//! Where upstream's programs are.

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// A peer, if it is installed. Says so if not, or panics where it must be.
pub(crate) fn peer(name: &str) -> Option<PathBuf> {
    let path = directory().join(name);
    if path.exists() {
        return Some(path);
    }
    let words = format!("{name} is not installed; run cargo xtask peers --heavy");
    assert!(env::var_os("FERROPLANE_REQUIRE_HEAVY_PEERS").is_none_or(|value| value != "1"), "{words}");
    say(&format!("skipped: {words}"));
    None
}

/// Tell the process that runs the tests, even when all is well.
pub(crate) fn say(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}

fn directory() -> PathBuf {
    let chosen = env::var_os("FERROPLANE_PEERS").filter(|value| !value.is_empty()).map(PathBuf::from);
    chosen.unwrap_or_else(|| env::home_dir().unwrap_or_default().join(".cache/ferroplane/peers"))
}
