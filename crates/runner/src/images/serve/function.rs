//! Calls a function server that is kept running, and restarts it if it hangs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_sandbox::Connector;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::time::Instant;
use tracing::warn;

use crate::error::CallError;
use crate::grpc::Client;

/// How many calls in a row a server has to leave unanswered to be taken to hang, and for how long. One composite resource may make a function
/// hang, and many may make it slow: a server that answers others is left alone.
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
        Self { name: name.into(), client, connector, silence: Arc::default() }
    }

    /// Call the function. The server is restarted if it seems to hang.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let began_at = Instant::now();
        let result = self.client.call(request).await;
        if let Some(is_answered) = is_answered(&result, self.connector.is_serving()) {
            self.note(is_answered, began_at);
        }
        result
    }

    fn note(&self, is_answered: bool, began_at: Instant) {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        if silence.note(is_answered, began_at, Instant::now()) {
            let function = &*self.name;
            warn!(function, calls = UNANSWERED, "restarting a function server that does not answer");
            self.connector.restart();
        }
    }
}

/// Whether the server has answered a call. None if the result says nothing about that.
fn is_answered(result: &Result<RunFunctionResponse, CallError>, is_serving: bool) -> Option<bool> {
    match result {
        Ok(_)
        | Err(
            CallError::Failed { .. }
            | CallError::Unimplemented { .. }
            | CallError::Garbage { .. }
            | CallError::ResponseTooLarge { .. },
        ) => Some(true),
        Err(CallError::Timeout { .. }) => Some(false),
        // The kernel accepts connections for a program that is stopped, and then nothing comes.
        Err(CallError::Unreachable { .. }) if is_serving => Some(false),
        Err(_) => None,
    }
}

/// How long a server has not answered.
#[derive(Debug, Default)]
struct Silence {
    /// When the first call of the row began.
    since: Option<Instant>,
    unanswered: u32,
}

impl Silence {
    /// Note how a call ended. Returns whether the server is taken to hang, once.
    fn note(&mut self, is_answered: bool, began_at: Instant, now: Instant) -> bool {
        if is_answered {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(began_at);
        self.unanswered += 1;
        let hangs = self.unanswered >= UNANSWERED && now.duration_since(since) >= SILENT_FOR;
        if hangs {
            // It has as long again when it was restarted.
            *self = Self::default();
        }
        hangs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of 20 seconds that began at these seconds. Returns when the server was taken to hang.
    fn restarts(began: &[u64], answered: &[u64]) -> Vec<u64> {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut silence = Silence::default();
        let mut note = |began: &u64| {
            let is_answered = answered.contains(began);
            silence.note(is_answered, at(*began), at(began + 20)).then_some(began + 20)
        };
        began.iter().filter_map(&mut note).collect()
    }

    #[test]
    fn server_that_answers_nobody_for_a_while_hangs() {
        assert_eq!(restarts(&[600, 620, 640], &[]), [660]);
        assert_eq!(restarts(&[600, 620, 640, 641, 642], &[]), [660], "it was restarted just then");
    }

    #[test]
    fn server_that_answers_others_or_is_only_slow_does_not_hang() {
        assert_eq!(restarts(&[600; 100], &[]), [0; 0], "a hundred calls at the same time, after a pause");
        assert_eq!(restarts(&[0, 20, 40, 60, 80], &[20, 60]), [0; 0]);
    }

    #[test]
    fn only_what_a_server_does_counts() {
        let target = || "function:9443".to_owned();
        let unreachable = || {
            let (waited, reason) = (Duration::from_secs(10), "deadline".to_owned());
            Err(CallError::Unreachable { target: target(), waited, reason })
        };
        assert_eq!(is_answered(&Ok(RunFunctionResponse::default()), true), Some(true));
        assert_eq!(is_answered(&unreachable(), true), Some(false), "a stopped program accepts connections");
        assert_eq!(is_answered(&unreachable(), false), None, "it is being started");
        let too_large = Err(CallError::RequestTooLarge { target: target(), limit: 1 });
        assert_eq!(is_answered(&too_large, true), None, "it was never sent");
    }
}
