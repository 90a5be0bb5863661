//! Lets a bounded number of calls run at once, and is fair to those who wait: keys take turns, and a key with many calls waits for itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::error::Error;

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
}

/// The right to run. Dropping it lets the next one run.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Queue,
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
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a place. A caller that stops waiting leaves the queue.
    pub(crate) async fn enter(&self, key: &str) -> Result<Place, Error> {
        let waiter = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(self.place());
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

    fn place(&self) -> Place {
        Place { queue: self.clone(), is_handed_on: false }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(self.place()) {
                Ok(()) => return,
                // It does not wait any more: the place is still ours to hand on.
                Err(mut place) => place.is_handed_on = true,
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

    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        let key = self.turns.pop_front()?;
        let calls = self.calls.get_mut(&key)?;
        let next = calls.pop_front()?;
        if calls.is_empty() {
            self.calls.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        self.waiting -= 1;
        Some(next)
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

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_handed_on {
            self.queue.leave();
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
