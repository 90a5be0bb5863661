//! Semantic versions.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/semverlib.go`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use ferroplane_golang::strconv::quote;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::object::LibraryObject;
use crate::value::Value;

#[derive(Debug, Clone)]
pub struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
    build: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.pre_release.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { '-' } else { '.' })?;
        }
        for (index, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}

impl Semver {
    /// What was built does not matter, and a release comes after what preceded it.
    fn order(&self, other: &Self) -> Ordering {
        let releases = || match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => order_identifiers(&self.pre_release, &other.pre_release),
        };
        self.numbers.cmp(&other.numbers).then_with(releases)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<_> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "major")?;
        let minor = number(minor, "minor")?;
        // Build metadata goes first, because it may have dashes in it.
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, build.split('.').map(str::to_owned).collect()),
            None => (rest, Vec::new()),
        };
        let (patch, pre_release) = match rest.split_once('-') {
            Some((patch, pre_release)) => (patch, pre_release.split('.').collect()),
            None => (rest, Vec::new()),
        };
        let patch = number(patch, "patch")?;
        let pre_release = pre_release.into_iter().map(identifier).collect::<Result<_, _>>()?;
        if build.iter().any(String::is_empty) {
            return Err("Build meta data is empty".to_owned());
        }
        if let Some(wrong) = build.iter().find(|part| !part.chars().all(is_allowed)) {
            return Err(format!("Invalid character(s) found in build meta data {}", quote(wrong)));
        }
        Ok(Self { numbers: [major, minor, patch], pre_release, build })
    }

    /// Reads also versions with a `v` before them, with leading zeros or without all numbers.
    fn parse_tolerantly(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn order_identifiers(one: &[Identifier], other: &[Identifier]) -> Ordering {
    for (one, other) in one.iter().zip(other) {
        let order = match (one, other) {
            (Identifier::Number(one), Identifier::Number(other)) => one.cmp(other),
            (Identifier::Number(_), Identifier::Text(_)) => Ordering::Less,
            (Identifier::Text(_), Identifier::Number(_)) => Ordering::Greater,
            (Identifier::Text(one), Identifier::Text(other)) => one.cmp(other),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    one.len().cmp(&other.len())
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-'
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    if text.is_empty() {
        return Err("strconv.ParseUint: parsing \"\": invalid syntax".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            ));
        }
        let number = text.parse();
        return number
            .map(Identifier::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)));
    }
    if text.chars().all(is_allowed) {
        return Ok(Identifier::Text(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {}", quote(text)))
}

pub(super) fn semver<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let parsed = match values {
        [Value::String(text), Value::Bool(true)] => Semver::parse_tolerantly(text.as_str()),
        [Value::String(text), ..] => Semver::parse(text.as_str()),
        [Value::Object(object)] => {
            let LibraryObject::Semver(version) = &**object else { return Err(Fault::no_such_overload()) };
            let index = match context.function {
                "major" => 0,
                "minor" => 1,
                _ => 2,
            };
            // Go converts without a check, so that a number past the largest int becomes negative.
            return Ok(Value::Int(version.numbers[index].cast_signed()));
        }
        _ => return Err(Fault::no_such_overload()),
    };
    match context.function {
        "isSemver" => Ok(Value::Bool(parsed.is_ok())),
        _ => Ok(Value::Object(Arc::new(LibraryObject::Semver(parsed.map_err(Fault::new)?)))),
    }
}

/// Compares two versions or two quantities.
pub(super) fn compare<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::Object(one), Value::Object(other)] = values else { return Err(Fault::no_such_overload()) };
    let order = match (&**one, &**other) {
        (LibraryObject::Semver(one), LibraryObject::Semver(other)) => one.order(other),
        (LibraryObject::Quantity(one), LibraryObject::Quantity(other)) => one.cmp(other),
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(match context.function {
        "isGreaterThan" => Value::Bool(order == Ordering::Greater),
        "isLessThan" => Value::Bool(order == Ordering::Less),
        _ => Value::Int(order as i64),
    })
}
