//! What it would cost to compile an expression, without compiling it.
//!
//! The unit is a state of the automaton that the `regex` crate builds, counted generously: ranges of characters are counted before
//! those with the same endings are merged.
//!
//! Our own design: Go estimates the size of an expression while it parses it.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};
use regex_syntax::utf8::Utf8Sequences;

/// The weight of an expression, if it is one that the `regex` crate can read.
pub(super) fn of(pattern: &str, nest_limit: u32) -> Option<u64> {
    let parsed = ParserBuilder::new().nest_limit(nest_limit).build().parse(pattern);
    parsed.ok().map(|hir| of_part(&hir))
}

/// Recursion is safe, because the parser has bounded how deep the expression is nested.
fn of_part(hir: &Hir) -> u64 {
    // Nested repetitions multiply past 64 bits easily, and what is too large anyway need not be told apart.
    let all = |parts: &[Hir]| parts.iter().map(of_part).fold(0, u64::saturating_add);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(class) => of_class(class),
        HirKind::Repetition(repetition) => of_part(&repetition.sub).saturating_mul(copies(repetition)),
        HirKind::Capture(capture) => of_part(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) => all(parts),
        HirKind::Alternation(parts) => all(parts).saturating_add(parts.len() as u64),
    }
}

/// How often a repetition is written out: `x{2,5}` becomes five of them, `x{2,}` two and a loop.
fn copies(repetition: &Repetition) -> u64 {
    let most = repetition.max.map_or_else(|| repetition.min.saturating_add(1), |max| max.max(repetition.min));
    u64::from(most).max(1)
}

fn of_class(class: &Class) -> u64 {
    match class {
        Class::Bytes(class) => class.ranges().len() as u64,
        Class::Unicode(class) => {
            let sequences =
                class.ranges().iter().flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
            sequences.map(|sequence| sequence.len() as u64).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_grows_with_what_is_written_out() {
        let weight = |pattern: &str| of(pattern, 100).unwrap();
        assert_eq!(weight("abc"), 3);
        assert_eq!(weight("[a-z]{10}"), 10);
        assert_eq!(weight("(?:[a-z]{10}){20,30}"), 300);
        assert_eq!(weight("a*"), 1);
        assert!(weight(r"\pL") > 500);
        assert_eq!(weight(r"\pL{100}"), 100 * weight(r"\pL"));
    }
}
