//! Signs certificates.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use super::Pair;
use super::certificate::{end, has_key, read_pem};

const LEAF_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long before the end of the authority to warn.
const WARNING: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Clocks of others may be behind.
const EARLIER: SignedDuration = SignedDuration::from_hours(1);

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Server,
    Client,
}

/// One who signs certificates.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    /// The name, as certificates repeat it.
    subject: Vec<u8>,
}

impl Authority {
    /// One that somebody made. Why not, if it cannot be used.
    pub(super) fn read(certificate: &str, key: &str, now: Timestamp) -> Result<Self, String> {
        let pem = read_pem(certificate).ok_or("`tls.crt` is no certificate")?;
        let parsed = pem.parse_x509().map_err(|_| "`tls.crt` is no certificate")?;
        if !parsed.is_ca() {
            return Err("`tls.crt` is not the certificate of an authority".to_owned());
        }
        if !has_key(&parsed, key) {
            return Err("`tls.key` is no key, or that of another certificate".to_owned());
        }
        let left = end(&parsed).unwrap_or(now).duration_since(now);
        if !left.is_positive() {
            return Err("it has expired".to_owned());
        }
        if left < WARNING {
            tracing::warn!(days = left.as_hours() / 24, "the certificate authority expires soon");
        }
        let key = KeyPair::from_pem(key).map_err(|error| error.to_string())?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(|error| error.to_string())?;
        let subject = parsed.subject().as_raw().to_vec();
        Ok(Self { issuer, certificate: certificate.to_owned(), subject })
    }

    /// Its own certificate, in PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.certificate
    }

    pub(super) fn subject(&self) -> &[u8] {
        &self.subject
    }
}

/// A new authority. Its key is one that Crossplane can read, too: whoever goes back to it finds what they need.
pub(super) fn authority(now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256)?;
    let mut parameters = parameters(&["crossplane-root-ca".to_owned()], "Crossplane root CA", now)?;
    set_lifetime(&mut parameters, now, AUTHORITY_LIFETIME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = parameters.self_signed(&key)?;
    let der = key.serialize_der();
    let key = rsa_key(&der).map_or_else(|| key.serialize_pem(), |key| pem("RSA PRIVATE KEY", key));
    Ok(Pair { certificate: certificate.pem(), key })
}

pub(super) fn leaf(
    authority: &Authority,
    names: &[String],
    purpose: Purpose,
    now: Timestamp,
) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    // A name other than the authority's, or some take it for self-signed.
    let name = names.first().map_or("ferroplane", String::as_str);
    let mut parameters = parameters(names, &shortened(name), now)?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![match purpose {
        Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    parameters.use_authority_key_identifier_extension = true;
    set_lifetime(&mut parameters, now, LEAF_LIFETIME);
    let certificate = parameters.signed_by(&key, &authority.issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn parameters(names: &[String], name: &str, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, "Crossplane");
    parameters.distinguished_name.push(DnType::CommonName, name);
    set_lifetime(&mut parameters, now, LEAF_LIFETIME);
    Ok(parameters)
}

fn set_lifetime(parameters: &mut CertificateParams, now: Timestamp, lifetime: SignedDuration) {
    let at = |time: Timestamp| SystemTime::from(time).into();
    parameters.not_before = at(now.saturating_sub(EARLIER).unwrap_or(now));
    parameters.not_after = at(now.saturating_add(lifetime).unwrap_or(now));
}

/// The longest common name that certificates may have.
fn shortened(name: &str) -> String {
    name[..name.floor_char_boundary(64)].to_owned()
}

/// The key of RSA (PKCS#1) inside of a key of any kind (PKCS#8).
fn rsa_key(pkcs8: &[u8]) -> Option<&[u8]> {
    let (0x30, outer, _) = element(pkcs8)? else { return None };
    let (0x02, _, rest) = element(outer)? else { return None };
    let (0x30, _, rest) = element(rest)? else { return None };
    let (0x04, key, _) = element(rest)? else { return None };
    Some(key)
}

/// The first element of some DER: its tag, its content, and what comes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned());
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::certificate::{Judgement, RENEWAL, judge_leaf};
    use super::*;

    fn days(count: i64) -> SignedDuration {
        SignedDuration::from_hours(24 * count)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn authority_has_a_key_that_crossplane_reads_and_can_be_used_again() {
        let now = Timestamp::now();
        let made = authority(now).unwrap();
        assert!(made.key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{}", &made.key[..40]);
        Authority::read(&made.certificate, &made.key, now).map_err(|why| panic!("{why}")).unwrap();
        let why = |result: Result<Authority, String>| result.err().unwrap();
        assert_eq!(why(Authority::read(&made.certificate, &made.key, now + days(3651))), "it has expired");
        let other = authority(now).unwrap();
        assert!(why(Authority::read(&made.certificate, &other.key, now)).contains("`tls.key`"));
        for garbage in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(why(Authority::read(garbage, &made.key, now)).contains("`tls.crt`"), "{garbage}");
            assert!(why(Authority::read(&made.certificate, garbage, now)).contains("`tls.key`"), "{garbage}");
        }
    }

    #[test]
    fn certificate_will_do_for_its_names_until_it_is_to_be_renewed() {
        let now = Timestamp::now();
        let made = authority(now).unwrap();
        let ours = Authority::read(&made.certificate, &made.key, now).ok().unwrap();
        let wanted = names(&["hooks.system.svc", "127.0.0.1"]);
        let leaf = leaf(&ours, &wanted, Purpose::Server, now).unwrap();
        let judge = |pair: &Pair, names: &[String], now| {
            judge_leaf(&pair.certificate, &pair.key, ours.subject(), names, now)
        };
        let Judgement::Good(renewal) = judge(&leaf, &wanted, now) else { panic!("it is good") };
        assert_eq!(renewal.duration_since(now).as_hours(), (LEAF_LIFETIME - RENEWAL).as_hours() - 1);
        assert_eq!(judge(&leaf, &wanted, now + days(244)), Judgement::Bad("it is to be renewed"));
        assert_eq!(judge(&leaf, &names(&["other"]), now), Judgement::Bad("it lacks a name"));
        let mixed = Pair { certificate: leaf.certificate.clone(), key: made.key.clone() };
        assert_eq!(judge(&mixed, &wanted, now), Judgement::Bad("its key belongs to another"));
        let garbage = Pair { certificate: "x".to_owned(), key: String::new() };
        assert_eq!(judge(&garbage, &wanted, now), Judgement::Bad("it is no certificate"));
        let nothing = Pair { certificate: String::new(), key: String::new() };
        assert_eq!(judge(&nothing, &wanted, now), Judgement::Missing);
    }
}
