//! The time in which a leader may write.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Practically for ever.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 30);

/// The time in which a replica may write, unless it is extended. Clones are the same term.
#[derive(Debug, Clone)]
pub struct Term(Arc<watch::Sender<Option<Instant>>>);

impl Term {
    /// A term that has not begun.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// The term of a single replica.
    pub fn for_ever() -> Self {
        let term = Self::new();
        term.extend(Instant::now() + FOR_EVER);
        term
    }

    /// Whether writes are allowed now.
    pub fn holds(&self) -> bool {
        // By the clock: a process that was suspended past the end must not write before a timer fires.
        self.0.borrow().is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn extend(&self, until: Instant) {
        self.0.send_replace(Some(until));
    }

    /// End the term: nothing is written from now on.
    pub fn end(&self) {
        self.0.send_replace(None);
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        let mut until = self.0.subscribe();
        while self.holds() {
            let end = until.borrow_and_update().unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                // In this order, and not at random, so that a simulation with one seed always takes the same
                // branch.
                _ = until.changed() => {}
                () = tokio::time::sleep_until(end) => {}
            }
        }
    }
}

impl Default for Term {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn term_ends_by_itself_unless_it_is_extended() {
        let term = Term::new();
        assert!(!term.holds());
        term.ended().await;
        let began = Instant::now();
        term.extend(began + Duration::from_secs(10));
        let waiting = tokio::spawn({
            let term = term.clone();
            async move { term.ended().await }
        });
        tokio::time::sleep(Duration::from_secs(9)).await;
        term.extend(began + Duration::from_secs(20));
        waiting.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 20);
        assert!(!term.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn term_that_is_ended_has_ended() {
        let term = Term::for_ever();
        assert!(term.holds());
        term.end();
        term.ended().await;
        assert!(!term.holds());
    }
}
