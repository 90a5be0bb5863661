//! What the regular expressions of one input may cost together.
//!
//! Our own design: the originals compile every expression without a limit for all of them. Functions run in the process of the control
//! plane, mostly on the threads that answer everything else: an input with thousands of heavy expressions must not hold them up for
//! minutes, nor fill the memory.

/// As much as one expression may cost alone: about 10 MiB and a tenth of a second when all are compiled.
const HEAVIEST: u64 = 1_000_000;

/// What is left for expressions, in the unit of [`ferroplane_golang::regexp::Expression::weight`].
#[derive(Debug)]
pub(crate) struct PatternBudget(u64);

impl Default for PatternBudget {
    fn default() -> Self {
        Self(HEAVIEST)
    }
}

impl PatternBudget {
    /// Counts an expression before it is compiled, or says that there is no room for it.
    pub(crate) fn spend(&mut self, weight: u64) -> Result<(), &'static str> {
        self.0 = self.0.checked_sub(weight).ok_or(
            "the regular expressions of the input up to this one are too complex together; repeat large character classes less often",
        )?;
        Ok(())
    }
}
