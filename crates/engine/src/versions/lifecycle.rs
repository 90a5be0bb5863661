//! The lifecycle of a version.

use std::fmt;
use std::str::FromStr;

use super::Version;

/// The releases in which the state of a version changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// The first release that has it.
    pub introduced_in: Option<Version>,
    /// From this release on, its use is warned about.
    pub deprecated_in: Option<Version>,
    /// From this release on, its use is an error.
    pub removed_in: Option<Version>,
    /// The version to use instead.
    pub replaced_by: Option<Version>,
}

/// The state of a version in a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifecycleState {
    /// It runs for steps that name it.
    Available,
    /// It runs for steps that name no version.
    Stable,
    /// It runs, with a warning.
    Deprecated,
    /// It no longer runs.
    Removed,
}

impl Lifecycle {
    /// The state of the version in this release.
    pub fn state(&self, is_stable: bool, release: &Version) -> LifecycleState {
        let has_come = |event: &Option<Version>| event.as_ref().is_some_and(|event| event <= release);
        // The strongest state first: a stable version that is deprecated is called deprecated.
        if has_come(&self.removed_in) {
            LifecycleState::Removed
        } else if has_come(&self.deprecated_in) {
            LifecycleState::Deprecated
        } else if is_stable {
            LifecycleState::Stable
        } else {
            LifecycleState::Available
        }
    }
}

impl LifecycleState {
    pub const ALL: [Self; 4] = [Self::Available, Self::Stable, Self::Deprecated, Self::Removed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Stable => "stable",
            Self::Deprecated => "deprecated",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for LifecycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LifecycleState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str);
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is not a state: expected one of {}", known.join(", ")))
    }
}
