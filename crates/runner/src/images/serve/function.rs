//! Calls a function server that is kept running, and restarts it if it hangs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_sandbox::Connector;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::time::Instant;
use tracing::warn;

use crate::error::CallError;
use crate::grpc::Client;

/// How many calls have to exceed their time limit before a server is taken to hang, and how long it must not have answered any other call.
/// One composite resource may make a function hang, and many may make it slow: a server that answers others is left alone.
const UNANSWERED: u32 = 3;
const SILENT_FOR: Duration = Duration::from_mins(1);

/// The function of a server that is kept running. Clones are the same function.
#[derive(Debug, Clone)]
pub struct ServedFunction {
    name: Arc<str>,
    client: Arc<Client>,
    connector: Connector,
    silence: Arc<Mutex<Silence>>,
}

impl ServedFunction {
    pub(super) fn new(name: &str, client: Arc<Client>, connector: Connector) -> Self {
        let silence = Arc::new(Mutex::new(Silence::since(Instant::now())));
        Self { name: name.into(), client, connector, silence }
    }

    /// Call the function. The server is restarted if it seems to hang.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let result = self.client.call(request).await;
        let is_answered = !matches!(result, Err(CallError::Timeout { .. }));
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        if silence.note(is_answered, Instant::now()) {
            let function = &*self.name;
            warn!(function, calls = UNANSWERED, "restarting a function server that does not answer");
            self.connector.restart();
        }
        drop(silence);
        result
    }
}

/// How long a server has not answered.
#[derive(Debug)]
struct Silence {
    since: Instant,
    unanswered: u32,
}

impl Silence {
    fn since(since: Instant) -> Self {
        Self { since, unanswered: 0 }
    }

    /// Note how a call ended. Returns whether the server is taken to hang, once.
    fn note(&mut self, is_answered: bool, now: Instant) -> bool {
        if is_answered {
            *self = Self::since(now);
            return false;
        }
        self.unanswered += 1;
        let hangs = self.unanswered >= UNANSWERED && now.duration_since(self.since) >= SILENT_FOR;
        if hangs {
            // It has as long again when it was restarted.
            *self = Self::since(now);
        }
        hangs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_answers_nobody_for_a_while_hangs() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut silence = Silence::since(start);
        assert!(!silence.note(false, at(20)) && !silence.note(false, at(40)));
        assert!(silence.note(false, at(60)));
        assert!(!silence.note(false, at(61)), "it was restarted just now");
    }

    #[test]
    fn server_that_answers_others_or_is_only_slow_does_not_hang() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut silence = Silence::since(start);
        assert!((0..100).all(|_| !silence.note(false, at(20))), "a hundred calls at the same time");
        assert!(!silence.note(true, at(50)));
        assert!((0..100).all(|_| !silence.note(false, at(100))), "it answered 50 seconds ago");
    }
}
