//! The certificate authority in a directory: a key, its certificate, and perhaps the certificate of the one before.

use std::path::Path;

use ferroplane_certificates::{
    Authority as Signer, Issued, LeafRequest, LeafStatus, Profile, Purpose, SignError, Unusable, leaf_status,
};
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use uuid::Uuid;

use super::{CLIENT_LIFETIME, Error, file_error};
use crate::private_file;

#[derive(Debug)]
pub(super) struct Authority {
    signer: Signer,
    /// All certificates to trust, in PEM and otherwise.
    bundle: String,
    trusted: Vec<CertificateDer<'static>>,
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
        let made = new(now)?;
        // The certificate last: with it, the authority exists.
        for (name, content) in [("ca.key", &made.key), ("ca.crt", &made.certificate)] {
            let path = directory.join(name);
            private_file::write(&path, content.as_bytes()).map_err(file_error(&path))?;
        }
        Self::open(directory, now)
    }

    /// An authority that is not stored.
    pub(super) fn generate(now: Timestamp) -> Result<Self, Error> {
        let made = new(now)?;
        let unusable = |why| Error::Authority { path: "memory".to_owned(), why };
        Self::from_pem(&made.certificate, &made.key, "", now).map_err(unusable)
    }

    fn from_pem(certificate: &str, key: &str, previous: &str, now: Timestamp) -> Result<Self, String> {
        let signer = Signer::read(certificate, key, now).map_err(explain)?;
        let bundle = format!("{certificate}{previous}");
        let trusted = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect::<Result<Vec<_>, _>>();
        let trusted = trusted.map_err(|error| format!("it is not PEM: {error}"))?;
        Ok(Self { signer, bundle, trusted })
    }

    /// A certificate for a server with these names.
    pub(super) fn issue_server(&self, names: &[String], now: Timestamp) -> Result<Issued, SignError> {
        let purpose = Purpose::Server;
        self.signer.issue(&LeafRequest { common_name: "ferroplane", organizations: &[], names, purpose }, now)
    }

    /// A certificate for a client, for a short time: the name is the user, the groups are its organisations.
    pub(super) fn issue_client(
        &self,
        user: &str,
        groups: &[&str],
        now: Timestamp,
    ) -> Result<Issued, SignError> {
        let purpose = Purpose::Client;
        let request = LeafRequest { common_name: user, organizations: groups, names: &[], purpose };
        self.signer.issue_for(&request, now, CLIENT_LIFETIME)
    }

    /// When a server's certificate is to be renewed. None if it will not do.
    pub(super) fn renewal(&self, issued: &Issued, names: &[String], now: Timestamp) -> Option<Timestamp> {
        match leaf_status(issued, &self.signer, names, now) {
            LeafStatus::Good { renewal } => Some(renewal),
            LeafStatus::Missing | LeafStatus::Bad(_) => None,
        }
    }

    pub(super) fn bundle(&self) -> &str {
        &self.bundle
    }

    pub(super) fn trusted(&self) -> &[CertificateDer<'static>] {
        &self.trusted
    }
}

/// A new authority's certificate and key.
fn new(now: Timestamp) -> Result<Issued, Error> {
    let id = format!("{:08x}", Uuid::new_v4().as_fields().0);
    Profile::Ferroplane { id: &id }.make(now).map_err(Error::Sign)
}

fn explain(why: Unusable) -> String {
    match why {
        Unusable::NotACertificate => "it is not a certificate".to_owned(),
        Unusable::NotAnAuthority => "it is not an authority's certificate".to_owned(),
        Unusable::OtherKey => "its key, ca.key, is not a key or belongs to another certificate".to_owned(),
        Unusable::Expired => "it has expired; docs/certificates.md describes how to replace it".to_owned(),
        Unusable::Other(why) => why,
    }
}
