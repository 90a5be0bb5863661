//! Which resources a pattern means.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ferroplane_golang::regexp::Expression;

use crate::cost_budget::CostBudget;
use crate::pattern_budget::PatternBudget;

/// The names of all resources of a request, and which of them match the patterns asked for so far.
///
/// A compiled expression can be a thousand times the size of its pattern, so only what it matches is kept.
pub(super) struct Names<'a> {
    all: BTreeSet<&'a str>,
    /// Whether every pattern is a name, as in the first releases.
    are_literal: bool,
    matching: BTreeMap<String, Rc<[&'a str]>>,
    budget: PatternBudget,
    costs: &'a CostBudget,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        all: impl Iterator<Item = &'a String>,
        are_literal: bool,
        costs: &'a CostBudget,
    ) -> Self {
        let all = all.map(String::as_str).collect();
        Self { all, are_literal, matching: BTreeMap::new(), budget: PatternBudget::default(), costs }
    }

    /// The names that match, in order.
    pub(super) fn matching(&mut self, pattern: &str) -> Result<Rc<[&'a str]>, String> {
        if let Some(known) = self.matching.get(pattern) {
            return Ok(known.clone());
        }
        let found: Rc<[&'a str]> = if self.are_literal || is_plain(pattern) {
            // Most patterns are names, for which compiling an expression would be the whole cost of the step.
            self.all.get(pattern).copied().into_iter().collect()
        } else {
            let expression = Expression::new(&anchored(pattern))
                .map_err(|error| format!("cannot compile regex {pattern}: {error}"))?;
            let spent = self.budget.spend(expression.weight());
            spent.map_err(|problem| format!("cannot compile regex {pattern}: {problem}"))?;
            let length = self.all.iter().map(|name| name.len()).sum();
            let spent = self.costs.spend_match(&expression, length);
            spent.map_err(|problem| format!("cannot match regex {pattern}: {problem}"))?;
            self.all.iter().copied().filter(|name| expression.is_match(name)).collect()
        };
        self.matching.insert(pattern.to_owned(), found.clone());
        Ok(found)
    }
}

/// Whether the pattern can only match itself.
fn is_plain(pattern: &str) -> bool {
    pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// A pattern that is anchored nowhere has to match the whole name.
fn anchored(pattern: &str) -> String {
    // One anchor is enough to be taken as it is, as in the original (`getStrictRegex`).
    if pattern.starts_with('^') || pattern.ends_with('$') {
        return pattern.to_owned();
    }
    // Without a group, as in the original: `a|b` means `^a` or `b$`.
    format!("^{pattern}$")
}
