//! What an execution may cost. It counts; the time is its [`Host`](crate::Host)'s business.
//!
//! Our own design: Go's templates have no limits but the depth of templates that call each other.

use std::fmt;
use std::time::Duration;

/// What an execution may cost at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How many nodes, commands and items of loops may be worked through.
    pub steps: u64,
    /// How many bytes of values may be made. Values that are no longer in use count, too.
    pub memory: u64,
    /// How many bytes the output may have.
    pub output: u64,
    /// How deep everything may be nested: templates that call each other and blocks count one each, parentheses and
    /// functions that execute templates two.
    pub depth: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: 10_000_000, memory: 256 << 20, output: 16 << 20, depth: 500 }
    }
}

/// The limit that an execution came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    Steps(u64),
    Memory(u64),
    Output(u64),
    /// The host says that this time is over.
    Time(Duration),
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(limit) => write!(f, "the template takes more than {limit} steps"),
            Self::Memory(limit) => write!(f, "the template makes more than {limit} bytes of values"),
            Self::Output(limit) => write!(f, "the output of the template is longer than {limit} bytes"),
            Self::Time(limit) => write!(f, "the template takes longer than {limit:?}"),
        }
    }
}
