//! Lets a bounded number of calls run at once, and is fair to those that wait. The next place is for the key that holds the fewest. Of several,
//! a key lets those that have used less time lately pass for as long as it has used itself, and not for longer. So a key with many calls, or
//! with long ones, waits for itself, and no stream of new keys keeps another one out.

use std::collections::{BTreeMap, HashMap};
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
    turns: BTreeMap<Rank, String>,
    calls: HashMap<String, Calls>,
    used: HashMap<String, Used>,
    /// The last number that a rank or a call got.
    numbers: u64,
}

/// The calls of a key that wait. There is at least one.
#[derive(Debug)]
struct Calls {
    rank: Rank,
    /// By their numbers, in the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<Place>>,
}

/// When it is the turn of a key. It never depends on the time at which it is asked for, so that keys stay in their order while they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// The places that the key holds.
    places: usize,
    /// When the key will have waited for as long as it has used.
    due: Instant,
    /// The first one of several that have used the same.
    number: u64,
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
            turns: BTreeMap::new(),
            calls: HashMap::new(),
            used: HashMap::new(),
            numbers: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a place. A caller that stops waiting leaves the queue.
    pub(crate) async fn enter(&self, key: &str) -> Result<Place, Error> {
        let (number, turn) = {
            let (mut state, now) = (self.lock(), Instant::now());
            if state.free > 0 {
                state.free -= 1;
                state.take(key, now);
                return Ok(self.place(key.to_owned()));
            }
            if state.waiting >= state.most_waiting {
                return Err(Error::QueueFull { waiting: state.waiting });
            }
            state.line_up(key, now)
        };
        let _waiter = Waiter { queue: self, key, number };
        // The sender is dropped only with the queue, of which we are a handle.
        turn.await.map_err(|_| Error::HostEnded)
    }

    fn place(&self, key: String) -> Place {
        Place { queue: self.clone(), key, began_at: Instant::now(), is_handed_on: false }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key gives back a place that it has held for this time.
    fn leave(&self, key: &str, time: Duration) {
        self.lock().give_back(key, time, Instant::now());
        loop {
            let next = {
                let mut state = self.lock();
                let next = state.next(Instant::now());
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some((key, next)) = next else { return };
            match next.send(self.place(key)) {
                Ok(()) => return,
                // It stopped waiting just now: the place is still ours to hand on.
                Err(mut place) => {
                    place.is_handed_on = true;
                    self.lock().give_back(&place.key, Duration::ZERO, Instant::now());
                }
            }
        }
    }
}

impl State {
    fn line_up(&mut self, key: &str, now: Instant) -> (u64, oneshot::Receiver<Place>) {
        let (sender, receiver) = oneshot::channel();
        let number = self.number();
        if let Some(calls) = self.calls.get_mut(key) {
            calls.waiting.insert(number, sender);
        } else {
            let rank = self.rank(key, now);
            self.turns.insert(rank, key.to_owned());
            self.calls.insert(key.to_owned(), Calls { rank, waiting: BTreeMap::from([(number, sender)]) });
        }
        self.waiting += 1;
        (number, receiver)
    }

    fn next(&mut self, now: Instant) -> Option<(String, oneshot::Sender<Place>)> {
        let (_, key) = self.turns.pop_first()?;
        let mut calls = self.calls.remove(&key)?;
        let (_, next) = calls.waiting.pop_first()?;
        self.waiting -= 1;
        self.take(&key, now);
        if !calls.waiting.is_empty() {
            calls.rank = self.rank(&key, now);
            self.turns.insert(calls.rank, key.clone());
            self.calls.insert(key.clone(), calls);
        }
        Some((key, next))
    }

    /// Those who stop waiting must not keep others out.
    fn depart(&mut self, key: &str, number: u64) {
        let Some(calls) = self.calls.get_mut(key) else { return };
        if calls.waiting.remove(&number).is_none() {
            return;
        }
        self.waiting -= 1;
        if calls.waiting.is_empty() {
            self.turns.remove(&calls.rank);
            self.calls.remove(key);
        }
    }

    /// The rank of a key that begins to wait now.
    fn rank(&mut self, key: &str, now: Instant) -> Rank {
        let (places, lately) = self.share(key, now);
        Rank { places, due: now + lately, number: self.number() }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The places that a key holds, and the time that it has used lately.
    fn share(&self, key: &str, now: Instant) -> (usize, Duration) {
        self.used.get(key).map_or((0, Duration::ZERO), |used| (used.places, used.lately(now)))
    }

    fn take(&mut self, key: &str, now: Instant) {
        let nothing = || Used { places: 0, time: Duration::ZERO, noted_at: now };
        self.used.entry(key.to_owned()).or_insert_with(nothing).places += 1;
    }

    fn give_back(&mut self, key: &str, time: Duration, now: Instant) {
        if let Some(used) = self.used.get_mut(key) {
            used.places = used.places.saturating_sub(1);
            used.time = used.lately(now).saturating_add(time);
            used.noted_at = now;
        }
        // Its calls begin to wait again: the time that they have waited for another call of their own key does not count.
        let rank = self.rank(key, now);
        if let Some(calls) = self.calls.get_mut(key) {
            let before = std::mem::replace(&mut calls.rank, rank);
            self.turns.remove(&before);
            self.turns.insert(rank, key.to_owned());
        }
        self.forget(now);
    }

    /// Those that hold a place are never forgotten, and there are no more of them than places.
    fn forget(&mut self, now: Instant) {
        if self.used.len() < REMEMBERED {
            return;
        }
        self.used.retain(|_, used| used.places > 0 || used.lately(now) > Duration::from_millis(100));
        // Half of the room is free afterwards, so that all are seldom looked through.
        if self.used.len() > REMEMBERED / 2 {
            self.used.retain(|_, used| used.places > 0);
        }
    }
}

impl Used {
    fn lately(&self, now: Instant) -> Duration {
        let age = now.saturating_duration_since(self.noted_at);
        self.time.mul_f64(0.5_f64.powf(age.as_secs_f64() / HALF_LIFE.as_secs_f64()))
    }
}

/// A caller that waits. Dropping it takes the caller out of the queue.
struct Waiter<'q> {
    queue: &'q Queue,
    key: &'q str,
    number: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.queue.lock().depart(self.key, self.number);
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
            queue.lock().take(key, Instant::now());
            queue.lock().give_back(key, *time, Instant::now());
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
        queue.lock().take("other", Instant::now());
        queue.lock().give_back("other", Duration::from_mins(10), Instant::now());
        let (mut again, mut other) = (enter(&queue, "first"), enter(&queue, "other"));
        drop(first);
        assert!(poll(&mut again).is_none(), "its other call still runs");
        let _place = poll(&mut other).expect("it holds none").expect("place");
        drop(second);
        assert!(poll(&mut again).is_some());
    }

    #[test]
    fn newcomers_pass_a_key_for_no_longer_than_it_has_used() {
        let (queue, _place) = busy(&[]);
        let mut state = queue.lock();
        let start = Instant::now();
        state.take("shop", start);
        state.give_back("shop", Duration::from_secs(5), start);
        let _shop = state.line_up("shop", start);
        let mut waiting = Vec::new();
        let served = (1..20).map(|second| {
            let now = start + Duration::from_secs(second);
            waiting.push(state.line_up(&format!("newcomer-{second}"), now));
            state.next(now).expect("a turn").0
        });
        assert_eq!(served.collect::<Vec<_>>().iter().position(|key| key == "shop"), Some(4));
    }

    #[test]
    fn time_that_a_key_waits_for_its_own_calls_does_not_count() {
        let (queue, _place) = busy(&[]);
        let mut state = queue.lock();
        let start = Instant::now();
        let ended = start + Duration::from_secs(20);
        let _calls = [(); 2].map(|()| state.line_up("long", start));
        assert_eq!(state.next(start).expect("its turn").0, "long");
        let _other = state.line_up("other", ended);
        state.give_back("long", Duration::from_secs(20), ended);
        assert_eq!(state.next(ended).expect("a turn").0, "other");
    }

    #[test]
    fn use_is_forgotten_in_time_and_within_a_bound() {
        let long_ago = Instant::now().checked_sub(Duration::from_mins(10)).expect("time");
        let used = Used { places: 0, time: Duration::from_secs(100), noted_at: long_ago };
        assert!(used.lately(Instant::now()) < Duration::from_millis(110));
        let (queue, place) = busy(&[]);
        for number in 0..2 * REMEMBERED {
            queue.lock().take(&number.to_string(), Instant::now());
            queue.lock().give_back(&number.to_string(), Duration::from_secs(1), Instant::now());
        }
        assert!(queue.lock().used.len() <= REMEMBERED);
        assert_eq!(queue.lock().share(&place.key, Instant::now()).0, 1, "it still runs");
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
    fn nothing_is_left_of_those_who_stop_waiting() {
        let queue = Queue::new(1, 10_000);
        let _place = only_place(&queue);
        let keys: Vec<_> = (0..100).map(|number| format!("key-{}", number / 2)).collect();
        let waiting: Vec<_> = keys.iter().map(|key| enter(&queue, key)).collect();
        let left = || {
            let state = queue.lock();
            (state.waiting, state.turns.len(), state.calls.len())
        };
        assert_eq!(left(), (100, 50, 50));
        drop(waiting);
        assert_eq!(left(), (0, 0, 0));
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
