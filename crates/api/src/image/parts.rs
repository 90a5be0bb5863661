//! The parts of a reference to an image, whether or not they are valid.

/// The parts of a reference to an image, such as `registry.example.org:5000/org/name:v1.2.3@sha256:…`. For callers that only need the
/// name or the tag; to fetch an image takes a [`Reference`](super::Reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageReference<'a> {
    /// Registry and path.
    pub repository: &'a str,
    pub tag: Option<&'a str>,
    pub digest: Option<&'a str>,
}

impl<'a> ImageReference<'a> {
    /// Take a reference apart. What is not a reference has no parts that could be missing: nothing is refused.
    pub fn parse(image: &'a str) -> Self {
        let (tagged, digest) = match image.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (image, None),
        };
        // A colon before the last slash belongs to the port of the registry.
        match tagged.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => Self { repository, tag: Some(tag), digest },
            _ => Self { repository: tagged, tag: None, digest },
        }
    }

    /// What the image is called: the last part of its path.
    pub fn name(&self) -> &'a str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_has_a_repository_a_tag_and_a_digest() {
        for (image, repository, tag, digest, name) in [
            ("name", "name", None, None, "name"),
            ("org/name:v1.2.3", "org/name", Some("v1.2.3"), None, "name"),
            ("host:5000/org/name", "host:5000/org/name", None, None, "name"),
            ("host:5000/org/name:v1", "host:5000/org/name", Some("v1"), None, "name"),
            ("org/name@sha256:ab", "org/name", None, Some("sha256:ab"), "name"),
            ("host:5000/name:v1@sha256:ab", "host:5000/name", Some("v1"), Some("sha256:ab"), "name"),
            ("", "", None, None, ""),
        ] {
            let parsed = ImageReference::parse(image);
            assert_eq!(parsed, ImageReference { repository, tag, digest }, "{image}");
            assert_eq!(parsed.name(), name, "{image}");
        }
    }
}
