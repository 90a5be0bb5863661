//! The TLS configuration of a client.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::{ClientCertificate, Endpoint, EndpointError};

/// The configuration for an API server, with either version of HTTP.
pub(super) fn client_config(
    endpoint: &Endpoint,
    identity: Option<&ClientCertificate>,
) -> Result<ClientConfig, EndpointError> {
    let mut config = http1_config(endpoint, identity)?;
    // In the order of preference: watches are many, and HTTP/2 carries them over one connection.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The configuration for a proxy: HTTP/1.1, the authorities of the system, and no credentials of the cluster.
pub(super) fn proxy_config() -> Result<ClientConfig, EndpointError> {
    http1_config(&Endpoint::default(), None)
}

fn http1_config(
    endpoint: &Endpoint,
    identity: Option<&ClientCertificate>,
) -> Result<ClientConfig, EndpointError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(EndpointError::Tls)?;
    let builder = if endpoint.skips_tls_verification {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(NoVerification(provider)))
    } else {
        builder.with_root_certificates(roots(endpoint.authorities.as_deref())?)
    };
    let Some(ClientCertificate { certificate, key }) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(EndpointError::Identity)?;
    builder
        .with_client_auth_cert(certificates.map_err(EndpointError::Identity)?, key)
        .map_err(EndpointError::Tls)
}

fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, EndpointError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(authorities) => {
            for certificate in CertificateDer::pem_slice_iter(authorities) {
                let certificate = certificate.map_err(|error| EndpointError::Authority(error.into()))?;
                roots.add(certificate).map_err(|error| EndpointError::Authority(error.into()))?;
            }
        }
        None => {
            // One certificate that rustls cannot read must not make all the others unusable.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// Accepts every certificate, because the user said so. Still checks that the server has its key.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
