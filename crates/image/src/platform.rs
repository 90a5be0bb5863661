//! Which of the images of an index runs here. Performs no I/O.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::manifest::{Descriptor, Index};
use crate::media_type;

/// An operating system and a processor, as images name them (Go's names).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub architecture: String,
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(default, rename = "os.version", skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
}

/// Why no image of an index can be chosen, or text is no platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot find an image for {wanted}: the index has images for {offered}")]
    NotOffered { wanted: String, offered: String },
    #[error(
        "`{text}` is not a platform; write it as os/architecture or os/architecture/variant, such as linux/arm64/v8"
    )]
    Invalid { text: String },
}

impl Platform {
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Self {
        let variant = variant.map(str::to_owned);
        Self { architecture: architecture.to_owned(), os: os.to_owned(), variant, os_version: None }
    }

    /// The platform that this program was built for, with Linux as its system: containers and functions are Linux programs.
    pub fn host() -> Self {
        match std::env::consts::ARCH {
            "x86_64" => Self::new("linux", "amd64", None),
            "aarch64" => Self::new("linux", "arm64", Some("v8")),
            "arm" => Self::new("linux", "arm", Some("v7")),
            "x86" => Self::new("linux", "386", None),
            "powerpc64" => Self::new("linux", "ppc64le", None),
            other => Self::new("linux", other, None),
        }
    }

    /// The image that runs on this platform. Of several the first with the best variant is taken, as containerd does it. One of
    /// WebAssembly runs everywhere, and is taken if there is no other.
    pub fn choose<'a>(&self, index: &'a Index) -> Result<&'a Descriptor, Error> {
        let candidates = index.manifests.iter().enumerate().filter(|(_, entry)| is_image(entry));
        let best = candidates
            .filter_map(|(place, entry)| {
                let fit = entry.platform.as_ref().and_then(|platform| self.fit(platform))?;
                Some((fit, std::cmp::Reverse(place), entry))
            })
            .max_by_key(|(fit, place, _)| (*fit, *place));
        let code = || index.manifests.iter().find(|entry| is_image(entry) && is_code(entry));
        match best.map(|(_, _, entry)| entry).or_else(code) {
            Some(entry) => Ok(entry),
            None => Err(Error::NotOffered { wanted: self.to_string(), offered: offered(index) }),
        }
    }

    /// How well an image for `other` runs here: not at all, or the better the higher.
    fn fit(&self, other: &Self) -> Option<u32> {
        if self.os != other.os || self.architecture != other.architecture {
            return None;
        }
        let level = |platform: &Self| match (platform.architecture.as_str(), platform.variant.as_deref()) {
            (_, Some(variant)) => variant.trim_start_matches('v').parse().ok(),
            ("arm64", None) => Some(8),
            ("arm", None) => Some(7),
            (_, None) => Some(1),
        };
        match (level(self), level(other)) {
            // Programs for an older processor run on a newer one.
            (Some(ours), Some(theirs)) => (theirs <= ours).then_some(theirs),
            _ => (self.variant == other.variant).then_some(0),
        }
    }
}

/// Attestations are listed beside images, for a platform that nothing runs on.
fn is_image(entry: &Descriptor) -> bool {
    media_type::is_manifest(&entry.media_type)
        && entry.platform.as_ref().is_none_or(|platform| platform.os != "unknown")
}

/// WebAssembly is no machine's: its system has many names (`wasi`, `wasip1`, `wasip2`, `js`), its processor has one.
fn is_code(entry: &Descriptor) -> bool {
    entry.platform.as_ref().is_some_and(|platform| platform.architecture == "wasm")
}

fn offered(index: &Index) -> String {
    let mut platforms: Vec<String> = index
        .manifests
        .iter()
        .filter(|entry| is_image(entry))
        .filter_map(|entry| entry.platform.as_ref().map(ToString::to_string))
        .collect();
    platforms.sort();
    platforms.dedup();
    platforms.truncate(20);
    if platforms.is_empty() { "no platform".to_owned() } else { platforms.join(", ") }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(formatter, "/{variant}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let words: Vec<&str> = text.split('/').collect();
        match words.as_slice() {
            [os, architecture] if is_word(os) && is_word(architecture) => {
                Ok(Self::new(os, architecture, None))
            }
            [os, architecture, variant] if is_word(os) && is_word(architecture) && is_word(variant) => {
                Ok(Self::new(os, architecture, Some(variant)))
            }
            _ => Err(Error::Invalid { text: text.chars().take(100).collect() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media_type::OCI_MANIFEST;

    fn index(platforms: &[&str]) -> Index {
        let entry = |platform: &&str| Descriptor {
            platform: Some(platform.parse().unwrap()),
            ..Descriptor::of(OCI_MANIFEST, platform.as_bytes())
        };
        Index::new(platforms.iter().map(entry).collect())
    }

    fn chosen(wanted: &str, platforms: &[&str]) -> Result<String, String> {
        let index = index(platforms);
        let wanted: Platform = wanted.parse().unwrap();
        let found = wanted.choose(&index).map_err(|error| error.to_string())?;
        Ok(found.platform.as_ref().unwrap().to_string())
    }

    #[test]
    fn image_for_the_platform_is_chosen() {
        for (wanted, offered, expected) in [
            ("linux/amd64", &["linux/arm64", "linux/amd64"][..], "linux/amd64"),
            ("linux/arm64/v8", &["linux/amd64", "linux/arm64"], "linux/arm64"),
            ("linux/arm64", &["linux/arm64/v8"], "linux/arm64/v8"),
            ("linux/arm/v7", &["linux/arm/v5", "linux/arm/v7", "linux/arm/v6"], "linux/arm/v7"),
            ("linux/arm/v6", &["linux/arm/v5", "linux/arm/v7"], "linux/arm/v5"),
            ("linux/amd64/v3", &["linux/amd64", "linux/amd64/v2", "linux/amd64/v4"], "linux/amd64/v2"),
        ] {
            assert_eq!(chosen(wanted, offered).unwrap(), expected, "{wanted} of {offered:?}");
        }
    }

    #[test]
    fn webassembly_is_chosen_if_there_is_nothing_else() {
        assert_eq!(chosen("linux/amd64", &["linux/arm64", "wasip1/wasm"]).unwrap(), "wasip1/wasm");
        assert_eq!(chosen("linux/amd64", &["wasip1/wasm", "linux/amd64"]).unwrap(), "linux/amd64");
    }

    #[test]
    fn first_of_two_equal_images_is_chosen() {
        let mut index = index(&["linux/amd64", "linux/amd64"]);
        index.manifests[0].digest = crate::Hasher::digest(b"first");
        let platform: Platform = "linux/amd64".parse().unwrap();
        assert_eq!(platform.choose(&index).unwrap().digest, crate::Hasher::digest(b"first"));
    }

    #[test]
    fn platform_that_is_not_offered_is_named_with_those_that_are() {
        let message = chosen("linux/s390x", &["linux/arm64", "unknown/unknown", "linux/amd64"]).unwrap_err();
        assert_eq!(
            message,
            "cannot find an image for linux/s390x: the index has images for linux/amd64, linux/arm64"
        );
        assert!(chosen("linux/arm/v6", &["linux/arm/v7"]).is_err());
    }

    #[test]
    fn what_is_no_platform_is_refused() {
        for text in ["", "linux", "linux/", "/amd64", "linux/amd64/v1/x", "linux/a b"] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
    }
}
