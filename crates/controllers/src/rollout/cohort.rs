//! Which revisions the steps of a composite resource call, given all rollouts.

use std::collections::BTreeMap;

use ferroplane_api::Object;
use ferroplane_engine::rollout::{Choice, Overlay};

/// How many functions of a pipeline can be rolled out at the same time. Those beyond are called in their stable revision.
const MOST_FUNCTIONS: usize = 64;

/// A choice for each function of a pipeline, two bits each. All that choose the same share a pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cohort(u128);

impl Cohort {
    /// The cohort of a composite resource whose pipeline calls these functions, in order.
    pub(crate) fn of(
        functions: &[String],
        overlays: &BTreeMap<String, Overlay>,
        composite: &Object,
        is_manual: bool,
    ) -> Self {
        let mut cohort = Self::default();
        // Most planes have no rollout.
        if overlays.is_empty() {
            return cohort;
        }
        for (index, function) in functions.iter().enumerate().take(MOST_FUNCTIONS) {
            if let Some(overlay) = overlays.get(function) {
                cohort.0 |= bits(overlay.choose(composite, is_manual)) << (2 * index);
            }
        }
        cohort
    }

    /// The cohort that calls the candidates of these functions, in order, and of no others.
    pub(crate) fn moving<'f>(functions: &[String], moved: impl Iterator<Item = &'f str>) -> Self {
        let mut cohort = Self::default();
        for function in moved {
            let index = functions.binary_search_by(|known| known.as_str().cmp(function)).ok();
            if let Some(index) = index.filter(|index| *index < MOST_FUNCTIONS) {
                cohort.0 |= bits(Choice::Candidate) << (2 * index);
            }
        }
        cohort
    }

    /// The same cohort before it was moved.
    pub(crate) fn unmoved(self) -> Self {
        // The lower bit of each pair says that it was moved.
        Self(self.0 & !(u128::MAX / 3))
    }

    /// The functions whose candidates it calls.
    pub(crate) fn moved(self, functions: &[String]) -> impl Iterator<Item = &String> {
        functions
            .iter()
            .enumerate()
            .filter(move |(index, _)| self.choice(*index) == Choice::Candidate)
            .map(|it| it.1)
    }

    /// The revision of a function that it calls, if that is not the stable one.
    pub(crate) fn revision<'o>(
        self,
        functions: &[String],
        function: &str,
        overlays: &'o BTreeMap<String, Overlay>,
    ) -> Option<&'o str> {
        let index = functions.binary_search_by(|known| known.as_str().cmp(function)).ok()?;
        let choice = self.choice(index);
        let overlay = overlays.get(function).filter(|_| choice != Choice::Stable)?;
        Some(overlay.revision(choice))
    }

    fn choice(self, index: usize) -> Choice {
        if index >= MOST_FUNCTIONS {
            return Choice::Stable;
        }
        match self.0 >> (2 * index) & 3 {
            1 => Choice::Candidate,
            2 => Choice::Previous,
            _ => Choice::Stable,
        }
    }
}

fn bits(choice: Choice) -> u128 {
    match choice {
        Choice::Stable => 0,
        Choice::Candidate => 1,
        Choice::Previous => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_functions_are_kept_apart() {
        let functions: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let cohort =
            Cohort(bits(Choice::Previous) | bits(Choice::Candidate) << 2 | bits(Choice::Stable) << 4);
        let choices = [0, 1, 2, 64, 900].map(|index| cohort.choice(index));
        let expected = [Choice::Previous, Choice::Candidate, Choice::Stable, Choice::Stable, Choice::Stable];
        assert_eq!(choices, expected);
        assert_eq!(cohort.moved(&functions).collect::<Vec<_>>(), ["b"]);
        assert_eq!(cohort.unmoved(), Cohort(bits(Choice::Previous)));
    }
}
