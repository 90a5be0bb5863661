//! The key of digests that are written to statuses.

use std::fmt;

/// The key of digests of Secrets. It must be known to the control plane alone, and outlive the process: digests in statuses are compared
/// with those of an earlier process.
#[derive(Clone, Copy)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}
