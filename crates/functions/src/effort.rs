//! How much a call of a function may take.
//!
//! Most calls take microseconds and are made where their answer is needed. One that may take long is first tried briefly, and
//! made again elsewhere if that does not do: functions are pure, so that the second attempt answers what the first would have.

use std::fmt;
use std::time::Duration;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

/// How much a call may take.
#[derive(Clone, Copy)]
pub enum Effort<'e> {
    /// A few milliseconds. Work that would take longer is given up.
    Brief,
    /// Whatever the limits of the step allow. The clock says for how long the call has been going on; a caller that no longer
    /// waits for the answer lets it say [`Duration::MAX`].
    Full(&'e dyn Fn() -> Duration),
}

impl fmt::Debug for Effort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Brief => "Brief",
            Self::Full(_) => "Full",
        })
    }
}

/// What expressions in CEL may cost in a brief call: some milliseconds.
pub(crate) const BRIEF_COST: u64 = 100_000;

/// The call cannot be made briefly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakesLong;

/// A function that may take long. Only a brief call may give up.
pub type LongBuiltin = fn(&RunFunctionRequest, Effort<'_>) -> Result<RunFunctionResponse, TakesLong>;
