//! Log lines: readable on a terminal, JSON for programs.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;

/// Writes log lines to standard error from now on. `FERROPLANE_LOG` says how much, or else `usual`: off, error,
/// warn, info, debug, trace.
pub(super) fn start(usual: LevelFilter) {
    let wanted = std::env::var("FERROPLANE_LOG").ok().and_then(|level| level.parse().ok());
    let lines =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(wanted.unwrap_or(usual));
    // Somebody may have asked for lines of their own already, in a test.
    let _ = if std::io::stderr().is_terminal() {
        let is_colourful = std::env::var_os("NO_COLOR").is_none();
        lines.with_target(false).with_ansi(is_colourful).compact().try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
}
