//! Certificates that an authority signs: what is asked for, and whether one that is there will do.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::X509Certificate;

use crate::{Authority, Issued, RENEWAL};

pub(crate) const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Server,
    Client,
}

/// What a certificate should say.
#[derive(Debug, Clone, Copy)]
pub struct LeafRequest<'a> {
    /// Other than the authority's, or some take the certificate for self-signed; 64 characters at most.
    pub common_name: &'a str,
    pub organizations: &'a [&'a str],
    /// Host names and addresses.
    pub names: &'a [String],
    pub purpose: Purpose,
}

/// Whether a certificate will do.
#[derive(Debug, PartialEq, Eq)]
pub enum LeafStatus {
    Missing,
    Bad(&'static str),
    /// It will, until it is to be renewed.
    Good {
        renewal: Timestamp,
    },
}

/// When a certificate that was issued at some time is to be renewed.
pub fn renewal(issued_at: Timestamp) -> Timestamp {
    issued_at.saturating_add(LIFETIME - RENEWAL).unwrap_or(Timestamp::MAX)
}

/// Whether a certificate and its key will do for all of these names.
pub fn leaf_status(leaf: &Issued, authority: &Authority, names: &[String], now: Timestamp) -> LeafStatus {
    if leaf.certificate.is_empty() && leaf.key.is_empty() {
        return LeafStatus::Missing;
    }
    let Some(pem) = read_pem(&leaf.certificate) else { return LeafStatus::Bad("it is not a certificate") };
    let Ok(certificate) = pem.parse_x509() else { return LeafStatus::Bad("it is not a certificate") };
    // By name, not by signature: this finds leaves of a replaced authority, and our own authorities have
    // unique names.
    if certificate.issuer().as_raw() != authority.subject() {
        return LeafStatus::Bad("signed by another authority");
    }
    if !has_key(&certificate, &leaf.key) {
        return LeafStatus::Bad("its key belongs to another");
    }
    let present = names_of(&certificate);
    // More names than asked for do no harm, and renewing for them would restart servers for nothing.
    if !names.iter().all(|name| present.contains(name)) {
        return LeafStatus::Bad("it lacks a name");
    }
    let renewal = end(&certificate).and_then(|end| end.checked_sub(RENEWAL).ok());
    match renewal {
        Some(renewal) if now < renewal => LeafStatus::Good { renewal },
        _ => LeafStatus::Bad("it is to be renewed"),
    }
}

pub(crate) fn read_pem(text: &str) -> Option<Pem> {
    parse_x509_pem(text.as_bytes()).ok().map(|(_, pem)| pem)
}

/// When a certificate ends.
pub(crate) fn end(certificate: &X509Certificate<'_>) -> Option<Timestamp> {
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

pub(crate) fn has_key(certificate: &X509Certificate<'_>, key: &str) -> bool {
    let key = KeyPair::from_pem(key);
    key.is_ok_and(|key| certificate.public_key().subject_public_key.data.as_ref() == key.public_key_raw())
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    match certificate.subject_alternative_name() {
        Ok(Some(names)) => names.value.general_names.iter().filter_map(name).collect(),
        _ => Vec::new(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}
