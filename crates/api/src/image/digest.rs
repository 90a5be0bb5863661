//! The digest of content: an algorithm and the hash in hexadecimal. Computes nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What identifies content, such as `sha256:…`. Only algorithms that registries must support, in full length and lower case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// How a digest is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

/// Text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDigest(String);

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn hex_length(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl Digest {
    /// The digest whose hash has these bytes.
    pub fn from_hash(algorithm: Algorithm, hash: &[u8]) -> Result<Self, InvalidDigest> {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        let hex: String = hash.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        Self::from_hex(algorithm, &hex)
    }

    pub fn from_hex(algorithm: Algorithm, hex: &str) -> Result<Self, InvalidDigest> {
        let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex || hex.len() != algorithm.hex_length() {
            return Err(InvalidDigest(shortened(&format!("{}:{hex}", algorithm.name()))));
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hash without the name of its algorithm. It has nothing but digits and `a` to `f`: it is safe as the name of a file.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        match text.split_once(':') {
            Some(("sha256", hex)) => Self::from_hex(Algorithm::Sha256, hex),
            Some(("sha512", hex)) => Self::from_hex(Algorithm::Sha512, hex),
            _ => Err(InvalidDigest(shortened(text))),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for InvalidDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` is not a digest: expected `sha256:` with 64 or `sha512:` with 128 lower-case hexadecimal digits",
            self.0
        )
    }
}

impl std::error::Error for InvalidDigest {}

/// The text is foreign input and becomes part of messages.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 256;
    let clean = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    clean.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_told_from_other_text() {
        for text in [format!("sha256:{}", "0a".repeat(32)), format!("sha512:{}", "f9".repeat(64))] {
            assert_eq!(text.parse::<Digest>().unwrap().to_string(), text);
        }
        for text in [
            String::new(),
            "sha256:".to_owned(),
            format!("sha256:{}", "0A".repeat(32)),
            format!("sha256:{}", "0a".repeat(31)),
            format!("sha256:{}", "0a".repeat(64)),
            format!("sha512:{}", "0a".repeat(32)),
            format!("md5:{}", "0a".repeat(16)),
            format!("sha256:{}/", "0a".repeat(31)),
            format!("SHA256:{}", "0a".repeat(32)),
            "0a".repeat(32),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn message_about_an_invalid_digest_is_short_and_has_no_control_characters() {
        let message = format!("sha256:\n{}", "x".repeat(100_000)).parse::<Digest>().unwrap_err().to_string();
        assert!(message.len() < 500 && !message.contains('\n'), "{message}");
    }
}
