//! One who signs certificates: a certificate and its key.

use std::fmt;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use x509_parser::prelude::X509Certificate;

use crate::leaf::{LIFETIME, LeafRequest, Purpose, end, has_key, read_pem};
use crate::{Issued, SignError, parameters};

/// How long before the end of an authority to warn.
const WARNING: SignedDuration = SignedDuration::from_hours(90 * 24);

/// One who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    /// The name, as certificates repeat it.
    subject: Vec<u8>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why a certificate and a key are no authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    NotACertificate,
    NotAnAuthority,
    /// There is no key, or it is that of another certificate.
    OtherKey,
    Expired,
    Other(String),
}

impl Authority {
    /// An existing authority, in PEM. Text after its certificate is not checked.
    pub fn read(certificate: &str, key: &str, now: Timestamp) -> Result<Self, Unusable> {
        let pem = read_pem(certificate).ok_or(Unusable::NotACertificate)?;
        let parsed = pem.parse_x509().map_err(|_| Unusable::NotACertificate)?;
        check(&parsed, key, now)?;
        let other = |error: rcgen::Error| Unusable::Other(error.to_string());
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key).map_err(other)?);
        let subject = parsed.subject().as_raw().to_vec();
        Ok(Self { issuer: issuer.map_err(other)?, certificate: certificate.to_owned(), subject })
    }

    /// Its own certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub(crate) fn subject(&self) -> &[u8] {
        &self.subject
    }

    /// Signs a certificate with a new key.
    pub fn issue(&self, request: &LeafRequest<'_>, now: Timestamp) -> Result<Issued, SignError> {
        self.issue_lasting(request, now, LIFETIME)
    }

    /// Signs a certificate that holds so long, for those who do not notice when theirs is renewed.
    pub fn issue_lasting(
        &self,
        request: &LeafRequest<'_>,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Result<Issued, SignError> {
        self.sign(request, leaf_parameters(request, now, lifetime)?)
    }

    /// Signs a certificate that holds from now on, for some time.
    ///
    /// For those who are asked for it by the clock that it was made by: it tells when it was made.
    pub fn issue_for(
        &self,
        request: &LeafRequest<'_>,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Result<Issued, SignError> {
        let mut parameters = leaf_parameters(request, now, lifetime)?;
        parameters.not_before = SystemTime::from(now).into();
        self.sign(request, parameters)
    }

    fn sign(
        &self,
        request: &LeafRequest<'_>,
        mut parameters: CertificateParams,
    ) -> Result<Issued, SignError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![match request.purpose {
            Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        // Lets clients tell two authorities of one name apart, which there are after a replacement.
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Checks that a certificate can sign others with the key.
fn check(certificate: &X509Certificate<'_>, key: &str, now: Timestamp) -> Result<(), Unusable> {
    if !certificate.is_ca() {
        return Err(Unusable::NotAnAuthority);
    }
    if !has_key(certificate, key) {
        return Err(Unusable::OtherKey);
    }
    // An end that cannot be read counts as now: an authority of unknown age must not sign.
    let left = end(certificate).unwrap_or(now).duration_since(now);
    if !left.is_positive() {
        return Err(Unusable::Expired);
    }
    if left < WARNING {
        tracing::warn!(days = left.as_hours() / 24, "the certificate authority expires soon");
    }
    Ok(())
}

/// What a certificate has that is asked for.
fn leaf_parameters(
    request: &LeafRequest<'_>,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<CertificateParams, rcgen::Error> {
    let LeafRequest { common_name, organizations, names, .. } = request;
    parameters(names, organizations, common_name, now, lifetime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::{LeafStatus, leaf_status};
    use crate::{Profile, RENEWAL};

    fn days(count: i64) -> SignedDuration {
        SignedDuration::from_hours(24 * count)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn authority_has_a_key_that_crossplane_reads_and_can_be_used_again() {
        let now = Timestamp::now();
        let made = Profile::Crossplane.make(now).unwrap();
        assert!(made.key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{}", &made.key[..40]);
        assert!(made.key.lines().all(|line| line.len() <= 64), "lines are too long for some");
        Authority::read(&made.certificate, &made.key, now).unwrap();
        let why = |result: Result<Authority, Unusable>| result.unwrap_err();
        assert_eq!(why(Authority::read(&made.certificate, &made.key, now + days(3651))), Unusable::Expired);
        let other = Profile::Crossplane.make(now).unwrap();
        assert_eq!(why(Authority::read(&made.certificate, &other.key, now)), Unusable::OtherKey);
        for garbage in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(why(Authority::read(garbage, &made.key, now)), Unusable::NotACertificate, "{garbage}");
            assert_eq!(
                why(Authority::read(&made.certificate, garbage, now)),
                Unusable::OtherKey,
                "{garbage}"
            );
        }
    }

    #[test]
    fn certificate_will_do_for_its_names_until_it_is_to_be_renewed() {
        let now = Timestamp::now();
        for profile in [Profile::Crossplane, Profile::Ferroplane { id: "1" }] {
            let made = profile.make(now).unwrap();
            let ours = Authority::read(&made.certificate, &made.key, now).unwrap();
            let wanted = names(&["hooks.system.svc", "127.0.0.1"]);
            let request = LeafRequest {
                common_name: "hooks",
                organizations: &[],
                names: &wanted,
                purpose: Purpose::Server,
            };
            let leaf = ours.issue(&request, now).unwrap();
            let status = |pair: &Issued, names: &[String], now| leaf_status(pair, &ours, names, now);
            let LeafStatus::Good { renewal } = status(&leaf, &wanted, now) else { panic!("it is good") };
            assert_eq!(renewal.duration_since(now).as_hours(), (LIFETIME - RENEWAL).as_hours() - 1);
            assert_eq!(status(&leaf, &wanted, now + days(244)), LeafStatus::Bad("it is to be renewed"));
            assert_eq!(status(&leaf, &names(&["other"]), now), LeafStatus::Bad("it lacks a name"));
            let mixed = Issued { certificate: leaf.certificate.clone(), key: made.key.clone() };
            assert_eq!(status(&mixed, &wanted, now), LeafStatus::Bad("its key belongs to another"));
            let garbage = Issued { certificate: "x".to_owned(), key: String::new() };
            assert_eq!(status(&garbage, &wanted, now), LeafStatus::Bad("it is not a certificate"));
            let nothing = Issued { certificate: String::new(), key: String::new() };
            assert_eq!(status(&nothing, &wanted, now), LeafStatus::Missing);
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let now = Timestamp::now();
        let made = Profile::Ferroplane { id: "1" }.make(now).unwrap();
        let authority = Authority::read(&made.certificate, &made.key, now).unwrap();
        assert!(!format!("{made:?} {authority:?}").contains("PRIVATE KEY"));
    }
}
