//! Verifies signatures of those who have no key that others know: a certificate says who signed, and a transparency log when.
//!
//! The crate `sigstore-verify` does the cryptography (ADR 0056): the certificate leads to an authority of the trusted root, was valid
//! when the log took the signature, and is in a log of certificates; the log's own signature is true, and its entry is of this
//! signature, certificate and payload. Here is what it does not know: the form with annotations, identities, and images.
//!
//! # Invariants
//! * Roots are given. Nothing is fetched.
//! * The clock decides nothing but that a log entry from the future is refused.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ferroplane_golang::regexp::Expression;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::{Bundle, Sha256Hash};
use sigstore_verify::{SubjectAltName, VerificationPolicy, VerificationResult, Verifier};

use super::demanded::Demanded;
use super::{AuthorityProblem, ImageSignature, SignedStatement, bundle, is_about};

/// How much is repeated of what another user has written.
const MAX_SHOWN: usize = 300;

/// The identities that may sign, and the root that vouches for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Keyless {
    /// One of them is enough.
    pub identities: Vec<Identity>,
    /// Whether a certificate counts that is in no log of certificates.
    pub ignores_sct: bool,
    /// The trusted root of Sigstore, in JSON. Without one it is that of Sigstore's public instance.
    pub trusted_root: Option<Vec<u8>>,
}

/// Who may sign. What is not demanded may be anything; one of both has to be demanded.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Identity {
    pub issuer: Option<TextMatch>,
    pub subject: Option<TextMatch>,
}

/// What a text has to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum TextMatch {
    Equal(String),
    /// A regular expression of Go, which matches anywhere unless it says otherwise.
    Pattern(String),
}

/// Why a signature does not count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SignatureProblem {
    #[error("one has no certificate")]
    NoCertificate,
    #[error("one has no entry of a transparency log")]
    NoLogEntry,
    #[error("one has no statement about an image")]
    NoStatement,
    #[error("one is an attestation, which is no signature")]
    Attestation,
    #[error("one is an attestation outside of a bundle, which counts with keys alone")]
    KeylessEnvelope,
    #[error("one was not made with its key")]
    OtherKey,
    #[error("one has the predicate type `{0}`")]
    OtherPredicate(String),
    #[error("one is of another image")]
    OtherImage,
    #[error("one is of `{subject}` at issuer `{issuer}`, who is none of its identities")]
    OtherIdentity { issuer: String, subject: String },
    #[error("one cannot be read ({0})")]
    Unreadable(String),
    #[error("one is not valid ({0})")]
    Invalid(String),
}

impl Keyless {
    pub(super) fn verify(
        &self,
        digest: &str,
        demanded: Demanded<'_>,
        found: &[&ImageSignature],
    ) -> Result<(), AuthorityProblem> {
        // First: a policy that cannot be used is reported even if there is nothing to verify.
        let demands = Demands::read(self)?;
        if found.is_empty() {
            return Err(demanded.missing());
        }
        let mut problems = BTreeSet::new();
        for signature in found {
            match demands.verify(digest, demanded, signature) {
                Ok(()) => return Ok(()),
                Err(problem) => problems.insert(problem),
            };
        }
        Err(demanded.none_counts(problems))
    }
}

impl SignatureProblem {
    pub(super) fn unreadable(error: &impl ToString) -> Self {
        Self::Unreadable(shorten(&error.to_string()))
    }

    pub(super) fn other_predicate(predicate: &str) -> Self {
        Self::OtherPredicate(shorten(predicate))
    }

    fn invalid(error: &sigstore_verify::Error) -> Self {
        let text = error.to_string();
        // With the time of the check, the message would change each time.
        Self::Invalid(shorten(text.split(" (current time").next().unwrap_or_default()))
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

/// What an authority demands, ready for use.
struct Demands<'a> {
    identities: Vec<SignerMatcher<'a>>,
    policy: VerificationPolicy,
    verifier: Verifier,
}

/// What an identity demands of a signer.
struct SignerMatcher<'a> {
    issuer: Option<Matcher<'a>>,
    subject: Option<Matcher<'a>>,
}

enum Matcher<'a> {
    Equal(&'a str),
    Pattern(Expression),
}

impl<'a> Demands<'a> {
    fn read(keyless: &'a Keyless) -> Result<Self, AuthorityProblem> {
        if keyless.identities.is_empty() {
            return Err(AuthorityProblem::NoIdentity);
        }
        let identities = keyless.identities.iter().map(SignerMatcher::read);
        let identities = identities.collect::<Result<_, AuthorityProblem>>()?;
        // Identities are matched here: the crate knows no regular expressions.
        let policy = VerificationPolicy::any_identity();
        let policy = if keyless.ignores_sct { policy.skip_sct() } else { policy };
        Ok(Self { identities, policy, verifier: read_root(keyless.trusted_root.as_deref())? })
    }

    fn verify(
        &self,
        digest: &str,
        demanded: Demanded<'_>,
        signature: &ImageSignature,
    ) -> Result<(), SignatureProblem> {
        let signed = match signature {
            ImageSignature::Statement(statement) => self.verify_statement(digest, statement)?,
            ImageSignature::Bundle(content) => self.verify_bundle(digest, demanded, content)?,
            ImageSignature::Envelope(_) => return Err(SignatureProblem::KeylessEnvelope),
        };
        self.check_identity(&signed)
    }

    fn verify_statement(
        &self,
        digest: &str,
        statement: &SignedStatement,
    ) -> Result<VerificationResult, SignatureProblem> {
        if !is_about(&statement.payload, digest) {
            return Err(SignatureProblem::OtherImage);
        }
        let bundle = to_bundle(statement)?;
        // What is skipped is the proof that the log contains the entry, which this form does not have. The log's signed promise to
        // contain it is verified all the same: it is the only source of the time at which the certificate has to be valid.
        let policy = self.policy.clone().skip_tlog_unsafe();
        let verified = self.verifier.verify(&statement.payload, &bundle, &policy);
        verified.map_err(|error| SignatureProblem::invalid(&error))
    }

    fn verify_bundle(
        &self,
        digest: &str,
        demanded: Demanded<'_>,
        content: &[u8],
    ) -> Result<VerificationResult, SignatureProblem> {
        let bundle = bundle::read(content)?;
        // Read before it is verified, so that another image or predicate is reported as such. It counts only once it is verified.
        let image = bundle::check_statement(bundle::envelope(&bundle)?, digest, demanded)?;
        let verified = self.verifier.verify(image, &bundle, &self.policy);
        verified.map_err(|error| SignatureProblem::invalid(&error))
    }

    fn check_identity(&self, signed: &VerificationResult) -> Result<(), SignatureProblem> {
        let issuer = signed.issuer().unwrap_or_default();
        let subject = signed.identity().map_or("", SubjectAltName::as_str);
        if self.identities.iter().any(|identity| identity.matches(issuer, subject)) {
            return Ok(());
        }
        let (issuer, subject) = (shorten(issuer), shorten(subject));
        Err(SignatureProblem::OtherIdentity { issuer, subject })
    }
}

impl<'a> SignerMatcher<'a> {
    fn read(identity: &'a Identity) -> Result<Self, AuthorityProblem> {
        if *identity == Identity::default() {
            return Err(AuthorityProblem::AnyIdentity);
        }
        let issuer = identity.issuer.as_ref().map(Matcher::read).transpose()?;
        let subject = identity.subject.as_ref().map(Matcher::read).transpose()?;
        Ok(Self { issuer, subject })
    }

    fn matches(&self, issuer: &str, subject: &str) -> bool {
        self.issuer.as_ref().is_none_or(|matcher| matcher.matches(issuer))
            && self.subject.as_ref().is_none_or(|matcher| matcher.matches(subject))
    }
}

impl<'a> Matcher<'a> {
    fn read(written: &'a TextMatch) -> Result<Self, AuthorityProblem> {
        match written {
            TextMatch::Equal(text) => Ok(Self::Equal(text)),
            TextMatch::Pattern(pattern) => Expression::new(pattern)
                .map(Self::Pattern)
                .map_err(|error| AuthorityProblem::Pattern(error.to_string())),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Equal(expected) => *expected == text,
            Self::Pattern(expression) => expression.is_match(text),
        }
    }
}

fn read_root(written: Option<&[u8]>) -> Result<Verifier, AuthorityProblem> {
    let problem = |error: &dyn std::fmt::Display| AuthorityProblem::TrustedRoot(shorten(&error.to_string()));
    let text = match written {
        Some(written) => std::str::from_utf8(written).map_err(|error| problem(&error))?,
        None => SIGSTORE_PRODUCTION_TRUSTED_ROOT,
    };
    let root = TrustedRoot::from_json(text).map_err(|error| problem(&error))?;
    Verifier::new(&root).map_err(|error| problem(&error))
}

/// What a transparency log has signed, as cosign annotates a statement with it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LogEntry {
    signed_entry_timestamp: String,
    payload: LogPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPayload {
    /// In base 64.
    body: String,
    integrated_time: i64,
    log_index: i64,
    /// In hexadecimal digits.
    #[serde(rename = "logID")]
    log_id: String,
}

/// The kind of an entry, which its body tells.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogBody {
    kind: String,
    api_version: String,
}

/// A statement with its annotations in the form of a bundle. Both have the same parts.
fn to_bundle(statement: &SignedStatement) -> Result<Bundle, SignatureProblem> {
    let certificate = statement.certificate.as_deref().ok_or(SignatureProblem::NoCertificate)?;
    let entry = statement.log_entry.as_deref().ok_or(SignatureProblem::NoLogEntry)?;
    let entry: LogEntry =
        serde_json::from_str(entry).map_err(|error| SignatureProblem::unreadable(&error))?;
    let LogPayload { body, integrated_time, log_index, log_id } = entry.payload;
    let decoded = BASE64_STANDARD.decode(&body).map_err(|error| SignatureProblem::unreadable(&error))?;
    let LogBody { kind, api_version } =
        serde_json::from_slice(&decoded).map_err(|error| SignatureProblem::unreadable(&error))?;
    let log = Sha256Hash::from_hex(&log_id).map_err(|error| SignatureProblem::unreadable(&error))?;
    let mut certificates = read_certificates(certificate)?;
    if certificates.is_empty() {
        return Err(SignatureProblem::NoCertificate);
    }
    certificates.extend(read_certificates(statement.chain.as_deref().unwrap_or_default())?);
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
        "verificationMaterial": {
            "x509CertificateChain": {"certificates": certificates},
            "tlogEntries": [{
                "logIndex": log_index.to_string(),
                "logId": {"keyId": log.to_base64()},
                "kindVersion": {"kind": kind, "version": api_version},
                "integratedTime": integrated_time.to_string(),
                "inclusionPromise": {"signedEntryTimestamp": entry.signed_entry_timestamp},
                "canonicalizedBody": body,
            }],
        },
        "messageSignature": {"signature": statement.signature.trim()},
    });
    serde_json::from_value(bundle).map_err(|error| SignatureProblem::unreadable(&error))
}

/// Certificates in PEM, as a bundle lists them.
fn read_certificates(pem: &str) -> Result<Vec<Value>, SignatureProblem> {
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| SignatureProblem::unreadable(&error))?;
        certificates.push(json!({"rawBytes": BASE64_STANDARD.encode(certificate)}));
    }
    Ok(certificates)
}
