//! Log lines: readable on a terminal, JSON for programs.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;

/// Writes log lines to standard error from now on. `FERROPLANE_LOG` says how much, or else `usual`: off, error,
/// warn, info, debug, trace.
pub(super) fn start(usual: LevelFilter) {
    start_as(usual, std::io::stderr().is_terminal());
}

/// The same, for people or for programs.
pub(crate) fn start_as(usual: LevelFilter, is_for_people: bool) {
    let wanted = std::env::var("FERROPLANE_LOG").ok().and_then(|level| level.parse().ok());
    let lines =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(wanted.unwrap_or(usual));
    // Somebody may have asked for lines of their own already, in a test.
    let _ = if is_for_people {
        let is_colourful = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        lines.with_target(false).with_ansi(is_colourful).compact().try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
}
