//! What an authority has to have signed: that an image may be used, or an attestation that says something about the image.

use std::collections::BTreeSet;

use super::{AuthorityProblem, ImageSignature, SignatureProblem};

/// The predicate of a signature of an image.
const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";

/// The names that cosign has for types of predicates.
const NAMES: [(&str, &str); 10] = [
    ("custom", "https://cosign.sigstore.dev/attestation/v1"),
    ("cyclonedx", "https://cyclonedx.org/bom"),
    ("link", "https://in-toto.io/Link/v1"),
    ("openvex", "https://openvex.dev/ns"),
    ("slsaprovenance", "https://slsa.dev/provenance/v0.2"),
    ("slsaprovenance02", "https://slsa.dev/provenance/v0.2"),
    ("slsaprovenance1", "https://slsa.dev/provenance/v1"),
    ("spdx", "https://spdx.dev/Document"),
    ("spdxjson", "https://spdx.dev/Document"),
    ("vuln", "https://cosign.sigstore.dev/attestation/vuln/v1"),
];

/// What is demanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demanded<'a> {
    Signature,
    /// An attestation whose predicate has one of these types.
    Attestation(&'a [String]),
}

impl Demanded<'_> {
    /// Whether something can be what is demanded, by the form that it has.
    pub(super) fn has_form_of(self, found: &ImageSignature) -> bool {
        matches!(
            (self, found),
            // What a bundle is only its predicate tells, which `check_predicate` reads.
            (_, ImageSignature::Bundle(_))
                | (Self::Signature, ImageSignature::Statement(_))
                | (Self::Attestation(_), ImageSignature::Envelope(_))
        )
    }

    /// Refuse a statement with another predicate.
    pub(super) fn check_predicate(self, predicate: &str) -> Result<(), SignatureProblem> {
        match self {
            Self::Signature if predicate == SIGNATURE => Ok(()),
            Self::Signature => Err(SignatureProblem::Attestation),
            Self::Attestation(types) => {
                // An empty type would be satisfied by a statement that has none.
                let is_demanded = types.iter().any(|kind| !kind.is_empty() && full_type(kind) == predicate);
                if is_demanded { Ok(()) } else { Err(SignatureProblem::other_predicate(predicate)) }
            }
        }
    }

    /// There is nothing of the kind.
    pub(super) fn missing(self) -> AuthorityProblem {
        match self {
            Self::Signature => AuthorityProblem::NotSigned,
            Self::Attestation(_) => AuthorityProblem::NotAttested,
        }
    }

    /// None of those that there are counts.
    pub(super) fn none_counts(self, problems: BTreeSet<SignatureProblem>) -> AuthorityProblem {
        match self {
            Self::Signature => AuthorityProblem::Signatures(problems),
            Self::Attestation(_) => AuthorityProblem::Attestations(problems),
        }
    }
}

fn full_type(kind: &str) -> &str {
    NAMES.iter().find(|(name, _)| *name == kind).map_or(kind, |(_, full)| *full)
}
