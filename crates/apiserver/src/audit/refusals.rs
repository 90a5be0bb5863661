//! Limits the lines of unauthenticated clients.
//!
//! An unauthenticated client that is refused costs the server next to nothing, and could fill the log with thousands of lines a second
//! until those that matter are rotated away. Above a rate their lines are counted instead of written.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// So many lines at once, and so many a second after that: enough to see an attack, and 100 MB last for hours.
const BURST: f64 = 200.0;
const RATE: f64 = 10.0;

/// On a line: how many before it were left out.
pub(super) const OMITTED: &str = "audit.ferroplane.io/omitted-refusals";

#[derive(Debug)]
pub(super) struct RefusalLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    tokens: f64,
    filled: Instant,
    omitted: u64,
}

impl Default for RefusalLimit {
    fn default() -> Self {
        Self(Mutex::new(State { tokens: BURST, filled: Instant::now(), omitted: 0 }))
    }
}

impl RefusalLimit {
    /// How many lines were left out before that of a refusal. Nothing if it gets none either.
    pub(super) fn pass(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earned = (now - state.filled).as_secs_f64() * RATE;
        (state.tokens, state.filled) = ((state.tokens + earned).min(BURST), now);
        if state.tokens < 1.0 {
            state.omitted += 1;
            return None;
        }
        state.tokens -= 1.0;
        Some(std::mem::take(&mut state.omitted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_cannot_fill_the_log() {
        let limit = RefusalLimit::default();
        let written = (0..10_000).filter(|_| limit.pass().is_some()).count();
        assert_eq!(written, 200);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limit.pass(), Some(9_800));
        assert_eq!(limit.pass(), Some(0));
    }
}
