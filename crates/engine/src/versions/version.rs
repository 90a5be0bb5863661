//! Versions of functions and releases of the plane.

use std::fmt;
use std::str::FromStr;

/// The version of a function, or a release of the plane. Build metadata is no part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

/// Text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version: write all three numbers, as in `v1.2.3` or `v1.2.3-rc.1`")]
pub struct InvalidVersion(pub String);

impl Version {
    /// The version of a function without versions.
    pub const UNVERSIONED: Self = Self(semver::Version::new(0, 0, 0));

    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    pub fn major(&self) -> u64 {
        self.0.major
    }

    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// The version without `v`, as releases are written.
    pub fn plain(&self) -> String {
        self.0.to_string()
    }

    /// For comparing with a range of versions.
    pub fn semver(&self) -> &semver::Version {
        &self.0
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    /// The leading `v` may be left out.
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let mut version = semver::Version::parse(text.strip_prefix('v').unwrap_or(text))
            .map_err(|_| InvalidVersion(text.to_owned()))?;
        // The crate orders versions by build metadata, too, which semantic versioning forbids: two builds are
        // one version here.
        version.build = semver::BuildMetadata::EMPTY;
        Ok(Self(version))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn leading_v_and_build_metadata_make_no_difference() {
        assert_eq!(version("0.1.0"), version("v0.1.0"));
        assert_eq!(version("v0.1.0+build.7"), version("v0.1.0"));
        assert_eq!(version("0.1.0").to_string(), "v0.1.0");
    }

    #[test]
    fn pre_release_is_part_of_the_version_and_comes_before_it() {
        assert!(version("v1.0.0-alpha") < version("v1.0.0"));
        assert_ne!(version("v1.0.0-alpha"), version("v1.0.0-beta"));
    }

    #[test]
    fn text_that_is_no_version_is_quoted_with_the_expected_form() {
        for text in ["abc", "v1", "1.2", "", "vv1.0.0", "01.0.0", "1.0.0.0", "latest"] {
            let error = text.parse::<Version>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is not a version")) && error.contains("v1.2.3"),
                "{error}"
            );
        }
    }
}
