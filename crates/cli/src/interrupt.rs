//! Waits for Ctrl-C, or for a signal to stop.

use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Verdict;

/// Signals that tell us to end. From when it is made, none of them ends the process by itself.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// None if the process was started to outlive its terminal.
    hang_up: Option<Signal>,
}

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        let hang_up = SignalKind::hangup();
        // `nohup` has it ignored, and to listen for it would undo that.
        let is_ignored = is_ignored(hang_up);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if is_ignored { None } else { Some(signal(hang_up)?) },
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Verdict {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => pending().await,
            }
        };
        Verdict::Interrupted(tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = hang_up => 1,
        })
    }
}

/// Whether this process ignores a signal. Where there is no `/proc`, it is taken to ignore none: to ask the system takes unsafe code.
fn is_ignored(signal: SignalKind) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignored_in(&status, signal))
}

fn ignored_in(status: &str, signal: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal.as_raw_value() - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_a_mask() {
        let status = |mask: &str| format!("Name:\tferroplane\nSigBlk:\tffffffffffffffff\nSigIgn:\t{mask}\n");
        assert!(ignored_in(&status("0000000000001001"), SignalKind::hangup()));
        assert!(!ignored_in(&status("0000000000001001"), SignalKind::terminate()));
        assert!(!ignored_in(&status("0000000000001000"), SignalKind::hangup()));
        assert!(!ignored_in("", SignalKind::hangup()));
    }
}
