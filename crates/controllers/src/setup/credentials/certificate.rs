//! Reads certificates, and judges whether they will do.

use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::X509Certificate;

/// How long before its end a certificate is replaced.
pub(super) const RENEWAL: SignedDuration = SignedDuration::from_hours(122 * 24);

/// Whether a certificate will do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Missing,
    Bad(&'static str),
    /// It will, until it is to be renewed.
    Good(Timestamp),
}

/// Whether a certificate and a key will do for all of these names.
pub(super) fn judge_leaf(
    certificate: &str,
    key: &str,
    authority: &[u8],
    names: &[String],
    now: Timestamp,
) -> Judgement {
    if certificate.is_empty() && key.is_empty() {
        return Judgement::Missing;
    }
    let Some(pem) = read_pem(certificate) else { return Judgement::Bad("it is no certificate") };
    let Ok(certificate) = pem.parse_x509() else { return Judgement::Bad("it is no certificate") };
    if certificate.issuer().as_raw() != authority {
        return Judgement::Bad("it is another authority's");
    }
    if !has_key(&certificate, key) {
        return Judgement::Bad("its key belongs to another");
    }
    let present = names_of(&certificate);
    if !names.iter().all(|name| present.contains(name)) {
        return Judgement::Bad("it lacks a name");
    }
    let renewal = end(&certificate).and_then(|end| end.checked_sub(RENEWAL).ok());
    match renewal {
        Some(renewal) if now < renewal => Judgement::Good(renewal),
        _ => Judgement::Bad("it is to be renewed"),
    }
}

pub(super) fn read_pem(text: &str) -> Option<Pem> {
    parse_x509_pem(text.as_bytes()).ok().map(|(_, pem)| pem)
}

/// When a certificate ends.
pub(super) fn end(certificate: &X509Certificate<'_>) -> Option<Timestamp> {
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

pub(super) fn has_key(certificate: &X509Certificate<'_>, key: &str) -> bool {
    let key = KeyPair::from_pem(key);
    key.is_ok_and(|key| certificate.public_key().subject_public_key.data.as_ref() == key.public_key_raw())
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    };
    match certificate.subject_alternative_name() {
        Ok(Some(names)) => names.value.general_names.iter().filter_map(name).collect(),
        _ => Vec::new(),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let short = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string());
    short.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string())).ok()
}
