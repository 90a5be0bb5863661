//! Chooses a version that meets all constraints.

use ferroplane_api::{LockPackage, PackageKind};
use ferroplane_golang::semver::{Constraints, Version};

use super::ResolveOptions;
use crate::packages::dependencies::is_digest;

/// The constraint of one package on another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) by: &'a LockPackage,
    pub(super) kind: Option<PackageKind>,
    pub(super) constraints: &'a str,
}

/// The version to install. A new package gets the highest accepted one. An installed one moves as little as possible: to the lowest above
/// its own, or where that is allowed, the highest below.
pub(super) fn choose(
    wishes: &[Wish<'_>],
    tags: &[String],
    current: Option<&str>,
    options: ResolveOptions,
) -> Result<String, String> {
    if let Some(digest) = digest(wishes)? {
        return Ok(digest);
    }
    let accepted = accepted(wishes, tags)?;
    let none = || {
        let count = tags.len();
        format!("none of the {count} tags of its registry is a version that all constraints accept")
    };
    // An installed version that is a digest or the name of a branch is neither above nor below any other.
    let Some(current) = current.and_then(|current| Version::parse(current).ok()) else {
        return accepted.last().map(|(_, tag)| tag.clone()).ok_or_else(none);
    };
    let up = accepted.iter().find(|(version, _)| version.compare(&current).is_ge());
    let down = || accepted.iter().rev().find(|(version, _)| version.compare(&current).is_lt());
    match (up, options.downgrades) {
        (Some((_, tag)), _) => Ok(tag.clone()),
        (None, true) => down().map(|(_, tag)| tag.clone()).ok_or_else(none),
        (None, false) => match down() {
            Some((_, tag)) => Err(format!(
                "`{tag}` is accepted, but older than the installed version, and downgrades are not enabled"
            )),
            None => Err(none()),
        },
    }
}

/// The digest in the constraints, if there is one.
fn digest(wishes: &[Wish<'_>]) -> Result<Option<String>, String> {
    let mut digests: Vec<&str> =
        wishes.iter().map(|wish| wish.constraints.trim()).filter(|text| is_digest(text)).collect();
    let Some(first) = digests.first().copied() else { return Ok(None) };
    if digests.len() != wishes.len() {
        return Err("some want a digest and others a range of versions".to_owned());
    }
    digests.dedup();
    if digests.len() > 1 {
        return Err("different digests are wanted".to_owned());
    }
    Ok(Some(first.to_owned()))
}

/// The tags that are whole versions and that all constraints accept, lowest first.
fn accepted(wishes: &[Wish<'_>], tags: &[String]) -> Result<Vec<(Version, String)>, String> {
    let mut constraints = Vec::new();
    for wish in wishes {
        let parsed = Constraints::parse(wish.constraints);
        constraints.push(parsed.map_err(|_| {
            format!(
                "`{}` of {} is neither a range of versions nor a digest",
                wish.constraints, wish.by.source
            )
        })?);
    }
    let mut accepted: Vec<(Version, String)> = tags
        .iter()
        .filter_map(|tag| Some((whole_version(tag)?, tag.clone())))
        .filter(|(version, _)| constraints.iter().all(|constraint| constraint.check(version)))
        .collect();
    accepted.sort_by(|(one, _), (other, _)| one.compare(other));
    Ok(accepted)
}

/// A version with all of its parts. Tags such as `v1` move between versions.
fn whole_version(tag: &str) -> Option<Version> {
    let version = Version::parse(tag).ok()?;
    let text = version.to_string();
    (tag == text || tag.strip_prefix('v') == Some(&text)).then_some(version)
}
