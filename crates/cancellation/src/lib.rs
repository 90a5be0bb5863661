//! Stops pure work that nothing waits for any more. Knows neither clocks nor requests: a caller that begins the work says whether it is over.
//!
//! A function that may take many steps calls [`checkpoint`] at each of them. A caller that calls it from afar wraps the call in [`within`],
//! with a [`Deadline`] that says whether the work is still wanted. Once it is not, the next checkpoint unwinds the stack up to
//! [`within`]: most of the functions on the way cannot fail, and need not be able to for the sake of work whose result is dropped.
//! This is how salsa, which computes for rust-analyzer, does it ([ADR 0040](../../../docs/adr/0040-deadlines-cut-work-off.md)).
//!
//! # Invariants
//! * Without a deadline, a checkpoint does nothing.
//! * A deadline is asked once in [`INTERVAL`] checkpoints, so that it may check a clock.
//! * What is cancelled leaves nothing behind but values that are dropped: work within a deadline changes nothing that is shared.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A deadline is asked once in so many checkpoints. They are steps of some ten nanoseconds to some microseconds.
pub const INTERVAL: u32 = 1024;

// Per thread is enough: the work never awaits, so that it ends on the thread where it began.
thread_local! {
    static STEPS_LEFT: Cell<u32> = const { Cell::new(INTERVAL) };
    static CURRENT: RefCell<Option<Deadline>> = const { RefCell::new(None) };
}

/// Says whether work is over though it is not done. Clones are the same deadline.
#[derive(Clone)]
pub struct Deadline(Arc<dyn Fn() -> bool + Send + Sync>);

impl Deadline {
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_over))
    }

    pub fn is_over(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deadline")
    }
}

/// The work was stopped before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// A step of work that may take many. Does not return if the work is over.
#[inline]
pub fn checkpoint() {
    STEPS_LEFT.with(|steps| match steps.get() {
        0 => ask(steps),
        left => steps.set(left - 1),
    });
}

/// A step that may take milliseconds by itself. The deadline is asked each time.
pub fn milestone() {
    STEPS_LEFT.with(ask);
}

#[cold]
fn ask(steps: &Cell<u32>) {
    // Reset before the question, because unwinding does not come back to do it.
    steps.set(INTERVAL);
    let is_over = CURRENT.with_borrow(|current| current.as_ref().is_some_and(Deadline::is_over));
    if is_over {
        // Unlike a panic, this tells no hook of it: nothing is wrong.
        resume_unwind(Box::new(Cancelled));
    }
}

/// Does work that ends at the latest when the deadline is over. A deadline around it does not count meanwhile.
pub fn within<T>(deadline: &Deadline, work: impl FnOnce() -> T) -> Result<T, Cancelled> {
    let before = CURRENT.replace(Some(deadline.clone()));
    let _restore = Restore(before);
    // Nothing that the work left half done is seen again: cancelled work changes nothing that is shared.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Ok(done),
        Err(panic) if panic.is::<Cancelled>() => Err(Cancelled),
        Err(panic) => resume_unwind(panic),
    }
}

/// Puts back the deadline of a caller that called, also if the work panics.
struct Restore(Option<Deadline>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn work_for_ever() {
        loop {
            checkpoint();
        }
    }

    fn over() -> Deadline {
        Deadline::new(|| true)
    }

    #[test]
    fn endless_work_ends_when_its_deadline_is_over() {
        let asked = Arc::new(AtomicU32::new(0));
        let counting = Arc::clone(&asked);
        let deadline = Deadline::new(move || counting.fetch_add(1, Ordering::Relaxed) == 3);
        assert_eq!(within(&deadline, work_for_ever), Err(Cancelled));
        assert_eq!(asked.load(Ordering::Relaxed), 4, "it is asked until it says so");
    }

    #[test]
    fn work_without_a_deadline_goes_on() {
        assert_eq!(within(&over(), work_for_ever), Err(Cancelled));
        // As many steps as it takes to be asked twice: nothing of the deadline above is left.
        (0..2 * INTERVAL).for_each(|_| checkpoint());
    }

    #[test]
    fn deadline_around_another_counts_again_afterwards() {
        let outer = within(&over(), || {
            let inner = within(&Deadline::new(|| false), || (0..2 * INTERVAL).for_each(|_| checkpoint()));
            assert_eq!(inner, Ok(()), "the inner deadline is not over");
            work_for_ever();
        });
        assert_eq!(outer, Err(Cancelled));
    }

    #[test]
    fn panic_is_no_cancellation() {
        let panic = catch_unwind(|| within(&over(), || panic!("oh no"))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"oh no"));
        (0..2 * INTERVAL).for_each(|_| checkpoint());
    }
}
