//! What Kubernetes takes as labels and annotations.

use std::borrow::Cow;
use std::fmt;

/// Where in the metadata of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Labels,
    Annotations,
}

impl Field {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    /// Whether the key and the value would be taken.
    pub(super) fn check(self, key: &str, value: &str) -> Result<(), String> {
        // The case of an annotation's key does not matter to Kubernetes: `ValidateAnnotations` lowers it first.
        let checked = match self {
            Self::Labels => Cow::Borrowed(key),
            Self::Annotations => Cow::Owned(key.to_lowercase()),
        };
        check_key(&checked).map_err(|problem| format!("key {key:?} {problem}"))?;
        match self {
            Self::Labels => {
                check_value(value).map_err(|problem| format!("value {value:?} of {key:?} {problem}"))
            }
            // Kubernetes bounds only all annotations of an object together, and only the API server sees all
            // of them.
            Self::Annotations => Ok(()),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether keys of this domain are Crossplane's.
pub(super) fn is_of_crossplane(domain: &str) -> bool {
    domain == "crossplane.io" || domain.ends_with(".crossplane.io")
}

const ALPHANUMERIC: &str = "must begin and end with a letter or digit";

fn check_key(key: &str) -> Result<(), &'static str> {
    let name = match key.split_once('/') {
        None => key,
        Some((domain, name)) => {
            check_domain(domain)?;
            name
        }
    };
    if name.is_empty() { Err("needs a name") } else { check_name(name) }
}

fn check_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() { Ok(()) } else { check_name(value) }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // Apimachinery's `labelKeyMaxLength` and `LabelValueMaxLength`.
    if name.len() > 63 {
        return Err("has more than 63 characters");
    }
    if !name.bytes().all(is_fine) {
        return Err("may have only letters, digits, '-', '_' and '.'");
    }
    has_sound_ends(name).then_some(()).ok_or(ALPHANUMERIC)
}

fn check_domain(domain: &str) -> Result<(), &'static str> {
    let is_part = |part: &str| {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        part.bytes().all(is_fine) && has_sound_ends(part)
    };
    // Apimachinery's `DNS1123SubdomainMaxLength`.
    let is_domain = domain.len() <= 253 && domain.split('.').all(is_part);
    is_domain.then_some(()).ok_or("does not begin with a domain in lower case")
}

fn has_sound_ends(text: &str) -> bool {
    let is_sound = |letter: char| letter.is_ascii_alphanumeric();
    text.starts_with(is_sound) && text.ends_with(is_sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_checked_as_kubernetes_would() {
        for (key, value) in [("team", ""), ("a.b/c_d", "A-1.b"), ("x", &"v".repeat(63))] {
            assert_eq!(Field::Labels.check(key, value), Ok(()), "{key}={value}");
        }
        for (key, value) in [
            ("", "v"),
            ("-a", "v"),
            ("a b", "v"),
            ("A.b/c", "v"),
            ("a/b/c", "v"),
            ("/a", "v"),
            ("a", "b c"),
            ("a", &"v".repeat(64)),
        ] {
            assert!(Field::Labels.check(key, value).is_err(), "{key}={value}");
        }
        assert_eq!(Field::Annotations.check("a", "any {text}"), Ok(()));
        assert_eq!(Field::Annotations.check("A.Example.org/Team", ""), Ok(()));
        assert!(Field::Annotations.check("a_b/c", "").is_err());
    }
}
