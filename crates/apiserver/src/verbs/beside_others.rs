//! Does work that takes long without holding up the requests that share the thread.

use tokio::runtime::{Handle, RuntimeFlavor};

/// What goes through so many bytes takes milliseconds. To make room for others takes some ten microseconds.
const LONG: usize = 128 * 1024;

/// The size of work that can take long whatever it goes through, such as compiling what another client wrote.
pub(crate) const UNBOUNDED: usize = usize::MAX;

/// Does work on an amount of bytes. If they are many, another thread takes over whatever else this one would have to do meanwhile.
pub(crate) fn beside_others<T>(size: usize, work: impl FnOnce() -> T) -> T {
    if size > LONG && has_other_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// A runtime with one thread has no other one to hand tasks to.
fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}
