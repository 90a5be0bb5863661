//! Which packages need not be run, because what is in them is built in.

use ferroplane_engine::ImageReference;
use ferroplane_engine::versions::{Native, Version};

use super::Library;

impl Library {
    /// Whether this package, as a Function names it, can be replaced. Which registry it comes from does not
    /// matter, as packages are often mirrored; who made it does. Organisations that publish the same package
    /// under their own name are listed as its mirrors.
    pub fn native(&self, package: &str) -> Native {
        let ImageReference { repository, tag, .. } = ImageReference::parse(package);
        if repository.is_empty() {
            return Native::Unknown;
        }
        let is_it = |package: &str| {
            // A whole part of the path, or `evil-crossplane-contrib/function-dummy` would pass for the
            // original.
            repository.strip_suffix(package).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let Some((function, entry)) =
            self.entries.iter().find(|(_, entry)| entry.contract.packages().any(is_it))
        else {
            return Native::Unknown;
        };
        let version = tag.and_then(|tag| tag.parse::<Version>().ok());
        // Of two versions that cover it, the later one has fewer faults.
        let covering = entry.versions.iter().rev().find(|(_, (metadata, code))| {
            let covers = metadata.covers.as_ref().zip(version.as_ref());
            code.is_some() && covers.is_some_and(|(range, version)| range.matches(version.semver()))
        });
        match covering {
            Some((version, _)) => Native::Covered { function: function.clone(), version: version.clone() },
            None => Native::NotCovered {
                function: function.clone(),
                covered: entry
                    .versions
                    .values()
                    .filter_map(|(metadata, _)| Some(metadata.covers.as_ref()?.to_string()))
                    .collect(),
            },
        }
    }
}
