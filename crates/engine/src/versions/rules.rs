//! The rules for the versions of a function, so that no release breaks its users without notice.

use std::collections::BTreeSet;

use super::{Family, InvalidVersion, LifecycleState, Record, Version, VersionSource};

/// How many minor releases a deprecated version is kept at least.
const NOTICE: u64 = 2;

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("function `{function}` is registered already")]
    DuplicateFunction { function: String },
    #[error("function `{function}` has version {version} twice")]
    DuplicateVersion { function: String, version: Version },
    #[error("function `{function}`: {problem}")]
    InvalidVersion { function: String, problem: InvalidVersion },
    #[error("function `{function}` has no versions")]
    NoVersions { function: String },
    #[error("function `{function}`: the stable version {stable} is not among its versions ({versions})")]
    StableUnknown { function: String, stable: Version, versions: String },
    #[error(
        "function `{function}`: the stable version {stable} is {state} in release {release}: promote another one"
    )]
    StableGone { function: String, stable: Version, state: LifecycleState, release: String },
    #[error(
        "function `{function}` {version} is deprecated in {deprecated} and removed in {removed}: at least {NOTICE} minor \
         releases have to lie between"
    )]
    ShortNotice { function: String, version: Version, deprecated: String, removed: String },
    #[error("function `{function}` {version} is removed in {removed} but never deprecated")]
    NoNotice { function: String, version: Version, removed: String },
    #[error(
        "function `{function}` {version} is deprecated in {deprecated}, before it is introduced in {introduced}"
    )]
    BackInTime { function: String, version: Version, introduced: String, deprecated: String },
    #[error("function `{function}` {version} is replaced by {replacement}, which is not among its versions")]
    ReplacementUnknown { function: String, version: Version, replacement: Version },
    #[error("function `{function}` {version} is listed, but there is no code for it")]
    NotImplemented { function: String, version: Version },
    #[error("function `{function}` {version} was removed, but there still is code for it")]
    StillImplemented { function: String, version: Version },
    #[error("function `{function}` {version} is there, but is not listed in the versions file")]
    NotListed { function: String, version: Version },
    #[error("function `{function}`: the versions file says {listed} is stable, the code says {declared}")]
    StableDisputed { function: String, listed: Version, declared: Version },
    #[error(
        "function `{function}` {version} was released once and may not vanish from the versions file: keep its entry, with \
         `removedIn`"
    )]
    Vanished { function: String, version: Version },
}

/// All rules that the versions of one function break. Packages have no rules.
pub(super) fn check(family: &Family, release: &Version) -> Vec<Fault> {
    let function = || family.function.clone();
    let mut faults = Vec::new();
    if family.records.is_empty() {
        faults.push(Fault::NoVersions { function: function() });
    }
    // The authors of packages make no promises to us; only what we ship has to keep ours.
    let built_in = family.records.iter().filter(|record| record.source == VersionSource::BuiltIn);
    let mut seen = BTreeSet::new();
    for record in built_in {
        let Some(version) = &record.version else { continue };
        if !seen.insert(version) {
            faults.push(Fault::DuplicateVersion { function: function(), version: version.clone() });
        }
        faults.extend(check_lifecycle(family, record, version));
        let is_removed = family.state(record, release) == LifecycleState::Removed;
        match (is_removed, record.is_implemented) {
            (false, false) => {
                faults.push(Fault::NotImplemented { function: function(), version: version.clone() });
            }
            // Code that is kept after its removal would still be called by those who named the version before.
            (true, true) => {
                faults.push(Fault::StillImplemented { function: function(), version: version.clone() });
            }
            _ => {}
        }
    }
    faults.extend(check_stable(family, release));
    faults
}

fn check_stable(family: &Family, release: &Version) -> Option<Fault> {
    let (function, stable) = (family.function.clone(), family.stable.clone()?);
    let Some(record) = family.version(&stable) else {
        let versions: Vec<_> = family.records.iter().filter_map(|record| record.version.as_ref()).collect();
        let versions: Vec<_> = versions.iter().map(ToString::to_string).collect();
        return Some(Fault::StableUnknown { function, stable, versions: versions.join(", ") });
    };
    match family.state(record, release) {
        // A stable version that is deprecated would warn all users who named no version, and who could do nothing
        // about it.
        LifecycleState::Stable => None,
        state => Some(Fault::StableGone { function, stable, state, release: release.plain() }),
    }
}

fn check_lifecycle(family: &Family, record: &Record, version: &Version) -> Vec<Fault> {
    let (function, version) = (family.function.clone(), version.clone());
    let life = &record.lifecycle;
    let mut faults = Vec::new();
    match (&life.deprecated_in, &life.removed_in) {
        (Some(deprecated), Some(removed)) if !is_fair_notice(deprecated, removed) => {
            let (deprecated, removed) = (deprecated.plain(), removed.plain());
            let (function, version) = (function.clone(), version.clone());
            faults.push(Fault::ShortNotice { function, version, deprecated, removed });
        }
        (None, Some(removed)) => {
            let (function, version, removed) = (function.clone(), version.clone(), removed.plain());
            faults.push(Fault::NoNotice { function, version, removed });
        }
        _ => {}
    }
    if let (Some(introduced), Some(deprecated)) = (&life.introduced_in, &life.deprecated_in)
        && deprecated < introduced
    {
        let (introduced, deprecated) = (introduced.plain(), deprecated.plain());
        let (function, version) = (function.clone(), version.clone());
        faults.push(Fault::BackInTime { function, version, introduced, deprecated });
    }
    if let Some(replacement) = &life.replaced_by
        && family.version(replacement).is_none()
    {
        faults.push(Fault::ReplacementUnknown { function, version, replacement: replacement.clone() });
    }
    faults
}

/// Whether enough minor releases are between deprecation and removal. How many the old major had after the deprecation is unknown: only
/// those of the new one count.
fn is_fair_notice(deprecated: &Version, removed: &Version) -> bool {
    let releases = match removed.major().checked_sub(deprecated.major()) {
        None => return false,
        Some(0) => removed.minor().saturating_sub(deprecated.minor()),
        Some(majors) => majors.saturating_add(removed.minor()),
    };
    releases >= NOTICE
}
