//! `cargo xtask compare --packages`: packages that Crossplane and we install from the same images.
//!
//! The tests are in `crates/cli/tests/it/start/crossplane_packages`. This starts an API server for each, and keeps the figures.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Stage, TestProgram, run, variable};
use crate::oracle::Oracle;
use crate::shell::step;
use crate::suite::Suite;
use crate::test::CLI;

const TAKEOVER: &str = "packages_of_crossplane_are_taken_over_and_given_back_unchanged";
const BUILT: &str = "package_of_our_command_line_is_installed_by_crossplane";
const SIDE: &str = "packages_are_installed_by_one_side";
const VERDICT: &str = "both_sides_install_packages_the_same_way";

/// Where the figures are.
const PAGE: &str = "docs/differences.md";
const BEGIN: &str = "<!-- figures of `cargo xtask compare --packages --write`: begin -->\n";
const END: &str = "<!-- figures of `cargo xtask compare --packages --write`: end -->\n";

pub(super) fn compare(root: &Path, writes: bool) -> Result<()> {
    // First, or the servers wait for the compiler.
    let program = TestProgram::from(Suite::build(root, CLI)?);
    let stage = Stage::prepare(root)?;
    let insists = ["FERROPLANE_REQUIRE_PEERS", "FERROPLANE_REQUIRE_HEAVY_PEERS"];
    let insists = insists.map(|name| variable(name, Path::new("1")));
    let test = |name: &str, side: &str| -> Vec<OsString> {
        stage.test(&program, &format!("start::crossplane_packages::{name}"), side, &insists)
    };
    // All are run, so that one run shows all there is to see.
    let takeover = step("takeover", || Oracle::beside(test(TAKEOVER, "")).run(root));
    let built = step("package of our command line", || Oracle::beside(test(BUILT, "")).run(root));
    for side in ["crossplane", "ferroplane"] {
        step(side, || Oracle::beside(test(SIDE, side)).run(root))?;
    }
    let verdict = step("compare", || run(root, &test(VERDICT, "")));
    takeover.and(built).and(verdict)?;
    if writes { write_figures(root, &stage) } else { Ok(()) }
}

fn write_figures(root: &Path, stage: &Stage) -> Result<()> {
    let chapter = stage.directory.join("packages.md");
    let chapter =
        fs::read_to_string(&chapter).with_context(|| format!("cannot read {}", chapter.display()))?;
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    let text = with_figures(&text, &chapter).with_context(|| format!("{PAGE} has no place for figures"))?;
    fs::write(&page, text).with_context(|| format!("cannot write {PAGE}"))
}

/// A page with other figures in their place, if it has one.
fn with_figures(page: &str, figures: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n\n{END}{after}", figures.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_replaced_and_nothing_else_is() {
        let page = format!("# Page\n\n{BEGIN}\nold\n\n{END}\nthe rest\n");
        let written = with_figures(&page, "| new |\n").unwrap();
        assert_eq!(written, format!("# Page\n\n{BEGIN}\n| new |\n\n{END}\nthe rest\n"));
        assert_eq!(with_figures(&written, "| new |"), Some(written.clone()));
        assert_eq!(with_figures("# Page\n", "new"), None);
    }

    #[test]
    fn documentation_has_a_place_for_the_figures() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(PAGE);
        assert!(with_figures(&fs::read_to_string(page).unwrap(), "").is_some());
    }
}
