//! The location of templates that a step reads from elsewhere: an artefact in a registry, or a repository of git. Fetches nothing.
//!
//! Our own design, from the form in Crossplane's design of composition functions (`source: Remote`); no release has it. The text alone
//! decides what is fetched: it names content by a digest or a commit, never by something that can move.

use std::fmt;

use ferroplane_api::Object;
use ferroplane_api::image::{Digest, Reference};
use serde_json::Value;

/// The name of the source of templates from elsewhere.
pub const REMOTE_SOURCE: &str = "Remote";

/// The remedy if templates from elsewhere are disabled.
pub const REMOTE_TEMPLATES_ARE_OFF: &str =
    "templates are not fetched from there: `--allow-remote-templates` lists where they may come from";

/// The templates in a directory of fetched content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTemplates {
    pub repository: RemoteRepository,
    /// The directory, without slashes around it. Empty for the whole content.
    pub directory: String,
}

/// The content to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteRepository {
    /// An artefact in a registry. The reference has a digest.
    Artifact(Reference),
    /// A commit of a repository of git.
    Git {
        /// Host and path, without a scheme.
        location: String,
        commit: String,
    },
}

/// Why a text is no valid location of templates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRemote {
    #[error("remote: `{0}` begins with none of oci://, git:// and https://")]
    Scheme(String),
    #[error(
        "remote: `{0}` has no digest: templates have to be pinned; write oci://registry.example.org/path@sha256:…"
    )]
    NoDigest(String),
    #[error("remote: {0}")]
    Reference(String),
    #[error(
        "remote: `{0}` has no commit: templates have to be pinned; write git://git.example.org/path@ and the 40 or 64 digits of a commit"
    )]
    NoCommit(String),
    #[error("remote: `{0}` is not the address of a repository; write git://git.example.org/path@COMMIT")]
    Location(String),
    #[error("remote: `{0}` is not a directory; write #path/to/directory behind the digest or commit")]
    Directory(String),
}

impl RemoteTemplates {
    /// Parse `oci://HOST/PATH@DIGEST#DIRECTORY` or `git://HOST/PATH@COMMIT#DIRECTORY`. A repository of git is fetched with HTTPS, also if
    /// it is written as `git://`.
    pub fn parse(text: &str) -> Result<Self, InvalidRemote> {
        let (place, directory) = text.split_once('#').map_or((text, None), |(place, it)| (place, Some(it)));
        let directory = match directory {
            None => String::new(),
            Some(directory) => {
                read_directory(directory).ok_or_else(|| InvalidRemote::Directory(shown(text)))?
            }
        };
        let repository = if let Some(reference) = place.strip_prefix("oci://") {
            artifact(reference, text)?
        } else if let Some(place) = place.strip_prefix("git://").or_else(|| place.strip_prefix("https://")) {
            git(place, text)?
        } else {
            return Err(InvalidRemote::Scheme(shown(text)));
        };
        Ok(Self { repository, directory })
    }

    /// The location in an input of function-go-templating, if its templates come from elsewhere.
    pub fn named_by(input: &Object) -> Option<&str> {
        let is_remote = input.get("source").is_some_and(|source| source == REMOTE_SOURCE);
        input.get("remote").and_then(Value::as_str).filter(|_| is_remote)
    }

    /// Host and path.
    pub fn location(&self) -> String {
        match &self.repository {
            RemoteRepository::Artifact(reference) => {
                format!("{}/{}", reference.registry(), reference.repository())
            }
            RemoteRepository::Git { location, .. } => location.clone(),
        }
    }

    /// Whether it is within a listed location: a host, or a host and the beginning of a path, up to a slash.
    pub fn is_within(&self, listed: &str) -> bool {
        let (location, listed) = (self.location(), listed.trim_end_matches('/'));
        let (host, path) = location.split_once('/').unwrap_or((&location, ""));
        let (listed_host, listed_path) = listed.split_once('/').unwrap_or((listed, ""));
        let is_below = path
            .strip_prefix(listed_path)
            .is_some_and(|rest| listed_path.is_empty() || rest.is_empty() || rest.starts_with('/'));
        !listed_host.is_empty() && host.eq_ignore_ascii_case(listed_host) && is_below
    }
}

impl fmt::Display for RemoteTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repository {
            RemoteRepository::Artifact(reference) => write!(f, "oci://{reference}")?,
            RemoteRepository::Git { location, commit } => write!(f, "git://{location}@{commit}")?,
        }
        if self.directory.is_empty() { Ok(()) } else { write!(f, "#{}", self.directory) }
    }
}

fn artifact(reference: &str, text: &str) -> Result<RemoteRepository, InvalidRemote> {
    let reference: Reference =
        reference.parse().map_err(|error| InvalidRemote::Reference(format!("{error}")))?;
    match reference.digest().map(Digest::algorithm) {
        Some(_) => Ok(RemoteRepository::Artifact(reference)),
        None => Err(InvalidRemote::NoDigest(shown(text))),
    }
}

fn git(place: &str, text: &str) -> Result<RemoteRepository, InvalidRemote> {
    // From the right: a location with a user in it, `user@host`, is refused below, and must not be taken for a
    // commit.
    let (location, commit) = place.rsplit_once('@').ok_or_else(|| InvalidRemote::NoCommit(shown(text)))?;
    let is_hash = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if ![40, 64].contains(&commit.len()) || !commit.bytes().all(is_hash) {
        return Err(InvalidRemote::NoCommit(shown(text)));
    }
    // Only names are allowed: git and URLs interpret users and passwords, options, queries and spaces.
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-._~/:[]".contains(&letter);
    let (host, path) = location.split_once('/').unwrap_or((location, ""));
    let is_host = !host.is_empty() && !host.starts_with(['-', '.', ':']);
    let is_path = !path.is_empty() && path.split('/').all(is_name);
    if !location.bytes().all(is_plain) || !is_host || !is_path || path.contains([':', '[', ']']) {
        return Err(InvalidRemote::Location(shown(text)));
    }
    Ok(RemoteRepository::Git { location: location.to_owned(), commit: commit.to_owned() })
}

/// A directory without slashes around it, and without parts that leave it.
fn read_directory(text: &str) -> Option<String> {
    let directory = text.trim_matches('/');
    let is_plain = !directory.contains(['\\', '\0', '\n', '#']);
    (is_plain && (directory.is_empty() || directory.split('/').all(is_name))).then(|| directory.to_owned())
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && !part.starts_with('-')
}

/// A text, shortened for a message.
fn shown(text: &str) -> String {
    text.chars().take(200).filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn digest() -> String {
        format!("sha256:{}", "ab".repeat(32))
    }

    #[test]
    fn pinned_places_are_read_and_print_as_they_were_written() {
        for text in [
            format!("oci://registry.example.org/platform/templates@{}", digest()),
            format!("oci://registry.example.org:5000/templates:v1@{}#charts/web", digest()),
            format!("git://git.example.org/platform/templates.git@{COMMIT}"),
            format!("git://127.0.0.1:8080/t@{COMMIT}{}#a/b", &COMMIT[..24]),
        ] {
            assert_eq!(RemoteTemplates::parse(&text).unwrap().to_string(), text);
        }
        let https = RemoteTemplates::parse(&format!("https://git.example.org/t@{COMMIT}#/a/")).unwrap();
        assert_eq!(https.to_string(), format!("git://git.example.org/t@{COMMIT}#a"));
    }

    #[test]
    fn what_is_not_pinned_or_leads_elsewhere_is_refused() {
        for text in [
            "",
            "registry.example.org/templates",
            "file:///etc",
            "oci://registry.example.org/templates",
            "oci://registry.example.org/templates:v1",
            "oci://registry.example.org/templates@sha256:ab",
            "git://git.example.org/t",
            "git://git.example.org/t@main",
            "git://git.example.org/t@0123456",
            &format!("git://git.example.org/t@{}", COMMIT.to_uppercase()),
            &format!("git://git.example.org@{COMMIT}"),
            &format!("git://user:password@git.example.org/t@{COMMIT}"),
            &format!("git://git.example.org/../t@{COMMIT}"),
            &format!("git://--upload-pack=x/t@{COMMIT}"),
            &format!("git://git.example.org/--t@{COMMIT}"),
            &format!("git://git.example.org/t?x=y@{COMMIT}"),
            &format!("git://git.example.org/a b@{COMMIT}"),
            &format!("git://git.example.org/t@{COMMIT}#../x"),
            &format!("git://git.example.org/t@{COMMIT}#a//b"),
            &format!("git://git.example.org/t@{COMMIT}#a#b"),
            &format!("ssh://git.example.org/t@{COMMIT}"),
            &format!("http://git.example.org/t@{COMMIT}"),
        ] {
            let refused = RemoteTemplates::parse(text);
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
        let unpinned = RemoteTemplates::parse("oci://registry.example.org/t:v1").unwrap_err();
        assert!(unpinned.to_string().contains("templates have to be pinned"), "{unpinned}");
    }

    #[test]
    fn place_is_within_a_host_or_the_beginning_of_a_path() {
        let place = RemoteTemplates::parse(&format!("git://git.example.org/platform/t@{COMMIT}")).unwrap();
        for listed in
            ["git.example.org", "GIT.example.org/", "git.example.org/platform", "git.example.org/platform/t"]
        {
            assert!(place.is_within(listed), "{listed}");
        }
        for listed in [
            "",
            "/",
            "example.org",
            "git.example.org.evil.example",
            "git.example.org/plat",
            "git.example.org:8443",
            "git.example.org/platform/t/u",
        ] {
            assert!(!place.is_within(listed), "{listed}");
        }
    }
}
