//! Bundles of Sigstore: what cosign 3 stores in place of statements with annotations.
//!
//! Of an image, cosign signs a statement of in-toto in a DSSE envelope. The predicate says that it is a signature: bundles with other
//! predicates are attestations, which say something about an image and not that it may be used. Before bundles, the envelope of an
//! attestation was stored alone.

use sigstore_verify::types::{Bundle, DsseEnvelope, Sha256Hash, SignatureContent, Statement};

use super::demanded::Demanded;
use super::{ImageSignature, SignatureProblem};

/// The kind of payload that is a statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

pub(super) fn read(content: &[u8]) -> Result<Bundle, SignatureProblem> {
    serde_json::from_slice(content).map_err(|error| SignatureProblem::unreadable(&error))
}

pub(super) fn envelope(bundle: &Bundle) -> Result<&DsseEnvelope, SignatureProblem> {
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        return Err(SignatureProblem::NoStatement);
    };
    Ok(envelope)
}

/// The envelope of an attestation, in both of its forms.
pub(super) fn envelope_of(attestation: &ImageSignature) -> Result<DsseEnvelope, SignatureProblem> {
    match attestation {
        ImageSignature::Bundle(content) => envelope(&read(content)?).cloned(),
        ImageSignature::Envelope(content) => {
            serde_json::from_slice(content).map_err(|error| SignatureProblem::unreadable(&error))
        }
        ImageSignature::Statement(_) => Err(SignatureProblem::NoStatement),
    }
}

/// Refuse a statement that is not about the image with this digest, or not what is demanded. Returns the digest of the image.
pub(super) fn check_statement(
    envelope: &DsseEnvelope,
    digest: &str,
    demanded: Demanded<'_>,
) -> Result<Sha256Hash, SignatureProblem> {
    // The type is signed with the payload: nothing that was signed as something else can pass for a statement.
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(SignatureProblem::NoStatement);
    }
    let statement: Statement = serde_json::from_slice(envelope.payload.as_bytes())
        .map_err(|error| SignatureProblem::unreadable(&error))?;
    demanded.check_predicate(&statement.predicate_type)?;
    let image = digest.strip_prefix("sha256:").and_then(|hex| Sha256Hash::from_hex(hex).ok());
    image.filter(|image| statement.matches_sha256(image)).ok_or(SignatureProblem::OtherImage)
}
