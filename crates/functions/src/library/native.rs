//! Which packages need not be run, because what is in them is built in.

use ferroplane_engine::versions::Version;

use super::Library;

/// Whether a package can be replaced by a built-in function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Native {
    /// This version of this function does what the package does.
    Covered { function: String, version: Version },
    /// The function is built in, but not as this version of the package has it.
    NotCovered { function: String, covered: Vec<String> },
    /// The package is none that we reproduce.
    Unknown,
}

impl Library {
    /// Whether this package, as a Function names it, can be replaced. Which registry it comes from does not
    /// matter, as packages are often mirrored; who made it does.
    pub fn native(&self, package: &str) -> Native {
        let Some((repository, tag)) = split(package) else { return Native::Unknown };
        let is_it = |of: &Option<String>| {
            of.as_deref()
                .and_then(|of| repository.strip_suffix(of))
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let Some((function, book)) = self.books.iter().find(|(_, book)| is_it(&book.contract.package)) else {
            return Native::Unknown;
        };
        let version = tag.and_then(|tag| tag.parse::<Version>().ok());
        // Of two versions that cover it, the later one has fewer faults.
        let covering = book.versions.iter().rev().find(|(_, (terms, code))| {
            let covers = terms.covers.as_ref().zip(version.as_ref());
            code.is_some() && covers.is_some_and(|(range, version)| range.matches(version.semver()))
        });
        match covering {
            Some((version, _)) => Native::Covered { function: function.clone(), version: version.clone() },
            None => Native::NotCovered {
                function: function.clone(),
                covered: book
                    .versions
                    .values()
                    .filter_map(|(terms, _)| Some(terms.covers.as_ref()?.to_string()))
                    .collect(),
            },
        }
    }
}

/// `registry.example:5000/org/name:v1.2.3@sha256:…` → (`registry.example:5000/org/name`, `v1.2.3`).
fn split(package: &str) -> Option<(&str, Option<&str>)> {
    let tagged = package.split('@').next().filter(|tagged| !tagged.is_empty())?;
    // A colon before the last slash belongs to the port of the registry.
    match tagged.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => Some((repository, Some(tag))),
        _ => Some((tagged, None)),
    }
}
