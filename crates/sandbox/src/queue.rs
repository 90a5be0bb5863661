//! Lets a bounded number of calls run at once, and is fair to those that wait. The next place is for the key that holds the fewest, and of
//! several for the one that has used the least time lately: a key with many calls, or with long ones, waits for itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::error::Error;

/// After this time, what was used counts half.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// The use of so many keys is remembered.
const REMEMBERED: usize = 10_000;

/// A queue. Cloning gives another handle of it.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    most_waiting: usize,
    waiting: usize,
    /// Keys with waiting callers, in the order of their turns.
    turns: VecDeque<String>,
    calls: HashMap<String, VecDeque<oneshot::Sender<Place>>>,
    used: HashMap<String, Used>,
}

/// What a key uses, and has used.
#[derive(Debug)]
struct Used {
    /// The places that it holds.
    places: usize,
    /// For how long it had held places, at some time.
    time: Duration,
    noted_at: Instant,
}

/// The right to run. Dropping it lets the next one run.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Queue,
    key: String,
    began_at: Instant,
    is_handed_on: bool,
}

impl Queue {
    pub(crate) fn new(places: usize, most_waiting: usize) -> Self {
        let state = State {
            free: places.max(1),
            most_waiting,
            waiting: 0,
            turns: VecDeque::new(),
            calls: HashMap::new(),
            used: HashMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a place. A caller that stops waiting leaves the queue.
    pub(crate) async fn enter(&self, key: &str) -> Result<Place, Error> {
        let waiter = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                state.take(key);
                return Ok(self.place(key.to_owned()));
            }
            state.drop_the_departed();
            if state.waiting >= state.most_waiting {
                return Err(Error::QueueFull { waiting: state.waiting });
            }
            state.line_up(key)
        };
        // The sender is dropped only with the queue, of which we are a handle.
        waiter.await.map_err(|_| Error::HostEnded)
    }

    fn place(&self, key: String) -> Place {
        Place { queue: self.clone(), key, began_at: Instant::now(), is_handed_on: false }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key gives back a place that it has held for this time.
    fn leave(&self, key: &str, time: Duration) {
        self.lock().give_back(key, time);
        loop {
            let next = {
                let mut state = self.lock();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some((key, next)) = next else { return };
            match next.send(self.place(key)) {
                Ok(()) => return,
                // It does not wait any more: the place is still ours to hand on.
                Err(mut place) => {
                    place.is_handed_on = true;
                    self.lock().give_back(&place.key, Duration::ZERO);
                }
            }
        }
    }
}

impl State {
    fn line_up(&mut self, key: &str) -> oneshot::Receiver<Place> {
        let (sender, receiver) = oneshot::channel();
        let calls = self.calls.entry(key.to_owned()).or_default();
        if calls.is_empty() {
            self.turns.push_back(key.to_owned());
        }
        calls.push_back(sender);
        self.waiting += 1;
        receiver
    }

    fn next(&mut self) -> Option<(String, oneshot::Sender<Place>)> {
        // The first one of several that have used the same.
        let (turn, _) = self.turns.iter().enumerate().min_by_key(|(_, key)| self.share(key))?;
        let key = self.turns.remove(turn)?;
        let calls = self.calls.get_mut(&key)?;
        let next = calls.pop_front()?;
        if calls.is_empty() {
            self.calls.remove(&key);
        } else {
            self.turns.push_back(key.clone());
        }
        self.waiting -= 1;
        self.take(&key);
        Some((key, next))
    }

    /// The places that a key holds, and the time that it has used lately.
    fn share(&self, key: &str) -> (usize, Duration) {
        self.used.get(key).map_or((0, Duration::ZERO), |used| (used.places, used.lately()))
    }

    fn take(&mut self, key: &str) {
        let nothing = || Used { places: 0, time: Duration::ZERO, noted_at: Instant::now() };
        self.used.entry(key.to_owned()).or_insert_with(nothing).places += 1;
    }

    fn give_back(&mut self, key: &str, time: Duration) {
        if let Some(used) = self.used.get_mut(key) {
            used.places = used.places.saturating_sub(1);
            used.time = used.lately().saturating_add(time);
            used.noted_at = Instant::now();
        }
        self.forget();
    }

    /// Those that hold a place are never forgotten, and there are no more of them than places.
    fn forget(&mut self) {
        if self.used.len() >= REMEMBERED {
            self.used.retain(|_, used| used.places > 0 || used.lately() > Duration::from_millis(100));
        }
        if self.used.len() >= REMEMBERED {
            self.used.retain(|_, used| used.places > 0);
        }
    }

    /// Those who stopped waiting must not keep others out.
    fn drop_the_departed(&mut self) {
        if self.waiting < self.most_waiting {
            return;
        }
        for calls in self.calls.values_mut() {
            calls.retain(|call| !call.is_closed());
        }
        self.calls.retain(|_, calls| !calls.is_empty());
        self.turns.retain(|key| self.calls.contains_key(key));
        self.waiting = self.calls.values().map(VecDeque::len).sum();
    }
}

impl Used {
    fn lately(&self) -> Duration {
        self.time.mul_f64(0.5_f64.powf(self.noted_at.elapsed().as_secs_f64() / HALF_LIFE.as_secs_f64()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_handed_on {
            self.queue.leave(&self.key, self.began_at.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Place, Error>> + 'a>>;

    fn poll(future: &mut Waiting<'_>) -> Option<Result<Place, Error>> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn enter<'a>(queue: &'a Queue, key: &'a str) -> Waiting<'a> {
        let mut waiting: Waiting<'a> = Box::pin(queue.enter(key));
        assert!(poll(&mut waiting).is_none(), "there is no place");
        waiting
    }

    fn only_place(queue: &Queue) -> Place {
        let mut entering = pin!(queue.enter("first"));
        match entering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => place.expect("place"),
            Poll::Pending => panic!("there is a place"),
        }
    }

    #[test]
    fn a_key_with_many_calls_lets_others_through() {
        let queue = Queue::new(1, 10);
        let place = only_place(&queue);
        let mut many: Vec<_> = (0..3).map(|_| enter(&queue, "many")).collect();
        let mut one = enter(&queue, "one");
        drop(place);
        let first = poll(&mut many[0]).expect("the first of many").expect("place");
        assert!(poll(&mut one).is_none());
        drop(first);
        assert!(poll(&mut many[1]).is_none(), "it is the other key's turn");
        assert!(poll(&mut one).is_some());
    }

    /// Holds the only place of a queue, of which others have used this much.
    fn busy(used: &[(&str, Duration)]) -> (Queue, Place) {
        let queue = Queue::new(1, 1000);
        for (key, time) in used {
            queue.lock().take(key);
            queue.lock().give_back(key, *time);
        }
        let place = only_place(&queue);
        (queue, place)
    }

    #[test]
    fn a_key_that_used_less_passes_a_hundred_that_used_more() {
        let hostile: Vec<_> = (0..100).map(|number| format!("hostile-{number}")).collect();
        let used: Vec<_> = hostile.iter().map(|key| (key.as_str(), Duration::from_secs(20))).collect();
        let (queue, place) = busy(&used);
        let mut first: Vec<_> = hostile.iter().map(|key| enter(&queue, key)).collect();
        let mut other = [enter(&queue, "other"), enter(&queue, "other")];
        drop(place);
        for waiting in &mut other {
            let place = poll(waiting).expect("it has used nothing").expect("place");
            assert!(first.iter_mut().all(|waiting| poll(waiting).is_none()));
            drop(place);
        }
        // The others come to their turn, too.
        assert!(poll(&mut first[0]).is_some());
    }

    #[test]
    fn a_key_that_holds_places_lets_those_through_that_hold_none() {
        let queue = Queue::new(2, 10);
        let [first, second] = [(); 2].map(|()| only_place(&queue));
        queue.lock().take("other");
        queue.lock().give_back("other", Duration::from_mins(10));
        let (mut again, mut other) = (enter(&queue, "first"), enter(&queue, "other"));
        drop(first);
        assert!(poll(&mut again).is_none(), "its other call still runs");
        let _place = poll(&mut other).expect("it holds none").expect("place");
        drop(second);
        assert!(poll(&mut again).is_some());
    }

    #[test]
    fn use_is_forgotten_in_time_and_within_a_bound() {
        let long_ago = Instant::now().checked_sub(Duration::from_mins(10)).expect("time");
        let used = Used { places: 0, time: Duration::from_secs(100), noted_at: long_ago };
        assert!(used.lately() < Duration::from_millis(110));
        let (queue, place) = busy(&[]);
        for number in 0..2 * REMEMBERED {
            queue.lock().take(&number.to_string());
            queue.lock().give_back(&number.to_string(), Duration::from_secs(1));
        }
        assert!(queue.lock().used.len() <= REMEMBERED);
        assert_eq!(queue.lock().share(&place.key).0, 1, "it still runs");
    }

    #[test]
    fn who_stops_waiting_takes_nobody_s_place() {
        let queue = Queue::new(1, 10);
        let place = only_place(&queue);
        let departed = enter(&queue, "a");
        let mut patient = enter(&queue, "b");
        drop(departed);
        drop(place);
        drop(poll(&mut patient).expect("its turn").expect("place"));
        drop(only_place(&queue));
    }

    #[test]
    fn a_place_that_was_given_to_somebody_who_left_at_once_is_free_again() {
        let queue = Queue::new(1, 10);
        let place = only_place(&queue);
        let waiting = enter(&queue, "a");
        drop(place);
        drop(waiting);
        drop(only_place(&queue));
    }

    #[test]
    fn a_full_queue_refuses_but_the_departed_do_not_count() {
        let queue = Queue::new(1, 1);
        let _place = only_place(&queue);
        let waiting = enter(&queue, "a");
        let mut refused: Waiting<'_> = Box::pin(queue.enter("b"));
        assert!(matches!(poll(&mut refused), Some(Err(Error::QueueFull { waiting: 1 }))));
        drop(waiting);
        drop(enter(&queue, "b"));
    }
}
