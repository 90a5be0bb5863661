//! Which images are pulled every time: those whose tag is `latest`, or that say none.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/v1/defaults.go`, `pkg/util/parsers/parsers.go`.

/// The policy for an image that says none.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    let (path, tag) = match last.rsplit_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    if !is_name(path) {
        return false;
    }
    match (tag, digest) {
        (Some(tag), _) => tag == "latest",
        (None, Some(_)) => false,
        (None, None) => true,
    }
}

/// Whether it is a name of an image at all: one that is not has no tag.
fn is_name(name: &str) -> bool {
    let mut parts = name.split('/').peekable();
    let first = parts.peek().copied().unwrap_or_default();
    let has_domain = name.contains('/')
        && (first.contains(['.', ':'])
            || first == "localhost"
            || first.chars().any(|c| c.is_ascii_uppercase()));
    if has_domain {
        parts.next();
    }
    let mut parts = parts.peekable();
    parts.peek().is_some() && parts.all(is_component)
}

/// Lower case letters and digits, separated by a period, one or two underscores, or dashes.
fn is_component(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    is_word(*first)
        && is_word(*last)
        && separators.filter(|separator| !separator.is_empty()).all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latest_images_are_always_pulled() {
        for image in ["nginx", "nginx:latest", "localhost:5000/a/b", "example.org/a:latest"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["", "nginx:1", "a@sha256:b", "Nginx", "localhost:5000/a:v1", "-", "a/", "a b"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
