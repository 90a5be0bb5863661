//! How much a call may use.

use std::time::Duration;

/// How much a call may use. A call that needs more ends with an error that names the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, over all memories of the code.
    pub memory: usize,
    /// How long it may run, once it has begun.
    pub time: Duration,
    /// How many instructions it may execute. Holds only where [`Options::meter_fuel`](crate::Options::meter_fuel) is on.
    pub fuel: Option<u64>,
    /// Bytes of its answer.
    pub output: usize,
    /// Bytes that it may write to the log. The rest is dropped, which fails no call.
    pub log: usize,
    /// Elements of its tables, over all tables of the code.
    pub table_elements: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 128 << 20,
            time: Duration::from_secs(10),
            fuel: None,
            output: 16 << 20,
            log: 64 << 10,
            table_elements: 100_000,
        }
    }
}
