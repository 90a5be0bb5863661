//! Tells what came of comparing.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::case::Case;
use crate::compare::{Comparison, Engines};
use crate::generate;
use crate::shrink::shrink;

/// How many cases that differ are shrunk and shown.
const SHOWN: usize = 3;
/// How many differences of each case are listed.
const LISTED: usize = 6;

/// What came of each case, by its number.
#[derive(Debug)]
pub(crate) struct Report(pub(crate) BTreeMap<u64, Comparison>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds = BTreeMap::new();
        for kind in self.0.values().flat_map(|comparison| &comparison.deliberate) {
            *kinds.entry(kind).or_insert(0) += 1;
        }
        let unexplained: usize = self.0.values().map(|comparison| comparison.differences.len()).sum();
        let deliberate: usize = kinds.values().sum();
        let kinds: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("{kind:?}: {count}")).collect();
        let (cases, all, kinds) = (self.0.len(), unexplained + deliberate, kinds.join(", "));
        write!(f, "{cases} cases, {all} differences, {deliberate} deliberate ({kinds})")
    }
}

impl Report {
    /// What nobody has explained, if there is anything: all of it in short, some of it in the smallest case
    /// that shows it.
    pub(crate) async fn unexplained(&self, engines: &Engines) -> Option<String> {
        let failed: Vec<_> =
            self.0.iter().filter(|(_, comparison)| !comparison.differences.is_empty()).collect();
        let mut text = format!("{} cases differ\n", failed.len());
        for (seed, comparison) in &failed {
            let _ = writeln!(text, "\nFERROPLANE_SEED={seed} FERROPLANE_CASES=1 differs:");
            describe(comparison, LISTED, &mut text);
        }
        for (seed, _) in failed.iter().take(SHOWN) {
            let (case, comparison) = smallest(engines, generate::case(**seed)).await;
            let _ = writeln!(text, "\nThe least of FERROPLANE_SEED={seed}:\n{case}");
            describe(&comparison, usize::MAX, &mut text);
        }
        (!failed.is_empty()).then_some(text)
    }
}

async fn smallest(engines: &Engines, case: Case) -> (Case, Comparison) {
    let comparison = engines.compare(&case).await.expect("it was compared before");
    // What does not show again cannot be shrunk.
    if comparison.differences.is_empty() {
        (case, comparison)
    } else {
        shrink(engines, case, comparison).await
    }
}

fn describe(comparison: &Comparison, limit: usize, text: &mut String) {
    for difference in comparison.differences.iter().take(limit) {
        let _ = writeln!(text, "  {difference}");
    }
    let [ours, theirs] = &comparison.words;
    let _ = writeln!(text, "  ferroplane said: {ours}\n  crossplane said: {theirs}");
}
