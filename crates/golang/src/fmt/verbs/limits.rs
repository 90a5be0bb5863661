//! How much may be printed, and why something is not.
//!
//! Our own design: Go prints without limits, and its stack grows.

use std::fmt;

/// Deeper than this nothing is printed: values can contain themselves, and our stack does not grow.
pub(super) const MAX_DEPTH: usize = 200;

/// Why values are not printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The text would be longer than the limit.
    TooLong,
    /// A value contains itself, or is nested very deeply.
    TooDeep,
    /// The limit of the number of items is reached.
    Stopped,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the text is too long"),
            Self::Stopped => f.write_str("the value has too many items"),
            Self::TooDeep => write!(f, "the value is nested deeper than {MAX_DEPTH}"),
        }
    }
}

/// How much may be printed.
pub struct Limits<'l> {
    pub bytes: usize,
    /// Is called for every item of a list or map. It returns whether to continue.
    pub count_item: &'l mut dyn FnMut() -> bool,
}

impl fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
