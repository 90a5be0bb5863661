//! Tells who a client is by its certificate.
//!
//! A handshake does not fail because of a certificate that does not count: the client would see no more than a broken
//! connection. It is answered, with the code 401, or because of a token it sends as well. What is always checked in the
//! handshake is that the client has the key.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::auth::authenticate::{ClientCertificate, Peer, Revocation};

#[derive(Debug, Clone)]
pub(crate) struct ClientVerifier {
    strict: Arc<dyn ClientCertVerifier>,
    revocation: Revocation,
}

impl ClientVerifier {
    pub(super) fn new(
        trusted: &[CertificateDer<'static>],
        provider: Arc<CryptoProvider>,
        revocation: Revocation,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in trusted {
            roots.add(certificate.clone())?;
        }
        let strict = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let strict = strict.allow_unauthenticated().build();
        let strict = strict.map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { strict, revocation })
    }

    /// Who is at the other end, by the certificates it showed.
    pub(crate) fn identify(&self, shown: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some([certificate, intermediates @ ..]) = shown else { return Peer::Unknown };
        match self.strict.verify_client_cert(certificate, intermediates, UnixTime::now()) {
            Ok(_) => ClientCertificate::read(certificate).map_or(Peer::Refused, |certificate| {
                Peer::Verified(certificate.revoked_by(self.revocation.clone()))
            }),
            Err(_) => Peer::Refused,
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}
