//! Whether a webhook is who it says it is.
//!
//! As the libraries of most webhooks see it: besides certificates that come from an authority that is trusted, one that is
//! itself among those that are trusted will do, even if it says of itself that it is an authority. Many webhooks have
//! just one certificate that they made themselves.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::parse_x509_certificate;

use super::destination;

#[derive(Debug)]
pub(super) struct Trust {
    usual: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn new(
        trusted: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, destination::Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { usual: usual.map_err(|_| destination::Error::Roots)?, trusted })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.trusted.iter().any(|trusted| trusted == certificate) {
            let verified = self.usual.verify_server_cert(certificate, others, name, response, now);
            return verified.map_err(|error| match error {
                // An authority that is not trusted is not trusted, whatever it poses as.
                Error::InvalidCertificate(CertificateError::Other(_)) => {
                    Error::InvalidCertificate(CertificateError::UnknownIssuer)
                }
                error => error,
            });
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        check_time(certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

fn check_time(certificate: &CertificateDer<'_>) -> Result<(), Error> {
    let parsed = parse_x509_certificate(certificate);
    let (_, parsed) = parsed.map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let (validity, now) = (parsed.validity(), Timestamp::now().as_second());
    if now < validity.not_before.timestamp() {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > validity.not_after.timestamp() {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}
