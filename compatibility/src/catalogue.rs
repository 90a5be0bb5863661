//! What the catalogue of built-in functions claims about originals.

use anyhow::{Result, bail};
use ferroplane_functions::{Implementation, Library, Native, builtin};

/// The organisation on GitHub that publishes the originals.
const MAKER: &str = "crossplane-contrib";

/// Releases that were not run, with a release that was compared and has the same code: between the tags of both, `git diff` shows no
/// difference in files of Go except tests. They differ in the version of Go that they are built with, in modules that have no part in
/// the response, in workflows and documentation.
const TWINS: &[Twin] = &[
    twin("v0.9.1", "v0.9.0"),
    twin("v0.10.0", "v0.10.1"),
    twin("v0.11.1", "v0.11.0"),
    twin("v0.11.2", "v0.11.0"),
    twin("v0.11.3", "v0.11.0"),
    twin("v0.11.4", "v0.11.0"),
    twin("v0.11.5", "v0.11.9"),
    twin("v0.11.6", "v0.11.9"),
    twin("v0.11.7", "v0.11.9"),
    twin("v0.11.8", "v0.11.9"),
    twin("v0.12.1", "v0.12.2"),
];

/// A release whose code is that of a release that was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Twin {
    pub(crate) function: &'static str,
    pub(crate) release: &'static str,
    pub(crate) compared: &'static str,
}

const fn twin(release: &'static str, compared: &'static str) -> Twin {
    Twin { function: "function-go-templating", release, compared }
}

/// The releases that count as compared, because another one has the same code.
pub(crate) const fn twins() -> &'static [Twin] {
    TWINS
}

/// The code that runs in place of this version of the original, if any does.
pub(crate) fn replacement(library: &Library, function: &str, version: &str) -> Option<Implementation> {
    builtin(function, Some(&replaced_by(library, function, version)?))
}

/// The built-in version that runs in place of this version of the original. A file without a version is compared with
/// what runs for those who name none.
fn replaced_by(library: &Library, function: &str, version: &str) -> Option<String> {
    if version == "newest" {
        return library.catalogue().family(function)?.stable.as_ref().map(ToString::to_string);
    }
    // What follows a plus says how the original was started, not which one it is.
    let release = version.split('+').next().unwrap_or_default();
    match library.native(&format!("{MAKER}/{function}:{release}")) {
        Native::Covered { version, .. } => Some(version.to_string()),
        Native::NotCovered { .. } | Native::Unknown => None,
    }
}

/// A built-in version that stands for releases that were never run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadOnly {
    pub(crate) function: String,
    pub(crate) version: String,
    pub(crate) releases: Vec<String>,
}

/// Every built-in version that stands for releases whose source was only read, and differs from that of the compared ones.
pub(crate) fn read_only(library: &Library) -> Vec<ReadOnly> {
    let mut found = Vec::new();
    for family in library.catalogue().families() {
        for version in family.records.iter().filter_map(|record| record.version.as_ref()) {
            let metadata = library.version_metadata(&family.function, version);
            let has_twin = |release: &String| {
                TWINS.iter().any(|twin| twin.function == family.function && twin.release == *release)
            };
            let releases = metadata.into_iter().flat_map(|metadata| &metadata.read).map(ToString::to_string);
            let releases: Vec<_> = releases.filter(|release| !has_twin(release)).collect();
            if !releases.is_empty() {
                let (function, version) = (family.function.clone(), version.to_string());
                found.push(ReadOnly { function, version, releases });
            }
        }
    }
    found
}

/// Refuse a page that shows less than `versions.yaml` says was compared.
pub(crate) fn check_claims(library: &Library, compared: &[(String, String)]) -> Result<()> {
    let mut missing = Vec::new();
    for family in library.catalogue().families() {
        for version in family.records.iter().filter_map(|record| record.version.as_ref()) {
            let metadata = library.version_metadata(&family.function, version);
            for release in metadata.into_iter().flat_map(|metadata| &metadata.compared) {
                let claim = (family.function.clone(), release.to_string());
                if !compared.contains(&claim) {
                    missing.push(format!("{}@{}", claim.0, claim.1));
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "versions.yaml says that these were compared, but they are not among the originals: {}",
        missing.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compared_has_to_be_among_the_originals() {
        let library = Library::built_in().unwrap();
        let error = check_claims(&library, &[]).unwrap_err().to_string();
        assert!(error.contains("function-patch-and-transform@v0.2.1"), "{error}");
    }

    /// The built-in version that stands for a release which was compared, or read.
    fn standing_for(library: &Library, release: &str, is_compared: bool) -> Option<String> {
        let family = library.catalogue().family("function-go-templating").unwrap();
        let mut versions = family.records.iter().filter_map(|record| record.version.as_ref());
        let version = versions.find(|version| {
            let metadata = library.version_metadata(&family.function, version).unwrap();
            let listed = if is_compared { &metadata.compared } else { &metadata.read };
            listed.iter().any(|listed| listed.to_string() == release)
        });
        version.map(ToString::to_string)
    }

    #[test]
    fn release_with_the_code_of_a_compared_one_is_of_the_same_built_in_version() {
        let library = Library::built_in().unwrap();
        for Twin { release, compared, .. } in TWINS {
            let of_release = standing_for(&library, release, false);
            assert_eq!(of_release, standing_for(&library, compared, true), "{release} {compared}");
            assert!(of_release.is_some(), "{release}");
        }
        let unexplained = read_only(&library).into_iter().find(|it| it.function == "function-go-templating");
        assert_eq!(unexplained, None, "each release is compared, or has the code of one that is");
    }

    #[test]
    fn original_is_compared_with_what_runs_in_its_place() {
        let library = Library::built_in().unwrap();
        let function = "function-auto-ready";
        let table = [("v0.7.0+cel", "v0.7.0"), ("v0.2.1", "v0.5.2"), ("newest", "v0.7.0")];
        for (original, version) in table {
            assert_eq!(replaced_by(&library, function, original).as_deref(), Some(version), "{original}");
        }
        assert_eq!(replaced_by(&library, function, "v9.0.0"), None);
    }
}
