//! Computes digests.

use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use ferroplane_api::image::{Algorithm, Digest};

/// How much is read at once.
const CHUNK: usize = 128 * 1024;

/// Computes the digest of what it is given, piece by piece.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    context: Context,
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        let context = Context::new(match algorithm {
            Algorithm::Sha256 => &SHA256,
            Algorithm::Sha512 => &SHA512,
        });
        Self { algorithm, context }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn update(&mut self, content: &[u8]) {
        self.context.update(content);
    }

    /// Take everything that can be read. Returns how much it was.
    pub fn update_from(&mut self, content: &mut impl Read) -> io::Result<u64> {
        let mut chunk = vec![0; CHUNK];
        let mut total = 0;
        loop {
            match content.read(&mut chunk) {
                Ok(0) => return Ok(total),
                Ok(read) => {
                    self.update(&chunk[..read]);
                    total += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn finish(self) -> Digest {
        let hash = self.context.finish();
        Digest::from_hash(self.algorithm, hash.as_ref()).expect("a hash has the length of its algorithm")
    }

    /// The SHA-256 digest of content that is in memory.
    pub fn digest(content: &[u8]) -> Digest {
        Self::digest_by(Algorithm::Sha256, content)
    }

    pub fn digest_by(algorithm: Algorithm, content: &[u8]) -> Digest {
        let mut hasher = Self::new(algorithm);
        hasher.update(content);
        hasher.finish()
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hasher").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_others_compute() {
        assert_eq!(
            Hasher::digest(b"").to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let long = Hasher::digest_by(Algorithm::Sha512, b"abc").to_string();
        assert!(long.starts_with("sha512:ddaf35a193617abacc417349ae204131"), "{long}");
    }

    #[test]
    fn content_in_pieces_has_the_digest_of_the_whole() {
        let content = vec![7; 3 * CHUNK + 5];
        let mut hasher = Hasher::new(Algorithm::Sha256);
        assert_eq!(hasher.update_from(&mut content.as_slice()).unwrap(), content.len() as u64);
        assert_eq!(hasher.finish(), Hasher::digest(&content));
    }
}
