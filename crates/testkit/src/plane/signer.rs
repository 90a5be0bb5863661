//! Signs images as cosign does with a key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ferroplane_package::signature::{ImageSignature, SignedStatement};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::json;

use crate::KeylessStatement;

/// A key of its own.
pub struct ImageSigner(KeyPair);

impl ImageSigner {
    pub fn generate() -> Self {
        Self(KeyPair::generate().unwrap())
    }

    pub fn public_key(&self) -> String {
        self.0.public_key_pem()
    }

    /// A signature of the image with this digest.
    pub fn sign(&self, digest: &str) -> ImageSignature {
        let statement = json!({"critical": {
            "identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        }, "optional": null});
        let payload = statement.to_string().into_bytes();
        let signature = BASE64_STANDARD.encode(self.0.sign(&payload).unwrap());
        ImageSignature::Statement(SignedStatement { payload, signature, ..SignedStatement::default() })
    }
}

impl ImageSigner {
    /// An attestation about the image with this digest, as cosign writes it beside the image.
    pub fn attest(&self, digest: &str, predicate_type: &str) -> ImageSignature {
        let sha256 = digest.trim_start_matches("sha256:");
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v0.1", "predicateType": predicate_type,
            "subject": [{"name": "", "digest": {"sha256": sha256}}], "predicate": {},
        });
        let (kind, payload) = ("application/vnd.in-toto+json", statement.to_string());
        let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = BASE64_STANDARD.encode(self.0.sign(message.as_bytes()).unwrap());
        let envelope = json!({
            "payloadType": kind, "payload": BASE64_STANDARD.encode(payload),
            "signatures": [{"keyid": "", "sig": signature}],
        });
        ImageSignature::Envelope(envelope.to_string().into_bytes())
    }
}

impl From<KeylessStatement> for ImageSignature {
    fn from(statement: KeylessStatement) -> Self {
        let KeylessStatement { payload, signature, certificate, chain, log_entry } = statement;
        Self::Statement(SignedStatement {
            payload,
            signature,
            certificate: Some(certificate),
            chain: Some(chain),
            log_entry: Some(log_entry),
        })
    }
}
