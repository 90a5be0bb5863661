//! Client certificates: the common name is the user, the organizations are the groups.

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
            Self::Verified(certificate) if !certificate.is_expired(now) => certificate.identity(),
            _ => None,
        }
    }

    /// A connection may outlive its certificate.
    pub(super) fn is_refused(&self, now: Timestamp) -> bool {
        match self {
            Self::Unknown => false,
            Self::Verified(certificate) => certificate.is_expired(now),
            Self::Refused => true,
        }
    }
}

/// What a certificate says about who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    common_name: String,
    organizations: Vec<String>,
    fingerprint: String,
    not_after: i64,
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
            not_after: certificate.validity().not_after.timestamp(),
        })
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        now.as_second() > self.not_after
    }

    /// None if the certificate names nobody: it may be meant for something else.
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
