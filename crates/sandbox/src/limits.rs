//! What a program may use, and what it may reach.

use std::time::Duration;

/// What a program may use. `docs/containers.md` says which of them hold where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a call may take. A server has no such limit.
    pub time: Duration,
    /// Processor time of all its processes. A server has no such limit.
    pub cpu_time: Duration,
    /// Thousandths of a processor at any time. Holds with a cgroup only.
    pub cpu_rate: Option<u32>,
    /// Memory of all its processes, in bytes.
    pub memory: u64,
    /// Processes and threads at a time.
    pub processes: u32,
    /// Open files of one process.
    pub files: u32,
    /// What it may store in `/tmp`, and the size of a file, in bytes.
    pub scratch: u64,
    /// What it may write to standard output, in bytes.
    pub output: u64,
    /// What it may write to standard error, in bytes: for a call altogether, for a server each minute. The rest is dropped.
    pub log: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            cpu_time: Duration::from_secs(30),
            cpu_rate: None,
            memory: 256 << 20,
            processes: 64,
            files: 256,
            scratch: 64 << 20,
            output: 16 << 20,
            log: 1 << 20,
        }
    }
}

/// What an administrator allows a program beyond the minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grants {
    pub network: Network,
}

/// Which network a program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// A loopback interface of its own.
    #[default]
    Isolated,
    /// The network of the process that runs it.
    Runner,
}
