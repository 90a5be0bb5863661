//! `cargo xtask tidy`: guards what no compiler guards.

mod calls;
mod conditions;
mod diagram;
mod events;
mod forms;
mod images;
pub(crate) mod links;
pub(crate) mod markdown;
mod paths;
mod reasons;
mod texts;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::codegen;
use crate::shell::{cargo, git};

/// Which crate may depend on which of ours. A new arrow is an ADR and a line here.
const ARROWS: &[(&str, &[&str])] = &[
    ("ferroplane-api", &[]),
    ("ferroplane-wire", &[]),
    ("ferroplane-cancellation", &[]),
    ("ferroplane-golang", &["ferroplane-cancellation"]),
    ("ferroplane-cel", &["ferroplane-cancellation", "ferroplane-golang"]),
    ("ferroplane-template", &["ferroplane-golang"]),
    ("ferroplane-ownership", &["ferroplane-cancellation", "ferroplane-golang"]),
    (
        "ferroplane-schema",
        &["ferroplane-cancellation", "ferroplane-cel", "ferroplane-golang", "ferroplane-ownership"],
    ),
    ("ferroplane-segments", &[]),
    ("ferroplane-image", &["ferroplane-api"]),
    ("ferroplane-sandbox", &["ferroplane-image"]),
    ("ferroplane-package", &["ferroplane-api", "ferroplane-golang", "ferroplane-image"]),
    ("ferroplane-precompiled", &[]),
    ("ferroplane-wasm", &["ferroplane-precompiled"]),
    ("ferroplane-metrics", &[]),
    ("ferroplane-certificates", &[]),
    ("ferroplane-client", &[]),
    (
        "ferroplane-apiserver",
        &[
            "ferroplane-cancellation",
            "ferroplane-cel",
            "ferroplane-certificates",
            "ferroplane-golang",
            "ferroplane-metrics",
            "ferroplane-ownership",
            "ferroplane-schema",
        ],
    ),
    ("ferroplane-engine", &["ferroplane-api", "ferroplane-golang", "ferroplane-template", "ferroplane-wire"]),
    ("ferroplane-explain", &["ferroplane-api", "ferroplane-engine"]),
    (
        "ferroplane-functions",
        &[
            "ferroplane-api",
            "ferroplane-cel",
            "ferroplane-engine",
            "ferroplane-golang",
            "ferroplane-schema",
            "ferroplane-template",
            "ferroplane-wire",
        ],
    ),
    (
        "ferroplane-runner",
        &[
            "ferroplane-certificates",
            "ferroplane-engine",
            "ferroplane-functions",
            "ferroplane-image",
            "ferroplane-sandbox",
            "ferroplane-segments",
            "ferroplane-wasm",
            "ferroplane-wire",
        ],
    ),
    ("ferroplane-remote-templates", &["ferroplane-engine", "ferroplane-image", "ferroplane-wire"]),
    (
        "ferroplane-recorder",
        &[
            "ferroplane-api",
            "ferroplane-engine",
            "ferroplane-metrics",
            "ferroplane-segments",
            "ferroplane-wire",
        ],
    ),
    (
        "ferroplane-controllers",
        &[
            "ferroplane-api",
            "ferroplane-certificates",
            "ferroplane-client",
            "ferroplane-engine",
            "ferroplane-metrics",
            "ferroplane-ownership",
            "ferroplane-package",
            "ferroplane-recorder",
            "ferroplane-runner",
            "ferroplane-schema",
            "ferroplane-wire",
        ],
    ),
    (
        "ferroplane-offline",
        &[
            "ferroplane-api",
            "ferroplane-engine",
            "ferroplane-functions",
            "ferroplane-recorder",
            "ferroplane-runner",
            "ferroplane-schema",
            "ferroplane-wire",
        ],
    ),
    (
        "ferroplane",
        &[
            "ferroplane-api",
            "ferroplane-apiserver",
            "ferroplane-certificates",
            "ferroplane-client",
            "ferroplane-controllers",
            "ferroplane-engine",
            "ferroplane-explain",
            "ferroplane-functions",
            "ferroplane-golang",
            "ferroplane-image",
            "ferroplane-metrics",
            "ferroplane-offline",
            "ferroplane-package",
            "ferroplane-recorder",
            "ferroplane-remote-templates",
            "ferroplane-runner",
            "ferroplane-sandbox",
            "ferroplane-wire",
        ],
    ),
    (
        "ferroplane-testkit",
        &[
            "ferroplane-api",
            "ferroplane-apiserver",
            "ferroplane-client",
            "ferroplane-controllers",
            "ferroplane-engine",
            "ferroplane-functions",
            "ferroplane-metrics",
            "ferroplane-package",
            "ferroplane-recorder",
            "ferroplane-runner",
            "ferroplane-wire",
        ],
    ),
    (
        "benches",
        &[
            "ferroplane-api",
            "ferroplane-apiserver",
            "ferroplane-cel",
            "ferroplane-controllers",
            "ferroplane-engine",
            "ferroplane-functions",
            "ferroplane-golang",
            "ferroplane-image",
            "ferroplane-metrics",
            "ferroplane-ownership",
            "ferroplane-recorder",
            "ferroplane-runner",
            "ferroplane-sandbox",
            "ferroplane-schema",
            "ferroplane-template",
            "ferroplane-testkit",
            "ferroplane-wire",
        ],
    ),
    ("compatibility", &["ferroplane-functions", "ferroplane-golang", "ferroplane-runner", "ferroplane-wire"]),
    ("xtask", &["ferroplane-api"]),
];

/// Crates that only know or decide, and what they must never know.
const PURE: [&str; 11] = [
    "ferroplane-api",
    "ferroplane-wire",
    "ferroplane-metrics",
    "ferroplane-golang",
    "ferroplane-template",
    "ferroplane-cel",
    "ferroplane-ownership",
    "ferroplane-schema",
    "ferroplane-engine",
    "ferroplane-explain",
    "ferroplane-functions",
];
const IMPURE: [&str; 8] = ["tokio", "hyper", "reqwest", "kube", "rusqlite", "rand", "chrono", "jiff"];

/// Examples that need images, which no command renders.
const IMAGES_EXAMPLES: [&str; 2] = ["container-functions", "action-function"];

/// Code that does what a program in Go does.
const REPRODUCTIONS: [&str; 5] = [
    "crates/golang/src/",
    "crates/template/src/",
    "crates/cel/src/",
    "crates/ownership/src/",
    "crates/schema/src/",
];
/// How such a file says what it follows, and in which version.
const FOLLOWS: &str = "Follows ";
const OWN_DESIGN: &str = "Our own design: ";
const GENERATED: [&str; 3] = [
    "crates/golang/src/strconv/print_ranges.rs",
    "crates/golang/src/unicode/case_ranges.rs",
    "crates/golang/src/unicode/category_ranges.rs",
];

/// Code that knows the parts of an expression by their ids. An address can be used again by another part.
const WITHOUT_ADDRESSES: &str = "crates/cel/src/";

/// Complain about everything that is untidy.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut complaints = Vec::new();
    check_arrows(root, &mut complaints)?;
    for file in rust_files(root)? {
        check_file(root, &file, &mut complaints)?;
    }
    check_examples(root, &mut complaints)?;
    images::check(root, &mut complaints)?;
    paths::check(root, &mut complaints)?;
    links::check(root, &mut complaints)?;
    conditions::check(root, &mut complaints)?;
    events::check(root, &mut complaints)?;
    diagram::check(root, &mut complaints)?;
    words::check(root, &mut complaints)?;
    codegen::run(root, true)?;
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("untidy:\n  {}", complaints.join("\n  "))
}

fn check_arrows(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let metadata = cargo(root, &["metadata", "--format-version", "1", "--no-deps"]).output()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let ours: BTreeSet<_> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(candidate, _)| *candidate == name) else {
            complaints.push(format!("crate `{name}` is not in the table of arrows (xtask/src/tidy.rs)"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        // Tests may use whatever they like.
        for dependency in dependencies.filter(|dependency| dependency["kind"].is_null()) {
            let dependency = dependency["name"].as_str().unwrap_or_default();
            if ours.contains(dependency) && !allowed.contains(&dependency) {
                complaints.push(format!("crate `{name}` may not depend on `{dependency}`"));
            }
            if PURE.contains(&name) && IMPURE.contains(&dependency) {
                complaints.push(format!("crate `{name}` is pure and may not depend on `{dependency}`"));
            }
        }
    }
    Ok(())
}

fn check_file(root: &Path, file: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let name = file.strip_prefix(root).unwrap_or(file).display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    // A shebang or an attribute of the whole file may come first.
    if !text.lines().any(|line| line.starts_with("//!"))
        || !text.starts_with("//!") && !text.starts_with("#!")
    {
        complaints.push(format!("{name} does not open with what it is for (`//!`)"));
    }
    if file.file_name().is_some_and(|name| name == "mod.rs") {
        complaints.push(format!("{name}: write `foo.rs` beside `foo/`, never `mod.rs`"));
    }
    check_original(&name.to_string(), &text, complaints);
    check_addresses(&name.to_string(), &text, complaints);
    Ok(())
}

fn check_addresses(name: &str, text: &str, complaints: &mut Vec<String>) {
    if name.starts_with(WITHOUT_ADDRESSES) && text.contains("*const") {
        complaints.push(format!("{name} uses addresses (`*const`): the parts of an expression have ids"));
    }
}

/// A contributor who follows a new release of Kubernetes must find out which of our files reproduces the Go file that changed.
fn check_original(name: &str, text: &str, complaints: &mut Vec<String>) {
    let is_exempt = name.ends_with("/tests.rs") || GENERATED.contains(&name);
    if is_exempt || !REPRODUCTIONS.iter().any(|folder| name.starts_with(folder)) {
        return;
    }
    let head: Vec<_> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let mut paragraphs = head.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    if !paragraphs.any(|paragraph| names_original(&paragraph)) {
        complaints.push(format!(
            "{name} does not say which Go file of which version it follows, or that it is our own design"
        ));
    }
}

/// Whether a paragraph names an original in backquotes and its version, or says why there is none.
fn names_original(paragraph: &str) -> bool {
    let names_file = paragraph.matches('`').count() >= 2;
    // A version or a date is a word that begins with a digit. `k8s.io` has one in the middle.
    let is_version = |word: &str| word.starts_with(|it: char| it.is_ascii_digit());
    let has_version = paragraph.split_whitespace().any(is_version);
    paragraph.starts_with(OWN_DESIGN) || paragraph.starts_with(FOLLOWS) && names_file && has_version
}

fn check_examples(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join("examples"))? {
        let path = entry?.path();
        let needs_images = IMAGES_EXAMPLES.iter().any(|name| path.ends_with(name));
        for file in ["README.md", "expected.yaml"] {
            let is_needed = file == "README.md" || !needs_images;
            if path.is_dir() && is_needed && !path.join(file).exists() {
                complaints
                    .push(format!("{} has no {file}", path.strip_prefix(root).unwrap_or(&path).display()));
            }
        }
    }
    Ok(())
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = git(root, &["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]).output()?;
    Ok(listed.lines().map(|line| root.join(line)).filter(|path| path.exists()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_about(name: &str, head: &str) -> usize {
        let mut complaints = Vec::new();
        check_original(name, head, &mut complaints);
        complaints.len()
    }

    #[test]
    fn head_of_a_reproduction_names_a_file_and_its_version() {
        let file = "crates/schema/src/names.rs";
        let good = [
            "//! Names.\n//!\n//! Follows Go 1.26, `net/ip.go`.\n\nuse std::fmt;\n",
            "//! Follows kube-openapi of 2026-03-17,\n//! `pkg/validation/strfmt/date.go`.\n",
            "//! Names.\n//!\n//! Our own design: Go has no such thing.\n",
        ];
        for head in good {
            assert_eq!(complaints_about(file, head), 0, "{head}");
        }
        let bad = [
            "//! Follows paths.\n",
            "//! Follows Go 1.26.\n",
            "//! Follows k8s.io/apiserver, `pkg/cel/common/schemas.go`.\n",
            "//! Names.\n\n// Follows Go 1.26, `net/ip.go`.\n",
        ];
        for head in bad {
            assert_eq!(complaints_about(file, head), 1, "{head}");
        }
    }

    #[test]
    fn only_reproductions_name_an_original() {
        for name in ["crates/engine/src/names.rs", "crates/schema/src/table/builtin/tests.rs", GENERATED[0]] {
            assert_eq!(complaints_about(name, "//! Names.\n"), 0, "{name}");
        }
    }
}
