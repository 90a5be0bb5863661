//! The certificate authority: a key, its certificate, and perhaps the certificate of the one before.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Error, file_error, issue};
use crate::private_file;

const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const WARNING: SignedDuration = SignedDuration::from_hours(90 * 24);

pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The name, as issued certificates repeat it.
    subject: Vec<u8>,
    /// All certificates to trust, in PEM and otherwise.
    bundle: String,
    trusted: Vec<CertificateDer<'static>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(output, "Authority({})", self.trusted.len())
    }
}

impl Authority {
    /// Uses the authority in a directory, and makes one if there is none.
    ///
    /// One that cannot be used is an error, never a reason to make another: clients trust it.
    pub(super) fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        let path = directory.join("ca.crt");
        let read = |name: &str| {
            let path = directory.join(name);
            private_file::read(&path).map_err(file_error(&path))
        };
        let Some(certificate) = read("ca.crt")? else { return Self::make(directory, now) };
        let unusable = |why: &str| Error::Authority { path: path.display().to_string(), why: why.to_owned() };
        let key = read("ca.key")?.ok_or_else(|| unusable("its key, ca.key, is missing"))?;
        let previous = read("ca-previous.crt")?.unwrap_or_default();
        Self::from_pem(&certificate, &key, &previous, now).map_err(|why| unusable(&why))
    }

    fn make(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        let (certificate, key) = sign(now)?;
        // The certificate last: with it, the authority exists.
        for (name, content) in [("ca.key", &key), ("ca.crt", &certificate)] {
            let path = directory.join(name);
            private_file::write(&path, content.as_bytes()).map_err(file_error(&path))?;
        }
        Self::open(directory, now)
    }

    /// An authority that nobody keeps.
    pub(super) fn generate(now: Timestamp) -> Result<Self, Error> {
        let (certificate, key) = sign(now)?;
        let unusable = |why| Error::Authority { path: "memory".to_owned(), why };
        Self::from_pem(&certificate, &key, "", now).map_err(unusable)
    }

    fn from_pem(certificate: &str, key: &str, previous: &str, now: Timestamp) -> Result<Self, String> {
        let key = KeyPair::from_pem(key).map_err(|error| format!("its key: {error}"))?;
        let bundle = format!("{certificate}{previous}");
        let trusted = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect::<Result<Vec<_>, _>>();
        let trusted = trusted.map_err(|error| format!("it is not PEM: {error}"))?;
        let own = trusted.first().ok_or("it is empty")?;
        let subject = check(own, &key, now)?;
        let issuer = Issuer::from_ca_cert_der(own, key).map_err(|error| error.to_string())?;
        Ok(Self { issuer, subject, bundle, trusted })
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    pub(super) fn subject(&self) -> &[u8] {
        &self.subject
    }

    pub(super) fn bundle(&self) -> &str {
        &self.bundle
    }

    pub(super) fn trusted(&self) -> &[CertificateDer<'static>] {
        &self.trusted
    }
}

/// Checks that a certificate can sign others with the key, and says its name.
fn check(certificate: &CertificateDer<'_>, key: &KeyPair, now: Timestamp) -> Result<Vec<u8>, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    if !certificate.is_ca() {
        return Err("it is not an authority's certificate".to_owned());
    }
    if certificate.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Err("its key, ca.key, belongs to another certificate".to_owned());
    }
    let left = certificate.validity().not_after.timestamp().saturating_sub(now.as_second());
    if left <= 0 {
        return Err("it has expired; docs/certificates.md tells how to replace it".to_owned());
    }
    if left < WARNING.as_secs() {
        tracing::warn!(days = left / 86_400, "the certificate authority expires soon");
    }
    Ok(certificate.subject().as_raw().to_vec())
}

/// A new authority's certificate and key. Each has a name of its own, so that one is not taken for another.
fn sign(now: Timestamp) -> Result<(String, String), Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(Error::Sign)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    let name = format!("ferroplane-ca-{}", issue::random_digits()?);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    issue::set_lifetime(&mut parameters, now, LIFETIME);
    let certificate = parameters.self_signed(&key).map_err(Error::Sign)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
