//! Waits for Ctrl-C, or for a signal to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Verdict;

/// Signals that tell us to end. From when it is made, none of them ends the process by itself.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Verdict {
        Verdict::Interrupted(tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hang_up.recv() => 1,
        })
    }
}
