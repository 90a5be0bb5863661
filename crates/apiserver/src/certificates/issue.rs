//! Signs certificates for the server and for its clients.

use std::time::SystemTime;

use aws_lc_rs::rand;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    SerialNumber,
};

use super::Error;
use super::authority::Authority;
use crate::hexadecimal;

const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

/// How long before its end a certificate is replaced.
pub(super) const RENEWAL: SignedDuration = SignedDuration::from_hours(122 * 24);

/// Clocks of clients may be behind.
const EARLIER: SignedDuration = SignedDuration::from_hours(1);

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(output, "Issued({})", self.certificate)
    }
}

/// A certificate for a server, and when to renew it.
pub(super) fn server(
    authority: &Authority,
    names: &[String],
    now: Timestamp,
) -> Result<(Issued, Timestamp), Error> {
    let mut parameters = CertificateParams::new(names).map_err(Error::Sign)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "ferroplane");
    let issued = sign(authority, parameters, ExtendedKeyUsagePurpose::ServerAuth, now)?;
    let renewal = now.saturating_add(LIFETIME - RENEWAL).unwrap_or(Timestamp::MAX);
    Ok((issued, renewal))
}

pub(super) fn client(
    authority: &Authority,
    user: &str,
    groups: &[&str],
    now: Timestamp,
) -> Result<Issued, Error> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        parameters.distinguished_name.push(DnType::OrganizationName, *group);
    }
    sign(authority, parameters, ExtendedKeyUsagePurpose::ClientAuth, now)
}

fn sign(
    authority: &Authority,
    mut parameters: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    now: Timestamp,
) -> Result<Issued, Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(Error::Sign)?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![purpose];
    parameters.use_authority_key_identifier_extension = true;
    set_lifetime(&mut parameters, now, LIFETIME);
    let serial: [u8; 16] = random()?;
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    let certificate = parameters.signed_by(&key, authority.issuer()).map_err(Error::Sign)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

pub(super) fn set_lifetime(parameters: &mut CertificateParams, now: Timestamp, lifetime: SignedDuration) {
    let at = |time: Timestamp| SystemTime::from(time).into();
    parameters.not_before = at(now.saturating_sub(EARLIER).unwrap_or(now));
    parameters.not_after = at(now.saturating_add(lifetime).unwrap_or(now));
}

pub(super) fn random_digits() -> Result<String, Error> {
    let bytes: [u8; 4] = random()?;
    Ok(hexadecimal::encode(&bytes))
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], Error> {
    let mut bytes = [0; LENGTH];
    rand::fill(&mut bytes).map_err(|_| Error::Sign(rcgen::Error::RingUnspecified))?;
    Ok(bytes)
}
