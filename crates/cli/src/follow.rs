//! Follows an object until it is done: prints its new events meanwhile, and waits for an API server that does not answer.

use std::time::Duration;

use ferroplane_api::Object;
use tokio::time::Instant;

use crate::Verdict;
use crate::object_events::{ObjectEvent, PrintedEvents};
use crate::outage::Outage;
use crate::terminal::Terminal;

/// How often an object is read while it is not done.
const INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });
/// How often events are read after the end, at most. Controllers write events in the background, so that the last ones may be later than
/// the end of the object itself.
const LAST_READS: usize = 5;

/// Something that runs until it is done.
pub(crate) trait Followed {
    /// What it is, as in ``Operation `name` ``.
    fn subject(&self) -> String;

    /// The object as it is now, and then the events about it. None if it was deleted.
    async fn read(&self) -> anyhow::Result<Option<(Object, Vec<ObjectEvent>)>>;

    fn is_done(&self, object: &Object) -> bool;

    /// Print what became of an object that is done.
    fn conclude(&self, object: &Object, terminal: &mut Terminal) -> anyhow::Result<Verdict>;

    /// The message about an object that is not done after so long.
    fn still_runs(&self, object: &Object, timeout: Duration) -> String;
}

/// Wait until something is done, and print its new events meanwhile.
pub(crate) async fn follow(
    followed: &impl Followed,
    timeout: Duration,
    terminal: &mut Terminal,
) -> anyhow::Result<Verdict> {
    let deadline = Instant::now() + timeout;
    let mut outage = Outage::new(followed.subject(), deadline);
    let mut printed = PrintedEvents::default();
    loop {
        let news = async {
            // Events of an outage were missed, so nothing new is waited for after it.
            if outage.lasts() { followed.read().await } else { read_news(followed, &printed, deadline).await }
        };
        let found = terminal.wait("waiting for the result", news).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                outage.wait(error, terminal).await?;
                continue;
            }
        };
        outage.end(terminal);
        let Some((object, events)) = found else {
            terminal.failure(&format!("{} was deleted before it was done", followed.subject()));
            return Ok(Verdict::No);
        };
        printed.print_new(events, terminal);
        if followed.is_done(&object) {
            print_last_events(followed, &mut printed, terminal).await;
            return followed.conclude(&object, terminal);
        }
        if Instant::now() >= deadline {
            terminal.failure(&followed.still_runs(&object, timeout));
            return Ok(Verdict::No);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Read an object until there is something to print about it, or the time is over.
async fn read_news(
    followed: &impl Followed,
    printed: &PrintedEvents,
    deadline: Instant,
) -> anyhow::Result<Option<(Object, Vec<ObjectEvent>)>> {
    loop {
        let found = followed.read().await?;
        let is_news =
            found.as_ref().is_none_or(|(object, events)| followed.is_done(object) || printed.lacks(events));
        if is_news || Instant::now() >= deadline {
            return Ok(found);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Print the events that come after the end, until there are no more.
async fn print_last_events(followed: &impl Followed, printed: &mut PrintedEvents, terminal: &mut Terminal) {
    for _ in 0..LAST_READS {
        tokio::time::sleep(INTERVAL).await;
        // The end is known: whatever happens to the object or to the API server now does not change it.
        let Ok(Some((_, events))) = followed.read().await else { return };
        if printed.print_new(events, terminal) == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use serde_json::json;

    use super::*;

    /// What is read of an object, one after the other, and then the last of it again and again.
    struct Script {
        readings: Vec<(bool, usize)>,
        reads: Cell<usize>,
        concluded: RefCell<Vec<usize>>,
    }

    impl Script {
        /// Readings: whether it is done, and how many events there are.
        fn new(readings: &[(bool, usize)]) -> Self {
            Self { readings: readings.to_vec(), reads: Cell::new(0), concluded: RefCell::default() }
        }

        async fn follow(&self, timeout: Duration) -> Verdict {
            follow(self, timeout, &mut Terminal::new()).await.unwrap()
        }
    }

    impl Followed for Script {
        fn subject(&self) -> String {
            "Operation `o`".to_owned()
        }

        async fn read(&self) -> anyhow::Result<Option<(Object, Vec<ObjectEvent>)>> {
            let number = self.reads.replace(self.reads.get() + 1);
            let (is_done, events) = self.readings[number.min(self.readings.len() - 1)];
            let object = Object::from_iter([("done".to_owned(), is_done.into())]);
            let event = |number: usize| {
                let event = json!({"reason": "Said", "message": number.to_string()});
                ObjectEvent::of(event.as_object().unwrap())
            };
            Ok(Some((object, (0..events).map(event).collect())))
        }

        fn is_done(&self, object: &Object) -> bool {
            object["done"] == true
        }

        fn conclude(&self, _: &Object, _: &mut Terminal) -> anyhow::Result<Verdict> {
            self.concluded.borrow_mut().push(self.reads.get());
            Ok(Verdict::Yes)
        }

        fn still_runs(&self, _: &Object, _: Duration) -> String {
            "still runs".to_owned()
        }
    }

    #[tokio::test]
    async fn events_that_come_after_the_end_are_read_until_there_are_no_more() {
        let script = Script::new(&[(false, 1), (true, 1), (true, 2), (true, 3), (true, 3)]);
        assert_eq!(script.follow(Duration::from_mins(1)).await, Verdict::Yes);
        assert_eq!(*script.concluded.borrow(), [5], "the last reading brought nothing new");
    }

    #[tokio::test]
    async fn object_is_read_until_there_is_something_to_print() {
        let script = Script::new(&[(false, 1), (false, 1), (false, 1), (false, 2)]);
        let (mut printed, deadline) = (PrintedEvents::default(), Instant::now() + Duration::from_mins(1));
        for reads in [1, 4] {
            let (_, events) = read_news(&script, &printed, deadline).await.unwrap().unwrap();
            assert_eq!(script.reads.get(), reads);
            assert_eq!(printed.print_new(events, &mut Terminal::new()), 1);
        }
    }

    #[tokio::test]
    async fn object_whose_events_never_end_is_concluded_all_the_same() {
        let readings: Vec<_> = (0..50).map(|number| (true, number)).collect();
        let script = Script::new(&readings);
        assert_eq!(script.follow(Duration::from_mins(1)).await, Verdict::Yes);
        assert_eq!(*script.concluded.borrow(), [1 + LAST_READS]);
    }

    #[tokio::test]
    async fn object_that_is_not_done_in_time_is_given_up() {
        let script = Script::new(&[(false, 0)]);
        assert_eq!(script.follow(Duration::from_millis(5)).await, Verdict::No);
        assert!(script.concluded.borrow().is_empty());
    }
}
