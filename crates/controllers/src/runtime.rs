//! What every controller is made of: its queue, its pauses, the clock, events, finalizers, what failed.

pub(crate) mod backoff;
pub(crate) mod cause;
pub(crate) mod clock;
pub(crate) mod events;
pub(crate) mod finalizers;
pub(crate) mod owner;
pub(crate) mod queue;
pub(crate) mod refused;
pub(crate) mod shutdown;
