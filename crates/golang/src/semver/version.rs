//! A single version.
//!
//! Follows Masterminds/semver 3.4.0, `version.go`.

use std::cmp::Ordering;
use std::fmt;

use crate::strconv::quote;

/// A version with all its parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// What follows the hyphen, or nothing.
    pub prerelease: String,
    /// What follows the plus sign, or nothing.
    pub metadata: String,
    /// As it was written.
    pub original: String,
}

impl Version {
    /// Reads a version. A `v` before it is fine, and so are a missing minor or patch, and zeros in front.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "invalid semantic version".to_owned();
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let (numbers, metadata) = split_extra(numbers, '+').ok_or_else(invalid)?;
        // A hyphen may be part of the metadata, which is gone here, and of the prerelease.
        let (numbers, prerelease) = split_extra(numbers, '-').ok_or_else(invalid)?;
        let mut segments = [0; 3];
        let parts: Vec<_> = numbers.split('.').collect();
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if parts.len() > 3 || !parts.iter().all(is_number) {
            return Err(invalid());
        }
        for (segment, part) in segments.iter_mut().zip(parts) {
            *segment = part.parse().map_err(|_| {
                let part = quote(part);
                format!(
                    "error parsing version segment: strconv.ParseUint: parsing {part}: value out of range"
                )
            })?;
        }
        let has_leading_zero = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if prerelease.split('.').any(has_leading_zero) {
            return Err("version segment starts with 0".to_owned());
        }
        let [major, minor, patch] = segments;
        let (prerelease, metadata) = (prerelease.to_owned(), metadata.to_owned());
        Ok(Self { major, minor, patch, prerelease, metadata, original: text.to_owned() })
    }

    /// Which of two is newer. Metadata does not matter, and a prerelease comes before its release.
    pub fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_prereleases(&self.prerelease, &other.prerelease),
            }
        })
    }

    /// The next patch; the release itself if this is a prerelease.
    #[must_use]
    pub fn next_patch(&self) -> Self {
        // Wraps at the end of 64 bits, as Go does: a panic in debug builds would be a difference.
        let patch = self.patch.wrapping_add(u64::from(self.prerelease.is_empty()));
        self.next(Self { major: self.major, minor: self.minor, patch, ..Self::default() })
    }

    #[must_use]
    pub fn next_minor(&self) -> Self {
        self.next(Self { major: self.major, minor: self.minor.wrapping_add(1), ..Self::default() })
    }

    #[must_use]
    pub fn next_major(&self) -> Self {
        self.next(Self { major: self.major.wrapping_add(1), ..Self::default() })
    }

    /// The same with another prerelease, which may be empty.
    pub fn with_prerelease(&self, prerelease: &str) -> Result<Self, String> {
        let next = Self { prerelease: prerelease.to_owned(), ..self.clone() };
        match prerelease.split('.').find_map(check_prerelease) {
            Some(problem) if !prerelease.is_empty() => Err(problem.to_owned()),
            _ => Ok(self.next(next)),
        }
    }

    /// The same with other metadata, which may be empty.
    pub fn with_metadata(&self, metadata: &str) -> Result<Self, String> {
        let next = Self { metadata: metadata.to_owned(), ..self.clone() };
        if !metadata.is_empty() && !metadata.split('.').all(is_identifier) {
            return Err("invalid metadata string".to_owned());
        }
        Ok(self.next(next))
    }

    /// A version that was computed from this one keeps its `v`.
    fn next(&self, mut next: Self) -> Self {
        let prefix = if self.original.starts_with('v') { "v" } else { "" };
        next.original = format!("{prefix}{next}");
        next
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (sign, extra) in [('-', &self.prerelease), ('+', &self.metadata)] {
            if !extra.is_empty() {
                write!(f, "{sign}{extra}")?;
            }
        }
        Ok(())
    }
}

/// What stands before the sign, and the identifiers behind it if there is one; nothing if those are none.
fn split_extra(text: &str, sign: char) -> Option<(&str, &str)> {
    let Some((before, extra)) = text.split_once(sign) else { return Some((text, "")) };
    extra.split('.').all(is_identifier).then_some((before, extra))
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn check_prerelease(part: &str) -> Option<&'static str> {
    if !is_identifier(part) {
        return Some("invalid prerelease string");
    }
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && part.len() > 1 && part.starts_with('0')).then_some("version segment starts with 0")
}

pub(super) fn compare_prereleases(one: &str, other: &str) -> Ordering {
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (one, other) => match compare_parts(one.unwrap_or_default(), other.unwrap_or_default()) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

/// Numbers come before words. A part that is missing comes first.
fn compare_parts(one: &str, other: &str) -> Ordering {
    if one.is_empty() || other.is_empty() {
        return one.len().cmp(&other.len());
    }
    match (one.parse::<u64>(), other.parse::<u64>()) {
        _ if one == other => Ordering::Equal,
        // Of equal numbers that are written differently, the original takes the first for the smaller one: it
        // only asks which is greater.
        (Ok(one), Ok(other)) => one.cmp(&other).then(Ordering::Less),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    }
}
