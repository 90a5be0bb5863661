//! Signs certificates, and judges those that are there: for the API server of `ferroplane up`, and for webhooks and functions on clusters.
//!
//! An [`Authority`] holds ten years and is never replaced by itself, because others trust it. What it [issues](Authority::issue) holds a
//! year, and is to be renewed four months before its end, or [as long as the caller says](Authority::issue_for). Where certificates are
//! kept is the business of a caller that asks for them.
//!
//! # Invariants
//! * Keys are never shown: neither in messages nor by `Debug`.
//! * Nothing is read from a clock: a caller that asks says what time it is.

mod authority;
mod leaf;
mod profile;

use std::fmt;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType};

pub use authority::{Authority, Unusable};
pub use leaf::{LeafRequest, LeafStatus, Purpose, leaf_status, renewal};
pub use profile::Profile;

/// How long before its end a certificate is replaced.
const RENEWAL: SignedDuration = SignedDuration::from_hours(122 * 24);
/// Clocks of others may be behind.
const EARLIER: SignedDuration = SignedDuration::from_hours(1);

/// A certificate cannot be signed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SignError(#[from] rcgen::Error);

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for Issued {
    /// Says nothing of what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// What every certificate has: alternative names, a subject, and a time for which it holds.
fn parameters(
    names: &[String],
    organizations: &[&str],
    common_name: &str,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(names)?;
    // rcgen's default has a common name of its own, which would come first.
    parameters.distinguished_name = DistinguishedName::new();
    for organization in organizations {
        parameters.distinguished_name.push(DnType::OrganizationName, *organization);
    }
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    let at = |time: Timestamp| SystemTime::from(time).into();
    parameters.not_before = at(now.saturating_sub(EARLIER).unwrap_or(now));
    parameters.not_after = at(now.saturating_add(lifetime).unwrap_or(now));
    Ok(parameters)
}
