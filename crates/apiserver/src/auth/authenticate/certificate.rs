//! Client certificates: the common name is the user, the organisations are the groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use aws_lc_rs::digest;
use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::CREDENTIAL_ID;
use crate::auth::identity::Identity;
use crate::hexadecimal;

/// What the other end of a connection showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Peer {
    /// No certificate.
    #[default]
    Unknown,
    /// A certificate that our authority signed.
    Verified(ClientCertificate),
    /// A certificate that does not count.
    Refused,
}

impl Peer {
    pub(super) fn identity(&self, now: Timestamp) -> Option<Identity> {
        match self {
            Self::Verified(certificate) if certificate.counts(now) => certificate.identity(),
            _ => None,
        }
    }

    /// A connection may outlive its certificate, so every request asks.
    pub(crate) fn is_refused_at(&self, now: Timestamp) -> bool {
        match self {
            Self::Unknown => false,
            Self::Verified(certificate) => !certificate.counts(now),
            Self::Refused => true,
        }
    }
}

/// Until when client certificates were issued that do not count any more. Clones share it.
#[derive(Debug, Clone)]
pub struct Revocation(Arc<AtomicI64>);

impl Default for Revocation {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MIN)))
    }
}

impl PartialEq for Revocation {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Revocation {}

impl Revocation {
    /// Revokes all certificates that were issued until then. Says whether that is later than before: what is revoked stays so.
    pub fn revoke_until(&self, time: Timestamp) -> bool {
        // The maximum, so that two revocations at the same time cannot move the limit back.
        self.0.fetch_max(time.as_second(), Ordering::Relaxed) < time.as_second()
    }

    fn includes(&self, issued_at: i64) -> bool {
        // Certificates have whole seconds: one of the same second may be from before the revocation.
        issued_at <= self.0.load(Ordering::Relaxed)
    }
}

/// What a certificate says about who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    common_name: String,
    organizations: Vec<String>,
    fingerprint: String,
    not_before: i64,
    not_after: i64,
    revocation: Revocation,
}

impl ClientCertificate {
    /// Reads a certificate that was verified. None if it cannot be read.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        // With several names, the last one counts, as it does for Kubernetes.
        let common_name = subject.iter_common_name().filter_map(|name| name.as_str().ok()).last();
        let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
        Some(Self {
            common_name: common_name.unwrap_or_default().to_owned(),
            organizations: organizations.map(str::to_owned).collect(),
            fingerprint: hexadecimal::encode(digest::digest(&digest::SHA256, der).as_ref()),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            revocation: Revocation::default(),
        })
    }

    /// From now on, it counts only if this does not revoke it.
    #[must_use]
    pub(crate) fn revoked_by(self, revocation: Revocation) -> Self {
        Self { revocation, ..self }
    }

    fn counts(&self, now: Timestamp) -> bool {
        now.as_second() <= self.not_after && !self.revocation.includes(self.not_before)
    }

    /// None if the certificate names no user: it may be meant for something else.
    fn identity(&self) -> Option<Identity> {
        if self.common_name.is_empty() {
            return None;
        }
        let mut identity =
            Identity::authenticated(self.common_name.clone(), self.organizations.iter().cloned());
        identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={}", self.fingerprint)]);
        Some(identity)
    }
}
