//! What was found, for a terminal and as a page.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::catalogue::ReadOnly;
use crate::compare::Verdict;

/// What came of all cases of one function against one version of its original.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) function: &'static str,
    version: String,
    cases: u64,
    uncovered: u64,
    same: u64,
    /// Of those that are the same: how many end in a fatal result.
    fatal: u64,
    deliberate: BTreeMap<&'static str, u64>,
    /// Only the first few are kept whole.
    pub(crate) faults: Vec<Option<Fault>>,
}

/// A difference nobody chose.
#[derive(Debug)]
pub(crate) struct Fault {
    name: String,
    request: Value,
    theirs: Value,
    ours: Value,
}

impl Report {
    pub(crate) fn new(function: &'static str, version: &str) -> Self {
        Self {
            function,
            version: version.to_owned(),
            cases: 0,
            uncovered: 0,
            same: 0,
            fatal: 0,
            deliberate: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// The function and the version of the original.
    pub(crate) fn subject(&self) -> (String, String) {
        (self.function.to_owned(), self.version.clone())
    }

    pub(crate) fn add(&mut self, name: String, request: Value, verdict: Verdict, keep: usize) {
        self.cases += 1;
        match verdict {
            Verdict::Uncovered => self.uncovered += 1,
            Verdict::Same { is_fatal } => {
                self.same += 1;
                self.fatal += u64::from(is_fatal);
            }
            Verdict::Deliberate(reason) => *self.deliberate.entry(reason).or_default() += 1,
            Verdict::Fault { theirs, ours } => {
                let is_kept = self.faults.len() < keep;
                self.faults.push(is_kept.then_some(Fault { name, request, theirs, ours }));
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, version, cases, same, fatal, .. } = self;
        writeln!(f, "{function} against {version}: {cases} cases, {same} the same ({fatal} of them fatal)")?;
        if self.uncovered > 0 {
            writeln!(f, "  {:6} not covered by any built-in version", self.uncovered)?;
        }
        for (reason, count) in &self.deliberate {
            writeln!(f, "  {count:6} differ on purpose: {reason}")?;
        }
        writeln!(f, "  {:6} differ without a reason", self.faults.len())?;
        for fault in self.faults.iter().flatten() {
            writeln!(f, "--- {}\nrequest {}", fault.name, fault.request)?;
            writeln!(f, "theirs  {}\nours    {}", fault.theirs, fault.ours)?;
        }
        Ok(())
    }
}

/// The page that says how alike the functions are.
pub(crate) fn page(reports: &[Report], read_only: &[ReadOnly]) -> String {
    let mut page = String::from(PREFACE);
    for report in reports.iter().filter(|report| report.uncovered < report.cases) {
        page.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            report.function,
            report.version,
            report.cases,
            report.same,
            report.deliberate.values().sum::<u64>(),
            report.faults.len()
        ));
    }
    page.push_str(READ);
    for ReadOnly { function, version, releases } in read_only {
        page.push_str(&format!("| {function} | {} | {version} |\n", releases.join(", ")));
    }
    page.push_str("\n## Differences on purpose\n");
    for report in reports.iter().filter(|report| !report.deliberate.is_empty()) {
        page.push_str(&format!("\n### {} against {}\n\n", report.function, report.version));
        for (reason, count) in &report.deliberate {
            page.push_str(&format!("- {reason} ({count} cases)\n"));
        }
    }
    page
}

const READ: &str = "
## Read, not compared

Nobody ran these releases beside the built-in function. Their published source was read; most of them change nothing but
dependencies.

| Function | Releases | Built-in version that stands for them |
|---|---|---|
";

const PREFACE: &str = "\
# Compatibility of the built-in functions

Written by `cargo xtask compatibility`; do not edit.

Each built-in function that reproduces an upstream one is asked the same as the original, and the answers are
compared whole: desired state, readiness, connection details, results with their texts, conditions, context,
requirements, time to live. Cases are generated from a seed, so that a run can be repeated, and made by hand for
each documented feature. `cargo xtask compatibility --originals DIR` compares with the executables in `DIR`, which are
named as in `function-sequencer@v0.6.0`. `+cel` is an original with its feature gate for CEL on.

The corpus of a function recognises its differences on purpose. That of function-go-templating excuses only the part that
differs: where both describe the same problem in other words, everything else of the two answers is equal. Where our answer
adds to the words of the original which line of the template printed a document, that is removed before the comparison, and
the case counts as the same.

| Function | Original | Cases | The same | Different on purpose | Different without a reason |
|---|---|---|---|---|---|
";
