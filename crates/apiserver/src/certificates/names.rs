//! The names that a server goes by.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::issue::RENEWAL;

/// Names that every server has: what it is called on this machine, and what programs in a cluster call it.
pub fn server_names(listen: SocketAddr) -> Vec<String> {
    let fixed = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names: Vec<_> = fixed.map(str::to_owned).into();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let address = listen.ip();
    // A server that listens everywhere has no address of its own.
    let address = (!address.is_unspecified()).then(|| address.to_string());
    for name in std::iter::once(host).chain(address) {
        if !name.is_empty() && name.is_ascii() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// When a certificate is to be renewed. None if it is not the authority's, or lacks a name.
pub(super) fn renewal(certificate: &str, authority: &[u8], names: &[String]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let present = names_of(&certificate)?;
    if certificate.issuer().as_raw() != authority || !names.iter().all(|name| present.contains(name)) {
        return None;
    }
    let end = Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?;
    end.checked_sub(RENEWAL).ok()
}

fn names_of(certificate: &X509Certificate<'_>) -> Option<Vec<String>> {
    let names = certificate.subject_alternative_name().ok()??;
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    Some(names.value.general_names.iter().filter_map(name).collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}
