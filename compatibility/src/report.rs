//! The results of a comparison, for a terminal and as a page.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::catalogue::{self, ReadOnly, Twin};
use crate::compare::Verdict;

/// The result of all cases of one function against one version of its original.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) function: &'static str,
    version: String,
    cases: u64,
    uncovered: u64,
    same: u64,
    /// How many of the same answers end in a fatal result.
    fatal: u64,
    deliberate: BTreeMap<&'static str, u64>,
    /// Only the first few are kept whole.
    pub(crate) faults: Vec<Option<Fault>>,
}

/// A difference that is not on purpose.
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

/// The page with the results for all functions.
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
    page.push_str(&not_run(read_only, catalogue::twins()));
    page.push_str("\n## Differences on purpose\n");
    for report in reports.iter().filter(|report| !report.deliberate.is_empty()) {
        page.push_str(&format!("\n### {} against {}\n\n", report.function, report.version));
        for (reason, count) in &report.deliberate {
            let cases = if *count == 1 { "case" } else { "cases" };
            page.push_str(&format!("- {reason} ({count} {cases})\n"));
        }
    }
    page
}

/// The sections about releases that were not run.
fn not_run(read_only: &[ReadOnly], twins: &[Twin]) -> String {
    let mut sections = String::from(TWINS);
    for of_one in
        twins.chunk_by(|one, other| (one.function, one.compared) == (other.function, other.compared))
    {
        let releases: Vec<_> = of_one.iter().map(|twin| twin.release).collect();
        let Twin { function, compared, .. } = of_one[0];
        sections.push_str(&format!("| {function} | {} | {compared} |\n", releases.join(", ")));
    }
    sections.push_str(READ);
    for ReadOnly { function, version, releases } in read_only {
        sections.push_str(&format!("| {function} | {} | {version} |\n", releases.join(", ")));
    }
    sections
}

const TWINS: &str = "
## Releases with the same code as a compared one

A release counts as compared if it has the same code as a release that was compared. Between the two tags, no Go file except tests
differs. The releases differ only in their version of Go, in modules that have no effect on the response, in workflows and in
documentation. `git diff TAG TAG -- '*.go' ':!*_test.go'` in the upstream repository prints nothing for these releases.

| Function | Releases | Compared release with the same code |
|---|---|---|
";

const READ: &str = "
## Releases that were not compared

The comparison did not run these releases. The authors of the built-in functions read their published source. Most of these releases
change nothing but dependencies.

| Function | Releases | Built-in version that runs in their place |
|---|---|---|
";

const PREFACE: &str = "\
# Compatibility of the built-in functions

This page is for users of Crossplane's functions who want to know how far the built-in functions behave like the originals.
`cargo xtask compatibility` generates it, so do not edit it.

The comparison sends the same request to a built-in function and to the function that it reproduces. Then it compares the whole
responses: desired state, readiness, connection details, results with their messages, conditions, context, requirements and time to
live. A seed determines the generated requests, so that a run can be repeated. In addition, there are requests for each documented feature.

`cargo xtask compatibility --originals DIR` compares with the executables in the directory `DIR`. Their names have the form
`function-sequencer@v0.6.0`. `+cel` is an original that runs with its feature gate for CEL. Without `--originals`, the command compares with one version of
function-auto-ready, function-go-templating and function-patch-and-transform each, from the Go module proxy, and does not write this page.

A difference is on purpose if the comparison has a rule for exactly this difference. For function-go-templating, a rule that accepts
another message demands that the rest of both responses is equal. Messages of the built-in function can have the line of the template
in addition. The comparison removes that line number, and the case counts as the same.

| Function | Original | Cases | The same | Different on purpose | Different without a reason |
|---|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ferroplane_functions::Library;

    use super::*;

    /// The numbers of the page come from a run with all originals. The rest has to be what the next run would write.
    #[test]
    fn page_lists_the_releases_that_were_not_run_as_a_run_would() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page.starts_with(PREFACE));
        let sections = not_run(&catalogue::read_only(&Library::built_in().unwrap()), catalogue::twins());
        assert!(page.contains(&sections), "run cargo xtask compatibility, or insert this:\n{sections}");
    }
}
