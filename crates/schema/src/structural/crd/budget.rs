//! What the rules of a schema may cost at most: each, and all together.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/validation/cel_validation.go`.

use crate::field::{Error, Path};

/// What one rule may cost for all values in an object that it applies to.
const PER_RULE: u64 = 10_000_000;
/// What all rules of a schema may cost together.
const PER_SCHEMA: u64 = 100_000_000;
/// So many of the most expensive rules are named.
const NAMED: usize = 4;

/// Adds up what rules cost.
#[derive(Debug, Default)]
pub(super) struct Budget {
    total: u64,
    /// The most expensive first.
    expensive: Vec<(String, u64)>,
}

impl Budget {
    /// Adds what something costs. Says so if that alone is too much.
    pub(super) fn spend(&mut self, what: &str, cost: u64, path: &Path<'_>) -> Option<Error> {
        self.total = self.total.saturating_add(cost);
        // What is cheap does not help to be under the limit.
        if cost >= PER_SCHEMA / 100 {
            let position = self.expensive.partition_point(|(_, other)| *other >= cost);
            self.expensive.insert(position, (path.to_string(), cost));
            self.expensive.truncate(NAMED);
        }
        // Counted into the total even if it is refused alone.
        (cost > PER_RULE).then(|| Error::forbidden(path, exceeded(what, cost, PER_RULE)))
    }

    /// What is wrong with all rules of a schema together.
    pub(super) fn check(&self, path: &Path<'_>) -> Vec<Error> {
        if self.total <= PER_SCHEMA {
            return Vec::new();
        }
        let contributed =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let named = self.expensive.iter();
        let mut errors: Vec<_> =
            named.map(|(path, _)| Error::forbidden(&Path::new(path), contributed)).collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(Error::forbidden(path, exceeded(what, self.total, PER_SCHEMA)));
        errors
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is rounded")]
fn exceeded(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // A factor near one would be rounded to "1.0x", which explains nothing.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(costs: &[u64]) -> Vec<String> {
        let mut budget = Budget::default();
        let mut errors = Vec::new();
        for (index, cost) in costs.iter().enumerate() {
            errors.extend(budget.spend("estimated rule cost", *cost, &Path::new(&format!("rule{index}"))));
        }
        errors.extend(budget.check(&Path::new("schema")));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rule_that_costs_too_much_is_told_by_how_much() {
        let told = |cost| problems(&[cost]).into_iter().next().unwrap_or_default();
        assert_eq!(told(10_000_000), "");
        let start = "rule0: Forbidden: estimated rule cost exceeds budget by factor of ";
        assert!(told(10_000_001).starts_with(&format!("{start}1.000000x (try ")), "{}", told(10_000_001));
        assert!(told(24_600_000).starts_with(&format!("{start}2.5x (try ")), "{}", told(24_600_000));
        assert!(told(u64::MAX).starts_with(&format!("{start}more than 100x (try ")));
    }

    #[test]
    fn most_expensive_rules_are_named_if_all_together_cost_too_much() {
        let costs = [9_000_000; 11];
        let found = problems(&[&[999_999, 8_000_000, 9_500_000][..], &costs].concat());
        let named: Vec<_> =
            found.iter().map(|problem| problem.split(':').next().unwrap_or_default()).collect();
        assert_eq!(named, ["rule2", "rule3", "rule4", "rule5", "schema"]);
        assert!(
            found[4].contains("entire OpenAPIv3 schema exceeds budget by factor of 1.175000x"),
            "{}",
            found[4]
        );
        assert_eq!(problems(&costs), Vec::<String>::new());
    }
}
