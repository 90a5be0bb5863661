//! The parts of every controller: queue, backoff, clock, events, finalizers, causes of failures.

pub(crate) mod backoff;
pub(crate) mod cause;
pub(crate) mod clock;
pub(crate) mod events;
pub(crate) mod finalizers;
pub(crate) mod owner;
pub(crate) mod queue;
pub(crate) mod refused;
pub(crate) mod shutdown;
