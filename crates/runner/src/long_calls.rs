//! Runs calls of built-in functions that take long, on threads beside those of the asynchronous workers.
//!
//! # Invariants
//! * Of these calls, no more run at once than half of the processors, however many wait.
//! * The call that runs next is that of the composite resource that has used the least time lately. A call that has run for a
//!   while makes room for such a one, and is made again later: a hundred composite resources whose templates never end wait
//!   for each other, and another one passes them.
//! * A call that nothing waits for any more ends soon, or never begins.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferroplane_functions::Implementation;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{State, Struct};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_blocking;

/// Who has used a thread for so long makes room for others that wait and have used less. What it did until then is lost, so that
/// the next time it may take twice as long.
const SLICE: Duration = Duration::from_millis(20);

/// After this time, what was used counts half.
const HALF_LIFE: Duration = Duration::from_mins(1);

/// The use of so many composite resources is remembered.
const REMEMBERED: usize = 10_000;

/// Tells the task that waits for a run that one of its calls takes long. Clones share the signal.
#[derive(Debug, Clone, Default)]
pub struct LongCallSignal(Arc<Notify>);

impl LongCallSignal {
    /// Completes at the next call that takes long, counted from when this function is called.
    pub fn next(&self) -> impl Future<Output = ()> + '_ {
        // Made now and not at the first poll, so that a signal between the two is not missed.
        self.0.notified()
    }

    /// Say that a call takes long.
    pub fn send(&self) {
        // Only to those that listen now: a later wait must not take this call for one of its own.
        self.0.notify_waiters();
    }
}

/// The calls that take long. Clones share their threads.
#[derive(Debug, Clone)]
pub(crate) struct LongCalls(Arc<Mutex<Queue>>);

impl Default for LongCalls {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::at_most((processors / 2).max(1))
    }
}

impl LongCalls {
    fn at_most(free: usize) -> Self {
        let queue = Queue { free, waiting: BTreeMap::new(), arrivals: 0, used: HashMap::new() };
        Self(Arc::new(Mutex::new(queue)))
    }

    /// Make a call as soon as it is its turn, and again if it has to make room for others before it is done.
    pub(crate) async fn run(
        &self,
        function: &Implementation,
        request: &RunFunctionRequest,
    ) -> RunFunctionResponse {
        let caller = caller(request);
        let mut slice = SLICE;
        loop {
            let turn = self.turn(&caller).await;
            if let Some(response) = attempt(function, request, turn, caller.clone(), slice).await {
                return response;
            }
            slice *= 2;
        }
    }

    async fn turn(&self, caller: &str) -> Turn {
        let receiver = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return Turn(Some(self.clone()));
            }
            queue.wait(caller)
        };
        // The sender is in the queue until there is a turn to send.
        receiver.await.unwrap_or(Turn(None))
    }

    /// A thread is free for the next call.
    fn pass_on(&self) {
        loop {
            let next = {
                let mut queue = self.queue();
                let next = queue.waiting.pop_first();
                queue.free += usize::from(next.is_none());
                next
            };
            let Some((_, next)) = next else { return };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // Nothing waits for that call any more.
                Err(mut turn) => turn.0 = None,
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a call on another thread. It is abandoned if a caller that has used less waits after this time.
async fn attempt(
    function: &Implementation,
    request: &RunFunctionRequest,
    turn: Turn,
    caller: String,
    slice: Duration,
) -> Option<RunFunctionResponse> {
    let (function, request) = (function.clone(), request.clone());
    let waiting = Waiting(Arc::new(AtomicBool::new(true)));
    let is_awaited = Arc::clone(&waiting.0);
    let call = spawn_blocking(move || {
        let (began_at, makes_room) = (Instant::now(), Cell::new(false));
        let elapsed = || {
            let elapsed = began_at.elapsed();
            makes_room.set(makes_room.get() || elapsed > slice && turn.is_wanted(&caller, elapsed));
            if makes_room.get() || !is_awaited.load(Ordering::Relaxed) { Duration::MAX } else { elapsed }
        };
        let response = function.run_timed(&request, &elapsed);
        turn.end(caller, began_at.elapsed());
        (!makes_room.get()).then_some(response)
    });
    match call.await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(response) => response,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is going down, and a caller that waits for this with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Tells a call when nothing waits for it any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The right to use a thread. A caller that drops it passes it on.
#[derive(Debug)]
struct Turn(Option<LongCalls>);

impl Turn {
    /// Whether something waits who has used less than this caller has, with the time of this call.
    fn is_wanted(&self, caller: &str, time: Duration) -> bool {
        self.0.as_ref().is_some_and(|calls| calls.queue().is_wanted(caller, time))
    }

    /// The caller has used the thread for this time.
    fn end(self, caller: String, time: Duration) {
        if let Some(calls) = &self.0 {
            calls.queue().note(caller, time);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(calls) = self.0.take() {
            calls.pass_on();
        }
    }
}

#[derive(Debug)]
struct Queue {
    free: usize,
    /// By the microseconds that their callers have used lately, and by arrival.
    waiting: BTreeMap<(u128, u64), oneshot::Sender<Turn>>,
    arrivals: u64,
    used: HashMap<String, Used>,
}

impl Queue {
    fn wait(&mut self, caller: &str) -> oneshot::Receiver<Turn> {
        let (sender, receiver) = oneshot::channel();
        let used = self.used.get(caller).map_or(Duration::ZERO, Used::lately);
        self.arrivals += 1;
        self.waiting.insert((used.as_micros(), self.arrivals), sender);
        receiver
    }

    fn is_wanted(&mut self, caller: &str, time: Duration) -> bool {
        // Those that nothing waits for any more want nothing.
        while let Some(first) = self.waiting.first_entry() {
            if !first.get().is_closed() {
                let used = self.used.get(caller).map_or(Duration::ZERO, Used::lately) + time;
                return first.key().0 < used.as_micros();
            }
            first.remove();
        }
        false
    }

    fn note(&mut self, caller: String, time: Duration) {
        if self.used.len() >= REMEMBERED {
            self.used.retain(|_, used| used.lately() > Duration::from_millis(100));
        }
        if self.used.len() >= REMEMBERED {
            self.used.clear();
        }
        let before = self.used.get(&caller).map_or(Duration::ZERO, Used::lately);
        self.used.insert(caller, Used { time: before.saturating_add(time), at: Instant::now() });
    }
}

/// The time that a composite resource had used at some time.
#[derive(Debug)]
struct Used {
    time: Duration,
    at: Instant,
}

impl Used {
    fn lately(&self) -> Duration {
        self.time.mul_f64(0.5_f64.powf(self.at.elapsed().as_secs_f64() / HALF_LIFE.as_secs_f64()))
    }
}

/// Who pays for a call: the composite resource.
fn caller(request: &RunFunctionRequest) -> String {
    let resource = request.observed.as_ref().and_then(State::composite).and_then(|xr| xr.resource.as_ref());
    let metadata = resource.and_then(|xr| Struct::json(xr).ok()).and_then(|xr| xr.get("metadata"));
    let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or_default();
    match text("uid") {
        "" => format!("{}/{}", text("namespace"), text("name")),
        uid => uid.to_owned(),
    }
}

#[cfg(test)]
mod tests;
