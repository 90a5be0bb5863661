//! Counts what an evaluation costs, and ends it when that is too much.
//!
//! The cost is the one that Kubernetes counts. It does not see everything: comparing two long lists of lists
//! costs as little as comparing their lengths, and a list can be doubled for next to nothing. So work and
//! memory have limits of their own, far above what an honest expression needs.
//!
//! Follows cel-go 0.29.2, `interpreter/runtimecost.go`.

use std::cell::Cell;

use ferroplane_cancellation::{checkpoint, milestone};

use super::fault::Fault;

const COST: &str = "actual cost limit exceeded";
const WORK: &str = "too much work";
const MEMORY: &str = "too much memory";

/// Steps that no cost is counted for.
const WORK_LIMIT: u64 = 50_000_000;
/// Bytes that may be written in all, whether or not they are still needed.
const MEMORY_LIMIT: usize = 256 << 20;
/// Regular expressions that may be made while evaluating.
const REGEX_LIMIT: usize = 200;

#[derive(Debug)]
pub(super) struct Meter {
    cost: Cell<u64>,
    limit: u64,
    weighs_patterns: bool,
    work: Cell<u64>,
    memory: Cell<usize>,
    regexes: Cell<usize>,
}

impl Meter {
    pub(super) fn new(limit: u64) -> Self {
        let (cost, work) = (Cell::new(0), Cell::new(0));
        Self { cost, limit, weighs_patterns: false, work, memory: Cell::new(0), regexes: Cell::new(0) }
    }

    /// The same, but regular expressions cost what is said to [`Self::weigh`].
    pub(super) fn weighing_patterns(self, weighs_patterns: bool) -> Self {
        Self { weighs_patterns, ..self }
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost.get()
    }

    pub(super) fn charge(&self, cost: u64) -> Result<(), Fault> {
        let total = self.cost.get().saturating_add(cost);
        self.cost.set(total);
        if total > self.limit { Err(Fault::Cancelled(COST)) } else { Ok(()) }
    }

    /// What a regular expression costs beyond what Kubernetes counts, if that is counted.
    pub(super) fn weigh(&self, cost: u64) -> Result<(), Fault> {
        if self.weighs_patterns { self.charge(cost) } else { Ok(()) }
    }

    pub(super) fn refund(&self, cost: u64) {
        self.cost.set(self.cost.get().saturating_sub(cost));
    }

    pub(super) fn work(&self, steps: u64) -> Result<(), Fault> {
        checkpoint();
        let total = self.work.get().saturating_add(steps);
        self.work.set(total);
        if total > WORK_LIMIT { Err(Fault::Cancelled(WORK)) } else { Ok(()) }
    }

    /// To be asked before the bytes are written.
    pub(super) fn allocate(&self, bytes: usize) -> Result<(), Fault> {
        let total = self.memory.get().saturating_add(bytes);
        self.memory.set(total);
        if total > MEMORY_LIMIT { Err(Fault::Cancelled(MEMORY)) } else { Ok(()) }
    }

    pub(super) fn make_regex(&self) -> Result<(), Fault> {
        milestone();
        let total = self.regexes.get() + 1;
        self.regexes.set(total);
        if total > REGEX_LIMIT { Err(Fault::Cancelled(WORK)) } else { Ok(()) }
    }
}
