//! New authorities.

use jiff::{SignedDuration, Timestamp};
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose};
use x509_parser::asn1_rs::{FromDer as _, Integer, OctetString, Sequence};

use crate::{Issued, SignError, parameters};

const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// What an authority is like.
#[derive(Debug, Clone, Copy)]
pub enum Profile<'a> {
    /// One of our own. Its id makes its name another than that of every other one, so that one is not taken for another.
    Ferroplane { id: &'a str },
    /// One that Crossplane can use, too: a user who goes back to it finds what they need.
    Crossplane,
}

impl Profile<'_> {
    /// Makes a new authority: its certificate and its key.
    pub fn make(self, now: Timestamp) -> Result<Issued, SignError> {
        let (key, parameters) = match self {
            Self::Ferroplane { id } => {
                (KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?, ferroplane(id, now)?)
            }
            // Crossplane parses its own CA with `ParsePKCS1PrivateKey`, which knows RSA only.
            Self::Crossplane => (KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256)?, crossplane(now)?),
        };
        let certificate = parameters.self_signed(&key)?.pem();
        let key = match self {
            Self::Ferroplane { .. } => key.serialize_pem(),
            Self::Crossplane => rsa_pem(&key.serialize_der()).unwrap_or_else(|| key.serialize_pem()),
        };
        Ok(Issued { certificate, key })
    }
}

fn ferroplane(id: &str, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = parameters(&[], &[], &format!("ferroplane-ca-{id}"), now, LIFETIME)?;
    // It signs leaves, and nothing that could sign further.
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

fn crossplane(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let names = ["crossplane-root-ca".to_owned()];
    let mut parameters = parameters(&names, &["Crossplane"], "Crossplane root CA", now, LIFETIME)?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

/// A key of RSA as Crossplane reads it (PKCS#1), of a key of any kind (PKCS#8: version, algorithm, key).
fn rsa_pem(pkcs8: &[u8]) -> Option<String> {
    let (_, outer) = Sequence::from_der(pkcs8).ok()?;
    let (rest, _version) = Integer::from_der(&outer.content).ok()?;
    let (rest, _algorithm) = Sequence::from_der(rest).ok()?;
    let (_, key) = OctetString::from_der(rest).ok()?;
    let pem = Pem::new("RSA PRIVATE KEY", key.as_ref());
    Some(pem::encode_config(&pem, EncodeConfig::new().set_line_ending(LineEnding::LF)))
}
