//! Waits while the API server does not answer a command that follows an object, for a bounded time.

use std::time::Duration;

use tokio::time::Instant;

use crate::terminal::Terminal;

/// How long the API server may give no answer. A restart takes less, on most clusters.
const LONGEST: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// How often a command that waits says so.
const NEWS: Duration = Duration::from_secs(5);

/// Follows whether the API server answers, while a command follows an object.
#[derive(Debug)]
pub(crate) struct Outage {
    /// The object, as in ``Operation `name` ``.
    subject: String,
    /// When the command gives up, whether the API server answers or not.
    deadline: Instant,
    silence: Option<Silence>,
}

/// The time since the last answer.
#[derive(Debug, Clone, Copy)]
struct Silence {
    since: Instant,
    pause: Duration,
    told: Instant,
}

impl Outage {
    pub(crate) fn new(subject: String, deadline: Instant) -> Self {
        Self { subject, deadline, silence: None }
    }

    /// Whether the API server did not answer the last request.
    pub(crate) fn lasts(&self) -> bool {
        self.silence.is_some()
    }

    /// Note that the API server has answered.
    pub(crate) fn end(&mut self, terminal: &mut Terminal) {
        if let Some(silence) = self.silence.take() {
            let seconds = silence.since.elapsed().as_secs();
            terminal.note(&format!("the API server answers again, after {seconds}s"));
        }
    }

    /// Wait before the next try. Returns the error if another try is of no use, or if there was no answer for too long.
    pub(crate) async fn wait(&mut self, error: anyhow::Error, terminal: &mut Terminal) -> anyhow::Result<()> {
        if !is_outage(&error) {
            return Err(error);
        }
        let (now, is_first) = (Instant::now(), self.silence.is_none());
        let silence = self.silence.get_or_insert(Silence { since: now, pause: FIRST_PAUSE, told: now });
        let end = self.deadline.min(silence.since + LONGEST);
        let lasted = now.duration_since(silence.since).as_secs();
        if now >= end {
            return Err(error.context(format!(
                "cannot follow {}, which may still run: the API server has not answered for {lasted}s",
                self.subject
            )));
        }
        let left = end.duration_since(now);
        if is_first {
            let (cause, seconds) = (error.root_cause(), left.as_secs());
            terminal.warn(&format!("the API server does not answer: {cause}; trying again for {seconds}s"));
        } else if now.duration_since(silence.told) >= NEWS {
            silence.told = now;
            terminal.note(&format!("the API server has not answered for {lasted}s; trying again"));
        }
        let pause = silence.pause.min(left);
        silence.pause = (silence.pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Whether a request failed because the API server was not there, or not able to answer.
fn is_outage(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<ferroplane_client::Error>();
    failure.is_some_and(|failure| failure.is_inconclusive() || failure.code() == Some(429))
}

#[cfg(test)]
mod tests {
    use ferroplane_client::{Error, StatusError};

    use super::*;

    fn unreachable() -> anyhow::Error {
        anyhow::Error::from(Error::timeout()).context("cannot list events").context("cannot follow")
    }

    fn refused(code: u16) -> anyhow::Error {
        Error::Refused(StatusError { code, ..StatusError::default() }).into()
    }

    #[test]
    fn only_a_server_that_cannot_answer_is_asked_again() {
        assert!(is_outage(&unreachable()));
        assert!([429, 500, 503, 504].into_iter().all(|code| is_outage(&refused(code))));
        assert!(![400, 401, 403, 404, 409, 422].into_iter().any(|code| is_outage(&refused(code))));
        assert!(!is_outage(&anyhow::anyhow!("there is no ActionSet `a`")));
    }

    #[tokio::test]
    async fn outage_that_lasts_too_long_is_an_error_of_its_own() {
        let mut terminal = Terminal::new();
        let over = Instant::now();
        let mut outage = Outage::new("Operation `o`".to_owned(), Instant::now() + Duration::from_mins(1));
        outage.wait(unreachable(), &mut terminal).await.unwrap();
        // An answer in between begins the time anew.
        outage.end(&mut terminal);
        assert!(!outage.lasts());
        outage.wait(unreachable(), &mut terminal).await.unwrap();
        outage.deadline = over;
        let said = format!("{:#}", outage.wait(unreachable(), &mut terminal).await.unwrap_err());
        assert!(
            said.starts_with(
                "cannot follow Operation `o`, which may still run: the API server has not answered for"
            ),
            "{said}"
        );
        assert!(said.ends_with("there was no answer in time"), "{said}");
    }

    #[tokio::test]
    async fn refusal_is_returned_at_once() {
        let mut outage = Outage::new("Operation `o`".to_owned(), Instant::now() + Duration::from_mins(1));
        assert!(outage.wait(refused(403), &mut Terminal::new()).await.is_err());
        assert!(outage.silence.is_none(), "it is no outage");
    }
}
