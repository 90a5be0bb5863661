//! Valid references to images.
//!
//! Follows the grammar of distribution's references (github.com/distribution/reference v0.6.0), with two differences: the registry
//! must be there or be given as a default, and of digests only `sha256` and `sha512` are taken.

use std::fmt;
use std::str::FromStr;

use super::digest::{Digest, shortened};
use super::parts::ImageReference;

/// How long registry and repository may be together.
const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;
/// The tag of an image whose reference has neither tag nor digest.
const DEFAULT_TAG: &str = "latest";
/// Docker's registry, whose repositories without a namespace are in `library`.
const DOCKER: &str = "docker.io";

/// Where an image is: a registry, a repository in it, and a tag or a digest or both. Where both are there, the digest decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Text that is no reference to an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidReference {
    text: String,
    problem: &'static str,
}

impl Reference {
    /// Read a reference. One that names no registry is in `default_registry`.
    pub fn parse(text: &str, default_registry: Option<&str>) -> Result<Self, InvalidReference> {
        let invalid = |problem| InvalidReference { text: shortened(text), problem };
        let parts = ImageReference::parse(text);
        let (registry, path) = registry_and_path(parts.repository);
        let registry = registry.or(default_registry).ok_or_else(|| invalid("it names no registry"))?;
        let repository = if registry == DOCKER && !path.contains('/') {
            format!("library/{path}")
        } else {
            path.to_owned()
        };
        check_name(registry, &repository).map_err(invalid)?;
        if parts.tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid("its tag is not valid"));
        }
        let digest = parts.digest.map(str::parse).transpose();
        let digest = digest.map_err(|_| invalid("its digest is not valid"))?;
        let tag = parts.tag.map(str::to_owned);
        Ok(Self { registry: registry.to_ascii_lowercase(), repository, tag, digest })
    }

    /// Host and port of the registry.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag as it was written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What to ask the registry for: the digest, else the tag, else `latest`.
    pub fn selector(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => DEFAULT_TAG.to_owned(),
        }
    }

    /// The same image, whatever happens to the tag.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        Self::parse(text, None)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(formatter, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for InvalidReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` is no reference to an image: {}; write it as registry.example.org/path/name:tag or \
             registry.example.org/path/name@sha256:…",
            self.text, self.problem
        )
    }
}

impl std::error::Error for InvalidReference {}

/// The first part is a registry if it looks like a host, as Docker decides it.
fn registry_and_path(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, path))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (Some(first), path)
        }
        _ => (None, name),
    }
}

fn check_name(registry: &str, repository: &str) -> Result<(), &'static str> {
    if registry.len() + 1 + repository.len() > LONGEST_NAME {
        return Err("its name is longer than 255 characters");
    }
    if !is_registry(registry) {
        return Err("its registry is not a host with an optional port");
    }
    if !repository.split('/').all(is_path_component) {
        return Err(
            "its path must have parts of lower-case letters and digits, separated by `.`, `_`, `__` or `-`",
        );
    }
    Ok(())
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, rest)) => {
                let port = rest.strip_prefix(':');
                if address.parse::<std::net::Ipv6Addr>().is_err() || (port.is_none() && !rest.is_empty()) {
                    return false;
                }
                return port.is_none_or(is_port);
            }
            None => return false,
        },
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    host.split('.').all(is_host_label) && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_path_component(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(is_word)
        && part.ends_with(is_word)
        && part.split(is_word).filter(|separator| !separator.is_empty()).all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= LONGEST_TAG
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

    #[test]
    fn reference_is_read_and_written_alike() {
        for (text, registry, repository, selector) in [
            ("registry.example.org/name", "registry.example.org", "name", "latest"),
            ("registry.example.org/org/name:v1.2.3", "registry.example.org", "org/name", "v1.2.3"),
            ("localhost/name:v1", "localhost", "name", "v1"),
            ("localhost:5000/name:v1", "localhost:5000", "name", "v1"),
            ("127.0.0.1:5000/a/b/c", "127.0.0.1:5000", "a/b/c", "latest"),
            ("[::1]:5000/name:v1", "[::1]:5000", "name", "v1"),
            ("registry.example.org/a.b_c__d--e:_V.1-x", "registry.example.org", "a.b_c__d--e", "_V.1-x"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(
                (reference.registry(), reference.repository(), reference.selector().as_str()),
                (registry, repository, selector),
            );
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn digest_decides_where_there_is_a_tag_too() {
        let reference: Reference = format!("registry.example.org/name:v1@{DIGEST}").parse().unwrap();
        assert_eq!(reference.selector(), DIGEST);
        assert_eq!(reference.tag(), Some("v1"));
    }

    #[test]
    fn reference_without_a_registry_needs_a_default() {
        let message = "org/name:v1".parse::<Reference>().unwrap_err().to_string();
        assert!(message.contains("it names no registry"), "{message}");
        let reference = Reference::parse("org/name:v1", Some("registry.example.org")).unwrap();
        assert_eq!(reference.to_string(), "registry.example.org/org/name:v1");
        let other = Reference::parse("localhost:1/name", Some("registry.example.org")).unwrap();
        assert_eq!(other.registry(), "localhost:1");
    }

    #[test]
    fn images_of_docker_without_a_namespace_are_in_its_library() {
        let reference = Reference::parse("busybox:1", Some(DOCKER)).unwrap();
        assert_eq!(reference.to_string(), format!("{DOCKER}/library/busybox:1"));
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for text in [
            "",
            "registry.example.org",
            "registry.example.org/",
            "registry.example.org//name",
            "registry.example.org/Name",
            "registry.example.org/-name",
            "registry.example.org/a...b",
            "registry.example.org/a___b",
            "registry.example.org/../etc",
            "registry.example.org/a/./b",
            "registry.example.org/name:",
            "registry.example.org/name:.tag",
            "registry.example.org/name:a b",
            "registry.example.org/name@sha256:0a",
            "registry.example.org/name@",
            "registry.example.org:0/name",
            "registry.example.org:+1/name",
            "registry.example.org:99999/name",
            "registry..example.org/name",
            "user:password@registry.example.org/name",
            "https://registry.example.org/name",
            "registry.example.org/name?x=1",
            "registry.example.org/na\nme",
            "[::1/name",
            "[::1]x/name",
            "[not]:1/name",
            &format!("registry.example.org/name:{}", "a".repeat(129)),
            &format!("registry.example.org/{}", "a".repeat(255)),
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
