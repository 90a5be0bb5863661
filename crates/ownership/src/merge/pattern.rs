//! Patterns of paths, for the few parts of an object that may be written.
//!
//! Follows structured-merge-diff 6.3.3, `fieldpath/set.go`.

use super::path::Element;
use super::set::Set;

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternStep {
    /// A field of this name.
    Field(String),
    /// Any field, and any item of a list.
    Any,
}

impl PatternStep {
    fn fits(&self, element: &Element<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Field(name) => matches!(element, Element::Field(own) if own == name),
        }
    }
}

/// Patterns, each the beginning of many paths: all that lies below where it ends fits, and what leads there.
///
/// Of several patterns that fit a step, the first decides what lies below, and [`PatternStep::Any`] comes before names.
/// Patterns that begin with the same name are one, but only as long as there is no other beginning. So Kubernetes has
/// it, and it decides who owns what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patterns(Vec<(PatternStep, Patterns)>);

impl Patterns {
    /// Patterns that anything fits.
    const ALL: Self = Self(Vec::new());

    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p [PatternStep]>) -> Self {
        let mut patterns = patterns.into_iter().map(Self::of);
        let first = patterns.next().unwrap_or(Self::ALL);
        patterns.fold(first, Self::join)
    }

    fn of(pattern: &[PatternStep]) -> Self {
        match pattern.split_first() {
            None => Self::ALL,
            Some((first, rest)) => Self(vec![(first.clone(), Self::of(rest))]),
        }
    }

    fn join(mut self, other: Self) -> Self {
        if self == Self::ALL || other == Self::ALL {
            return Self::ALL;
        }
        let is_only = self.0.len() == 1;
        for (step, rest) in other.0 {
            match self.0.first_mut() {
                // Reproduces `SetMatcher.Merge` in fieldpath/set.go, which merges only patterns with a single
                // beginning.
                Some((own, below)) if is_only && *own == step && step != PatternStep::Any => {
                    *below = std::mem::replace(below, Self::ALL).join(rest);
                }
                _ => self.0.push((step, rest)),
            }
        }
        self.0.sort_by_key(|(step, _)| *step != PatternStep::Any);
        self
    }

    fn below(&self, element: &Element<'_>) -> Option<&Self> {
        self.0.iter().find(|(step, _)| step.fits(element)).map(|(_, below)| below)
    }
}

impl Set<'_> {
    /// Removes all paths that no pattern fits.
    pub fn keep_matching(&mut self, patterns: &Patterns) {
        if *patterns == Patterns::ALL {
            return;
        }
        self.nodes.retain_mut(|node| {
            let Some(below) = patterns.below(&node.element) else { return false };
            node.below.keep_matching(below);
            node.is_needed()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(patterns: &[&str]) -> Vec<String> {
        let fields = [
            &["spec"][..],
            &["spec", "size"],
            &["spec", "tiers", "a", "size"],
            &["spec", "tiers", "b", "color"],
            &["status"],
        ];
        let mut set = Set::of_fields(&fields);
        let step = |name: &str| match name {
            "*" => PatternStep::Any,
            name => PatternStep::Field(name.to_owned()),
        };
        let patterns: Vec<Vec<_>> = patterns.iter().map(|path| path.split('.').map(step).collect()).collect();
        set.keep_matching(&Patterns::new(patterns.iter().map(Vec::as_slice)));
        set.paths()
    }

    #[test]
    fn pattern_keeps_what_lies_below_and_what_leads_there() {
        assert_eq!(kept(&["spec.tiers"]), [".spec", ".spec.tiers.a.size", ".spec.tiers.b.color"]);
        assert_eq!(kept(&["spec.tiers.*.size", "status"]), [".spec", ".status", ".spec.tiers.a.size"]);
    }

    #[test]
    fn names_do_not_count_beside_anything() {
        assert_eq!(kept(&["status", "*.size"]), [".spec", ".status", ".spec.size"]);
    }

    #[test]
    fn first_of_several_patterns_decides() {
        assert_eq!(kept(&["spec.tiers.*.size", "spec.tiers.*.color"]), [".spec", ".spec.tiers.a.size"]);
        assert_eq!(kept(&["spec.size", "spec.tiers.a"]), [".spec", ".spec.size", ".spec.tiers.a.size"]);
    }
}
