//! Decides whether the signatures and attestations of an image satisfy the policy of an `ImageConfig`. Performs no I/O.
//!
//! Follows cosign's signatures. In the older form, a statement in JSON ("simple signing") names the digest of the image, and
//! the signature is of the bytes of the statement. In the newer one, both are in a [`bundle`] of Sigstore. An authority is known by
//! its public key, or by who it is ([`keyless`]). What it has to have signed is [`demanded`].
//!
//! # Invariants
//! * What cannot be decided counts as not signed: a policy that is not understood lets nothing through.
//! * One authority that is satisfied by one signature is enough, as in Crossplane.

mod bundle;
mod demanded;
mod keyless;

use std::collections::BTreeSet;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA224_ASN1, ECDSA_P521_SHA256_ASN1,
    ECDSA_P521_SHA384_ASN1, ECDSA_P521_SHA512_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use demanded::Demanded;

pub use ferroplane_image::registry::{ImageSignature, SignedStatement};
pub use keyless::{Identity, Keyless, SignatureProblem, TextMatch};

/// What a statement is of. Others are no signatures of images.
const STATEMENT: &str = "cosign container image signature";

/// What an `ImageConfig` demands of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SignaturePolicy {
    pub authorities: Vec<Authority>,
}

/// A signer whose signature is enough.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Authority {
    pub name: String,
    pub trust: Trust,
    /// The types of predicates of which one has to be attested, in place of a signature. If there are none, a signature is demanded.
    pub attestations: Vec<String>,
}

/// How a signature of an authority is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Trust {
    /// By a public key, in PEM, and the name of the algorithm that hashes what is signed.
    Key { pem: Vec<u8>, hash: String },
    /// By a certificate that says who signed.
    Keyless(Keyless),
    /// Not at all, for this reason.
    Unknown(String),
}

/// Why an image does not satisfy a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    #[error("the policy names no authority")]
    NoAuthority,
    #[error("{}", list(.0))]
    Authorities(Vec<(String, AuthorityProblem)>),
}

/// Why no signature is of an authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityProblem {
    #[error("the image has no signature")]
    NotSigned,
    #[error("no signature of the image was made with its key")]
    OtherKey,
    #[error("the signature with its key is for another image")]
    OtherImage,
    #[error("its key is not a public key in PEM that signatures can be verified with")]
    Key,
    #[error("the hash algorithm `{0}` is not supported; use sha256, sha384 or sha512")]
    Hash(String),
    #[error("it names no identity that can sign")]
    NoIdentity,
    #[error("one of its identities demands neither an issuer nor a subject")]
    AnyIdentity,
    #[error("one of its identities cannot be used: {0}")]
    Pattern(String),
    #[error("its trusted root cannot be used: {0}")]
    TrustedRoot(String),
    #[error("no signature of the image counts: {}", list_signatures(.0))]
    Signatures(BTreeSet<SignatureProblem>),
    #[error("the image has no attestation")]
    NotAttested,
    #[error("no attestation of the image counts: {}", list_signatures(.0))]
    Attestations(BTreeSet<SignatureProblem>),
    #[error("{0}")]
    Unknown(String),
}

fn list(problems: &[(String, AuthorityProblem)]) -> String {
    let problems = problems.iter().map(|(name, problem)| format!("authority `{name}`: {problem}"));
    problems.collect::<Vec<_>>().join("; ")
}

/// What is wrong with signatures. An image can have many, and a condition has to be read.
fn list_signatures(problems: &BTreeSet<SignatureProblem>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    match problems.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

impl SignaturePolicy {
    /// Whether attestations have to be fetched to verify an image.
    pub fn demands_attestations(&self) -> bool {
        self.authorities.iter().any(|authority| !authority.attestations.is_empty())
    }

    /// Whether the image with this digest (`sha256:…`) is signed as the policy demands.
    pub fn verify(&self, digest: &str, signatures: &[ImageSignature]) -> Result<(), Unverified> {
        if self.authorities.is_empty() {
            return Err(Unverified::NoAuthority);
        }
        let mut problems = Vec::new();
        for authority in &self.authorities {
            match authority.verify(digest, signatures) {
                Ok(()) => return Ok(()),
                Err(problem) => problems.push((authority.name.clone(), problem)),
            }
        }
        Err(Unverified::Authorities(problems))
    }
}

impl Authority {
    fn verify(&self, digest: &str, signatures: &[ImageSignature]) -> Result<(), AuthorityProblem> {
        let demanded = match &*self.attestations {
            [] => Demanded::Signature,
            types => Demanded::Attestation(types),
        };
        let found: Vec<&ImageSignature> =
            signatures.iter().filter(|signature| demanded.has_form_of(signature)).collect();
        match &self.trust {
            Trust::Key { pem, hash } => PublicKey::read(pem, hash)?.verify(digest, demanded, &found),
            Trust::Keyless(keyless) => keyless.verify(digest, demanded, &found),
            Trust::Unknown(why) => Err(AuthorityProblem::Unknown(why.clone())),
        }
    }
}

/// A key, for each algorithm that it can be used with.
struct PublicKey(Vec<ParsedPublicKey>);

impl PublicKey {
    fn read(pem: &[u8], hash: &str) -> Result<Self, AuthorityProblem> {
        let algorithms = algorithms(hash).ok_or_else(|| AuthorityProblem::Hash(hash.to_owned()))?;
        let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| AuthorityProblem::Key)?;
        // Only those of the key's own kind take it.
        let keys = algorithms.iter().filter_map(|algorithm| ParsedPublicKey::new(*algorithm, &key).ok());
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() { Err(AuthorityProblem::Key) } else { Ok(Self(keys)) }
    }

    fn verify(
        &self,
        digest: &str,
        demanded: Demanded<'_>,
        found: &[&ImageSignature],
    ) -> Result<(), AuthorityProblem> {
        if found.is_empty() {
            return Err(demanded.missing());
        }
        match demanded {
            Demanded::Signature => self.verify_signatures(digest, found),
            Demanded::Attestation(_) => self.verify_attestations(digest, demanded, found),
        }
    }

    /// Whether one of the attestations counts: it was made with this key, is of this image, and has a predicate that is demanded.
    fn verify_attestations(
        &self,
        digest: &str,
        demanded: Demanded<'_>,
        found: &[&ImageSignature],
    ) -> Result<(), AuthorityProblem> {
        let mut problems = BTreeSet::new();
        for attestation in found {
            match self.attested(attestation, digest, demanded) {
                Ok(()) => return Ok(()),
                Err(problem) => problems.insert(problem),
            };
        }
        Err(demanded.none_counts(problems))
    }

    fn attested(
        &self,
        attestation: &ImageSignature,
        digest: &str,
        demanded: Demanded<'_>,
    ) -> Result<(), SignatureProblem> {
        let envelope = bundle::envelope_of(attestation)?;
        // First: the content of an envelope without a known signature proves nothing.
        if !self.made(&envelope.pae(), envelope.signature.sig.as_bytes()) {
            return Err(SignatureProblem::OtherKey);
        }
        bundle::check_statement(&envelope, digest, demanded)?;
        Ok(())
    }

    fn verify_signatures(
        &self,
        digest: &str,
        signatures: &[&ImageSignature],
    ) -> Result<(), AuthorityProblem> {
        let mut signed = signatures.iter().filter_map(|signature| self.signed(signature, digest)).peekable();
        if signed.peek().is_none() {
            return Err(AuthorityProblem::OtherKey);
        }
        if signed.any(|is_about_image| is_about_image) { Ok(()) } else { Err(AuthorityProblem::OtherImage) }
    }

    /// Whether a signature that was made with this key is of the image with this digest.
    fn signed(&self, signature: &ImageSignature, digest: &str) -> Option<bool> {
        match signature {
            ImageSignature::Statement(statement) => {
                let bytes = BASE64_STANDARD.decode(statement.signature.trim()).ok()?;
                // Of the bytes as they came: a statement that is written anew need not have the same.
                self.made(&statement.payload, &bytes).then(|| is_about(&statement.payload, digest))
            }
            ImageSignature::Bundle(content) => {
                let bundle = bundle::read(content).ok()?;
                let envelope = bundle::envelope(&bundle).ok()?;
                let is_made = self.made(&envelope.pae(), envelope.signature.sig.as_bytes());
                is_made.then(|| bundle::check_statement(envelope, digest, Demanded::Signature).is_ok())
            }
            // It is an attestation, which does not say that the image may be used.
            ImageSignature::Envelope(_) => None,
        }
    }

    fn made(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.iter().any(|key| key.verify_sig(message, signature).is_ok())
    }
}

/// The algorithms for keys of all kinds. Ed25519 hashes in its own way, whatever the policy says.
fn algorithms(hash: &str) -> Option<Vec<&'static dyn VerificationAlgorithm>> {
    let mut algorithms: Vec<&'static dyn VerificationAlgorithm> = match &*hash.trim().to_ascii_lowercase() {
        "sha224" => vec![&ECDSA_P521_SHA224_ASN1],
        "" | "sha256" => vec![
            &ECDSA_P256_SHA256_ASN1,
            &ECDSA_P384_SHA256_ASN1,
            &ECDSA_P521_SHA256_ASN1,
            &RSA_PKCS1_2048_8192_SHA256,
        ],
        "sha384" => vec![
            &ECDSA_P256_SHA384_ASN1,
            &ECDSA_P384_SHA384_ASN1,
            &ECDSA_P521_SHA384_ASN1,
            &RSA_PKCS1_2048_8192_SHA384,
        ],
        "sha512" => vec![
            &ECDSA_P256_SHA512_ASN1,
            &ECDSA_P384_SHA512_ASN1,
            &ECDSA_P521_SHA512_ASN1,
            &RSA_PKCS1_2048_8192_SHA512,
        ],
        _ => return None,
    };
    algorithms.push(&ED25519);
    Some(algorithms)
}

/// Whether a statement says that it is about the image with this digest.
fn is_about(payload: &[u8], digest: &str) -> bool {
    #[derive(Deserialize)]
    struct Statement {
        critical: Critical,
    }
    #[derive(Deserialize)]
    struct Critical {
        image: Image,
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Image {
        docker_manifest_digest: String,
    }
    let Ok(Statement { critical }) = serde_json::from_slice(payload) else { return false };
    // The name in the statement is not compared, as cosign does not: a mirror serves the same image under another one.
    critical.kind == STATEMENT && critical.image.docker_manifest_digest == digest
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
        RsaKeyPair,
    };
    use serde_json::json;

    use super::*;

    const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

    fn pem(der: &PublicKeyX509Der<'_>) -> Vec<u8> {
        let text = BASE64_STANDARD.encode(der.as_ref());
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n").into_bytes()
    }

    fn statement(kind: &str, digest: &str) -> Vec<u8> {
        json!({"critical": {"identity": {"docker-reference": "x"}, "image": {"docker-manifest-digest": digest}, "type": kind}})
            .to_string()
            .into_bytes()
    }

    struct Signer(EcdsaKeyPair);

    impl Signer {
        fn new() -> Self {
            Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap())
        }

        fn pem(&self) -> Vec<u8> {
            pem(&self.0.public_key().as_der().unwrap())
        }

        fn sign(&self, payload: Vec<u8>) -> ImageSignature {
            let signature = self.0.sign(&SystemRandom::new(), &payload).unwrap();
            statement_with(payload, signature)
        }
    }

    fn statement_with(payload: Vec<u8>, signature: impl AsRef<[u8]>) -> ImageSignature {
        let signature = BASE64_STANDARD.encode(signature);
        ImageSignature::Statement(SignedStatement { payload, signature, ..SignedStatement::default() })
    }

    fn by_key(name: &str, pem: Vec<u8>) -> Authority {
        let trust = Trust::Key { pem, hash: "sha256".to_owned() };
        Authority { name: name.to_owned(), trust, attestations: Vec::new() }
    }

    fn verify(authorities: Vec<Authority>, signatures: &[ImageSignature]) -> Result<(), String> {
        let policy = SignaturePolicy { authorities };
        policy.verify(DIGEST, signatures).map_err(|problem| problem.to_string())
    }

    #[test]
    fn image_that_one_authority_has_signed_is_verified() {
        let (ours, other) = (Signer::new(), Signer::new());
        let signatures = [other.sign(statement(STATEMENT, DIGEST)), ours.sign(statement(STATEMENT, DIGEST))];
        assert_eq!(verify(vec![by_key("ours", ours.pem())], &signatures), Ok(()));
        let trust = Trust::Unknown("not supported".to_owned());
        let keyless = Authority { name: "keyless".to_owned(), trust, attestations: Vec::new() };
        assert_eq!(verify(vec![keyless, by_key("ours", ours.pem())], &signatures), Ok(()));
    }

    #[test]
    fn image_that_no_authority_has_signed_is_refused_with_the_reason_for_each() {
        let (ours, other) = (Signer::new(), Signer::new());
        let refused =
            |signatures: &[ImageSignature]| verify(vec![by_key("ours", ours.pem())], signatures).unwrap_err();
        assert_eq!(refused(&[]), "authority `ours`: the image has no signature");
        let by_other = other.sign(statement(STATEMENT, DIGEST));
        assert_eq!(refused(&[by_other]), "authority `ours`: no signature of the image was made with its key");
        let of_another = ours.sign(statement(STATEMENT, &DIGEST.replace('1', "2")));
        assert_eq!(
            refused(&[of_another]),
            "authority `ours`: the signature with its key is for another image"
        );
        let of_another_kind = ours.sign(statement("a letter", DIGEST));
        assert_eq!(
            refused(&[of_another_kind]),
            "authority `ours`: the signature with its key is for another image"
        );
        let mut changed = ours.sign(statement(STATEMENT, DIGEST));
        let ImageSignature::Statement(inner) = &mut changed else { panic!("it is a statement") };
        inner.payload.push(b' ');
        assert_eq!(refused(&[changed]), "authority `ours`: no signature of the image was made with its key");
        assert_eq!(verify(Vec::new(), &[]).unwrap_err(), "the policy names no authority");
    }

    /// A bundle as cosign 3 writes it for a key.
    fn bundle(signer: &Signer, predicate: &str, digest: &str) -> ImageSignature {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate,
            "subject": [{"digest": {"sha256": digest.trim_start_matches("sha256:")}}],
        });
        let (kind, payload) = ("application/vnd.in-toto+json", statement.to_string());
        let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = signer.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        let bundle = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": "ours"}},
            "dsseEnvelope": {
                "payloadType": kind, "payload": BASE64_STANDARD.encode(payload),
                "signatures": [{"sig": BASE64_STANDARD.encode(signature)}],
            },
        });
        ImageSignature::Bundle(bundle.to_string().into_bytes())
    }

    #[test]
    fn bundle_counts_if_it_has_the_signature_of_the_key_and_the_statement_of_a_signature() {
        let (ours, other) = (Signer::new(), Signer::new());
        let sign = "https://sigstore.dev/cosign/sign/v1";
        let outcome = |bundle| verify(vec![by_key("ours", ours.pem())], &[bundle]);
        assert_eq!(outcome(bundle(&ours, sign, DIGEST)), Ok(()));
        let by_other = outcome(bundle(&other, sign, DIGEST)).unwrap_err();
        assert_eq!(by_other, "authority `ours`: no signature of the image was made with its key");
        let wrong = "authority `ours`: the signature with its key is for another image";
        let of_another = outcome(bundle(&ours, sign, &DIGEST.replace('1', "2"))).unwrap_err();
        assert_eq!(of_another, wrong);
        let attestation = outcome(bundle(&ours, "https://slsa.dev/provenance/v1", DIGEST)).unwrap_err();
        assert_eq!(attestation, wrong);
    }

    const PROVENANCE: &str = "https://slsa.dev/provenance/v1";

    /// The same in an envelope alone, as cosign wrote attestations before.
    fn envelope(signer: &Signer, predicate: &str, digest: &str) -> ImageSignature {
        let ImageSignature::Bundle(content) = bundle(signer, predicate, digest) else { panic!("no bundle") };
        let bundle: serde_json::Value = serde_json::from_slice(&content).unwrap();
        ImageSignature::Envelope(bundle["dsseEnvelope"].to_string().into_bytes())
    }

    fn attested(signer: &Signer, types: &[&str], found: &[ImageSignature]) -> Result<(), String> {
        let attestations = types.iter().map(|&kind| kind.to_owned()).collect();
        verify(vec![Authority { attestations, ..by_key("ours", signer.pem()) }], found)
    }

    #[test]
    fn attestation_with_a_demanded_predicate_counts_in_both_forms() {
        let ours = Signer::new();
        for form in [envelope(&ours, PROVENANCE, DIGEST), bundle(&ours, PROVENANCE, DIGEST)] {
            let found = [ours.sign(statement(STATEMENT, DIGEST)), form];
            assert_eq!(attested(&ours, &[PROVENANCE], &found), Ok(()));
            assert_eq!(attested(&ours, &["https://spdx.dev/Document", PROVENANCE], &found), Ok(()));
            assert_eq!(attested(&ours, &["slsaprovenance1"], &found), Ok(()), "cosign's name for it");
        }
    }

    #[test]
    fn attestation_that_does_not_hold_is_refused_with_the_reason() {
        let (ours, other) = (Signer::new(), Signer::new());
        let refused = |found: &[ImageSignature], why: &str| {
            assert_eq!(
                attested(&ours, &[PROVENANCE], found).unwrap_err(),
                format!("authority `ours`: {why}")
            );
        };
        let none_counts = |why: &str| format!("no attestation of the image counts: {why}");
        let other_key = none_counts("one was not made with its key");
        let other_image = none_counts("one is of another image");
        let other_type = none_counts("one has the predicate type `https://spdx.dev/Document`");
        for form in [envelope, bundle] {
            refused(&[form(&other, PROVENANCE, DIGEST)], &other_key);
            refused(&[form(&ours, PROVENANCE, &DIGEST.replace('1', "2"))], &other_image);
            refused(&[form(&ours, "https://spdx.dev/Document", DIGEST)], &other_type);
        }
        refused(&[ours.sign(statement(STATEMENT, DIGEST))], "the image has no attestation");
        refused(&[], "the image has no attestation");
        // The payload is changed after it was signed.
        let ImageSignature::Envelope(content) = envelope(&ours, PROVENANCE, DIGEST) else {
            panic!("no envelope")
        };
        let mut changed: serde_json::Value = serde_json::from_slice(&content).unwrap();
        let payload = BASE64_STANDARD.decode(changed["payload"].as_str().unwrap()).unwrap();
        let payload = String::from_utf8(payload)
            .unwrap()
            .replace("predicateType", "predicateType\": \"x\", \"predicateType");
        changed["payload"] = json!(BASE64_STANDARD.encode(payload));
        refused(&[ImageSignature::Envelope(changed.to_string().into_bytes())], &other_key);
        changed["signatures"] = json!([]);
        let said =
            attested(&ours, &[PROVENANCE], &[ImageSignature::Envelope(changed.to_string().into_bytes())]);
        assert!(
            said.unwrap_err()
                .contains("one cannot be read (DSSE envelope must contain exactly one signature")
        );
    }

    #[test]
    fn attestation_is_no_signature_and_an_empty_type_matches_nothing() {
        let ours = Signer::new();
        let said = verify(vec![by_key("ours", ours.pem())], &[envelope(&ours, PROVENANCE, DIGEST)]);
        assert_eq!(said.unwrap_err(), "authority `ours`: the image has no signature");
        let said = attested(&ours, &[""], &[envelope(&ours, "", DIGEST)]).unwrap_err();
        assert!(said.ends_with("one has the predicate type ``"), "{said}");
    }

    #[test]
    fn keys_of_all_usual_kinds_are_understood_and_others_named() {
        let payload = statement(STATEMENT, DIGEST);
        let ed25519 = Ed25519KeyPair::generate().unwrap();
        let rsa = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let mut by_rsa = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &payload, &mut by_rsa).unwrap();
        let by_ed25519 = ed25519.sign(&payload).as_ref().to_vec();
        let ed25519: PublicKeyX509Der<'_> = ed25519.public_key().as_der().unwrap();
        let rsa: PublicKeyX509Der<'_> = rsa.public_key().as_der().unwrap();
        for (key, signature) in [(pem(&ed25519), by_ed25519), (pem(&rsa), by_rsa)] {
            let signature = statement_with(payload.clone(), signature);
            assert_eq!(verify(vec![by_key("ours", key)], &[signature]), Ok(()));
        }
        let garbage = verify(vec![by_key("ours", b"garbage".to_vec())], &[]).unwrap_err();
        assert_eq!(
            garbage,
            "authority `ours`: its key is not a public key in PEM that signatures can be verified with"
        );
        let trust = Trust::Key { pem: Signer::new().pem(), hash: "md5".to_owned() };
        let authority = Authority { trust, ..by_key("ours", Vec::new()) };
        let odd = verify(vec![authority], &[]).unwrap_err();
        assert!(odd.contains("`md5` is not supported"), "{odd}");
    }
}
