//! A function server that is started by the first call, and stopped when it has not been called for a while.
//!
//! # Invariants
//! * It is started once for all who wait for it, and continues to start when one of them gives up.
//! * What is being called is not stopped.
//! * After a start that failed, callers are shown why at once until it is tried again, later and later.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_runner::CallError;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Pauses after a start that failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Calls a server that runs.
pub(super) type CallServer = Arc<
    dyn Fn(RunFunctionRequest) -> BoxFuture<'static, Result<RunFunctionResponse, CallError>> + Send + Sync,
>;

/// A server that runs.
pub(super) struct RunningServer {
    pub(super) call: CallServer,
    /// Ends it.
    pub(super) stop: BoxFuture<'static, ()>,
}

/// A server that runs while something needs it.
pub(super) struct OnDemand {
    /// For errors.
    image: String,
    idle: Duration,
    usage: watch::Sender<Usage>,
}

/// Who uses it, and whether it runs.
struct Usage {
    callers: usize,
    /// When the last of them left.
    since: Instant,
    state: State,
}

#[derive(Clone)]
enum State {
    Stopped,
    Running(CallServer),
    Failed(String),
}

/// A call in progress.
struct Caller<'a>(&'a watch::Sender<Usage>);

impl<'a> Caller<'a> {
    fn new(usage: &'a watch::Sender<Usage>) -> Self {
        usage.send_modify(|usage| usage.callers += 1);
        Self(usage)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|usage| {
            usage.callers -= 1;
            usage.since = Instant::now();
        });
    }
}

impl OnDemand {
    /// One that is stopped when it has not been called for so long.
    pub(super) fn new(image: &str, idle: Duration) -> Self {
        let usage = Usage { callers: 0, since: Instant::now(), state: State::Stopped };
        Self { image: image.to_owned(), idle, usage: watch::Sender::new(usage) }
    }

    /// Call it, when it runs.
    pub(super) async fn call(&self, request: RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        // First, so that it is not stopped between the check and the call.
        let _caller = Caller::new(&self.usage);
        let mut usage = self.usage.subscribe();
        let state = match usage.wait_for(|usage| !matches!(usage.state, State::Stopped)).await {
            Ok(usage) => usage.state.clone(),
            Err(_) => State::Stopped,
        };
        match state {
            State::Running(call) => call(request).await,
            State::Failed(reason) => Err(CallError::Image { image: self.image.clone(), reason }),
            State::Stopped => {
                let reason = "the control plane ends".to_owned();
                Err(CallError::Image { image: self.image.clone(), reason })
            }
        }
    }

    /// Start and stop it as it is needed, until this is dropped.
    pub(super) async fn keep<F>(&self, start: impl Fn() -> F)
    where
        F: Future<Output = Result<RunningServer, String>>,
    {
        let (mut usage, mut pause) = (self.usage.subscribe(), FIRST_PAUSE);
        // The sender is here, so that the channel stays open.
        while usage.wait_for(|usage| usage.callers > 0).await.is_ok() {
            match start().await {
                Ok(server) => {
                    pause = FIRST_PAUSE;
                    self.set(State::Running(server.call));
                    self.wait_until_idle(&mut usage).await;
                    server.stop.await;
                }
                Err(why) => {
                    self.set(State::Failed(why));
                    sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    self.set(State::Stopped);
                }
            }
        }
    }

    fn set(&self, state: State) {
        self.usage.send_modify(|usage| usage.state = state);
    }

    /// Returns when it is stopped for a caller that calls it from now on.
    async fn wait_until_idle(&self, usage: &mut watch::Receiver<Usage>) {
        loop {
            let (callers, since) = {
                let now = usage.borrow_and_update();
                (now.callers, now.since)
            };
            let left = self.idle.saturating_sub(since.elapsed());
            if callers > 0 {
                let _ = usage.changed().await;
            } else if !left.is_zero() {
                let _ = timeout(left, usage.changed()).await;
            } else if self.stop_if_idle() {
                return;
            }
        }
    }

    /// In one step, so that no call can come in between.
    fn stop_if_idle(&self) -> bool {
        self.usage.send_if_modified(|usage| {
            let is_idle = usage.callers == 0 && usage.since.elapsed() >= self.idle;
            if is_idle {
                usage.state = State::Stopped;
            }
            is_idle
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;

    const IDLE: Duration = Duration::from_mins(10);

    /// A server that counts how often it is started and stopped, and answers when it may.
    struct Fixture {
        server: Arc<OnDemand>,
        started: Arc<AtomicUsize>,
        stopped: Arc<AtomicUsize>,
        may_answer: Arc<Semaphore>,
        keeping: JoinHandle<()>,
    }

    impl Fixture {
        /// The first starts fail, so many of them.
        fn failing(failures: usize) -> Self {
            let server = Arc::new(OnDemand::new("image", IDLE));
            let (started, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let may_answer = Arc::new(Semaphore::new(0));
            let (kept, starts, stops, answers) =
                (server.clone(), started.clone(), stopped.clone(), may_answer.clone());
            let start = move || {
                let (number, stops, answers) =
                    (starts.fetch_add(1, Ordering::SeqCst), stops.clone(), answers.clone());
                async move {
                    if number < failures {
                        return Err("no luck".to_owned());
                    }
                    let call: CallServer = Arc::new(move |_| {
                        let answers = answers.clone();
                        Box::pin(async move {
                            answers.acquire().await.unwrap().forget();
                            Ok(RunFunctionResponse::default())
                        })
                    });
                    let stop = Box::pin(async move {
                        stops.fetch_add(1, Ordering::SeqCst);
                    });
                    Ok(RunningServer { call, stop })
                }
            };
            let keeping = tokio::spawn(async move { kept.keep(start).await });
            Self { server, started, stopped, may_answer, keeping }
        }

        fn call(&self) -> JoinHandle<Result<RunFunctionResponse, CallError>> {
            let server = self.server.clone();
            tokio::spawn(async move { server.call(RunFunctionRequest::default()).await })
        }

        fn counts(&self) -> (usize, usize) {
            (self.started.load(Ordering::SeqCst), self.stopped.load(Ordering::SeqCst))
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            self.keeping.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn server_starts_when_it_is_called_and_stops_when_nobody_calls_it_any_more() {
        let fixture = Fixture::failing(0);
        sleep(IDLE * 2).await;
        assert_eq!(fixture.counts(), (0, 0));
        fixture.may_answer.add_permits(3);
        fixture.call().await.unwrap().unwrap();
        sleep(IDLE / 2).await;
        fixture.call().await.unwrap().unwrap();
        sleep(IDLE * 3 / 4).await;
        assert_eq!(fixture.counts(), (1, 0), "it was called in between");
        sleep(IDLE / 2).await;
        assert_eq!(fixture.counts(), (1, 1));
        fixture.call().await.unwrap().unwrap();
        assert_eq!(fixture.counts(), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_is_being_called_is_not_stopped() {
        let fixture = Fixture::failing(0);
        let calling = fixture.call();
        sleep(IDLE * 3).await;
        assert_eq!(fixture.counts(), (1, 0));
        fixture.may_answer.add_permits(1);
        calling.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_start_one_server() {
        let fixture = Fixture::failing(0);
        fixture.may_answer.add_permits(50);
        let calls: Vec<_> = (0..50).map(|_| fixture.call()).collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert_eq!(fixture.counts(), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn start_that_fails_is_told_to_callers_and_tried_again_after_a_pause() {
        let fixture = Fixture::failing(1);
        fixture.may_answer.add_permits(1);
        for _ in 0..3 {
            let error = fixture.call().await.unwrap().unwrap_err();
            assert!(error.to_string().contains("no luck"), "{error}");
        }
        assert_eq!(fixture.counts(), (1, 0));
        sleep(FIRST_PAUSE * 2).await;
        fixture.call().await.unwrap().unwrap();
        assert_eq!(fixture.counts(), (2, 0));
    }
}
