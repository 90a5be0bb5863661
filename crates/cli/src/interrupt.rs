//! Waits for somebody to press Ctrl-C or to tell us to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::Verdict;

/// Wait for a signal to end. Whatever runs beside it is dropped then, and cleans up after itself.
pub(crate) async fn interrupted() -> io::Result<Verdict> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let number = tokio::select! {
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
        _ = hang_up.recv() => 1,
    };
    Ok(Verdict::Interrupted(number))
}
