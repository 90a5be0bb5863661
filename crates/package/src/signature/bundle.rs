//! Bundles of Sigstore: what cosign 3 stores in place of statements with annotations.
//!
//! Of an image, cosign signs a statement of in-toto in a DSSE envelope. The predicate says that it is a signature: bundles with other
//! predicates are attestations, which say something about an image and not that it may be used.

use sigstore_verify::types::{Bundle, DsseEnvelope, Sha256Hash, SignatureContent, Statement};

use super::SignatureProblem;

/// The kind of payload, and the predicate, of a signature of an image.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

pub(super) fn read(content: &[u8]) -> Result<Bundle, SignatureProblem> {
    serde_json::from_slice(content).map_err(|error| SignatureProblem::unreadable(&error))
}

pub(super) fn envelope(bundle: &Bundle) -> Result<&DsseEnvelope, SignatureProblem> {
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        return Err(SignatureProblem::NoStatement);
    };
    Ok(envelope)
}

/// Refuse a statement that is none of a signature of the image with this digest. Returns the digest of the image.
pub(super) fn check_statement(envelope: &DsseEnvelope, digest: &str) -> Result<Sha256Hash, SignatureProblem> {
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(SignatureProblem::NoStatement);
    }
    let statement: Statement = serde_json::from_slice(envelope.payload.as_bytes())
        .map_err(|error| SignatureProblem::unreadable(&error))?;
    if statement.predicate_type != PREDICATE {
        return Err(SignatureProblem::Attestation);
    }
    let image = digest.strip_prefix("sha256:").and_then(|hex| Sha256Hash::from_hex(hex).ok());
    image.filter(|image| statement.matches_sha256(image)).ok_or(SignatureProblem::OtherImage)
}
