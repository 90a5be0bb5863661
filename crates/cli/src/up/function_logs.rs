//! The last lines that functions and providers in packages printed, by revision, for `ferroplane logs`.
//!
//! # Invariants
//! * It is in memory only, and bounded: the oldest lines of a function go first.
//! * A caller that follows a function gets every line once, or is shown how many were dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ferroplane_apiserver::{EndpointPath, EndpointRequest, InProcessEndpoint, PageStream, Server};
use futures_util::{StreamExt as _, stream};
use http::Method;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Where an API server has those of functions.
pub(crate) const OF_FUNCTIONS: &str = "/ferroplane/logs/functionrevisions/";
/// Where it has those of providers.
pub(crate) const OF_PROVIDERS: &str = "/ferroplane/logs/providerrevisions/";
/// How much is kept of a function.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_LINES: usize = 10_000;
/// How many lines a caller that follows may be behind.
const BEHIND: usize = 1_000;

/// The logs of all functions that run.
#[derive(Debug, Default)]
pub(crate) struct FunctionLogs(Mutex<BTreeMap<String, Log>>);

/// The log of a function.
#[derive(Debug)]
struct Log {
    lines: VecDeque<Bytes>,
    bytes: usize,
    followers: broadcast::Sender<Bytes>,
}

impl Default for Log {
    fn default() -> Self {
        Self { lines: VecDeque::new(), bytes: 0, followers: broadcast::channel(BEHIND).0 }
    }
}

impl Log {
    fn append(&mut self, line: &str) {
        let line = Bytes::from(format!("{line}\n"));
        self.bytes += line.len();
        self.lines.push_back(line.clone());
        while self.bytes > KEPT_BYTES || self.lines.len() > KEPT_LINES {
            self.bytes -= self.lines.pop_front().map_or(self.bytes, |oldest| oldest.len());
        }
        // There may be no followers.
        let _ = self.followers.send(line);
    }
}

impl FunctionLogs {
    /// Have a log of a function, though it says nothing yet.
    pub(super) fn begin(&self, revision: &str) {
        self.lock().entry(revision.to_owned()).or_default();
    }

    /// Note what a function printed. Output of a function that is being stopped is dropped.
    pub(super) fn append(&self, revision: &str, line: &str) {
        if let Some(log) = self.lock().get_mut(revision) {
            log.append(line);
        }
    }

    /// Drop the log of a function that does not run any more. A caller that follows it comes to the end.
    pub(super) fn end(&self, revision: &str) {
        self.lock().remove(revision);
    }

    /// The last lines of a function and, for a caller that follows, those that come. None if there is no such function.
    fn read(&self, revision: &str, last: Option<usize>, follows: bool) -> Option<PageStream> {
        let logs = self.lock();
        let log = logs.get(revision)?;
        let skipped = last.map_or(0, |last| log.lines.len().saturating_sub(last));
        let lines: Vec<_> = log.lines.iter().skip(skipped).cloned().collect();
        // In the same turn as the lines, so that none is missed and none comes twice.
        let following = follows.then(|| log.followers.subscribe());
        drop(logs);
        let so_far = stream::iter(lines);
        Some(match following {
            None => so_far.boxed(),
            Some(following) => so_far.chain(stream::unfold(following, next)).boxed(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Log>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn next(mut following: broadcast::Receiver<Bytes>) -> Option<(Bytes, broadcast::Receiver<Bytes>)> {
    let line = match following.recv().await {
        Ok(line) => line,
        Err(RecvError::Lagged(count)) => Bytes::from(format!("({count} lines were dropped)\n")),
        Err(RecvError::Closed) => return None,
    };
    Some((line, following))
}

/// Have an API server tell them: `?tail=N` for the last lines, `?follow=true` for those that come.
pub(super) fn serve(server: &Server, below: &'static str, logs: Arc<FunctionLogs>) {
    let endpoint = InProcessEndpoint::streaming(move |request: &EndpointRequest| {
        let last = request.parameter("tail").parse().ok();
        logs.read(&request.below, last, request.parameter("follow") == "true")
    });
    server.register_endpoint(Method::GET, EndpointPath::Below(below), endpoint);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(stream: PageStream) -> String {
        let pieces: Vec<Bytes> = stream.collect().await;
        pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
    }

    #[tokio::test]
    async fn last_lines_are_kept_and_the_oldest_go_first() {
        let logs = FunctionLogs::default();
        assert!(logs.read("f-1", None, false).is_none());
        logs.begin("f-1");
        assert_eq!(text(logs.read("f-1", None, false).unwrap()).await, "");
        for number in 0..KEPT_LINES + 3 {
            logs.append("f-1", &number.to_string());
        }
        let all = text(logs.read("f-1", None, false).unwrap()).await;
        assert!(all.starts_with("3\n4\n") && all.ends_with(&format!("{}\n", KEPT_LINES + 2)));
        let last = text(logs.read("f-1", Some(2), false).unwrap()).await;
        assert_eq!(last, format!("{}\n{}\n", KEPT_LINES + 1, KEPT_LINES + 2));
        logs.append("f-1", &"x".repeat(KEPT_BYTES - 10));
        assert!(logs.lock()["f-1"].bytes <= KEPT_BYTES);
    }

    #[tokio::test]
    async fn follower_gets_every_line_once_until_the_function_ends() {
        let logs = FunctionLogs::default();
        logs.begin("f-1");
        logs.append("f-1", "before");
        let following = logs.read("f-1", None, true).unwrap();
        logs.append("f-1", "after");
        logs.append("f-2", "of another");
        logs.end("f-1");
        assert_eq!(text(following).await, "before\nafter\n");
    }

    #[tokio::test]
    async fn follower_that_is_too_slow_is_told_what_it_missed() {
        let logs = FunctionLogs::default();
        logs.begin("f-1");
        let following = logs.read("f-1", Some(0), true).unwrap();
        for number in 0..BEHIND + 100 {
            logs.append("f-1", &number.to_string());
        }
        logs.end("f-1");
        let text = text(following).await;
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.ends_with("lines were dropped)"), "{first}");
        assert!(rest.ends_with(&format!("{}\n", BEHIND + 99)));
    }
}
