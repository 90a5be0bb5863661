//! Signatures without keys: each test breaks one thing that has to hold.

use ferroplane_package::signature::{
    Authority, Identity, ImageSignature, Keyless, SignaturePolicy, SignedStatement, TextMatch, Trust,
};
use ferroplane_testkit::{KeylessSigner, KeylessStatement, Sigstore};
use serde_json::{Value, json};

const IMAGE: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER_IMAGE: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";
const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const ISSUER: &str = "https://issuer.example.org";
const SUBJECT: &str = "https://ci.example.org/acme/release";
const DAY: i64 = 24 * 60 * 60;

fn statement(signed: KeylessStatement) -> ImageSignature {
    ImageSignature::Statement(parts(signed))
}

fn parts(signed: KeylessStatement) -> SignedStatement {
    let KeylessStatement { payload, signature, certificate, chain, log_entry } = signed;
    let (certificate, chain, log_entry) = (Some(certificate), Some(chain), Some(log_entry));
    SignedStatement { payload, signature, certificate, chain, log_entry }
}

fn bundle(bundle: &Value) -> ImageSignature {
    ImageSignature::Bundle(bundle.to_string().into_bytes())
}

#[expect(clippy::unnecessary_wraps, reason = "fields of identities are optional")]
fn equal(text: &str) -> Option<TextMatch> {
    Some(TextMatch::Equal(text.to_owned()))
}

#[expect(clippy::unnecessary_wraps, reason = "fields of identities are optional")]
fn pattern(text: &str) -> Option<TextMatch> {
    Some(TextMatch::Pattern(text.to_owned()))
}

/// Trust in the signer of these tests, by this root.
fn trust(root: &Value) -> Keyless {
    let identities = vec![Identity { issuer: equal(ISSUER), subject: equal(SUBJECT) }];
    Keyless { identities, ignores_sct: false, trusted_root: Some(root.to_string().into_bytes()) }
}

fn verify(keyless: Keyless, signatures: &[ImageSignature]) -> Result<(), String> {
    verify_demanding(&[], keyless, signatures)
}

/// The same for attestations with predicates of these types.
fn verify_demanding(types: &[&str], keyless: Keyless, signatures: &[ImageSignature]) -> Result<(), String> {
    let (name, trust) = ("robot".to_owned(), Trust::Keyless(keyless));
    let attestations = types.iter().map(|&kind| kind.to_owned()).collect();
    let authorities = vec![Authority { name, trust, attestations }];
    SignaturePolicy { authorities }.verify(IMAGE, signatures).map_err(|problem| problem.to_string())
}

/// Both forms of a signature of the image are refused because of this.
fn both_refused(sigstore: &Sigstore, signer: &KeylessSigner, root: &Value, why: &str) {
    let forms = [statement(sigstore.sign(signer, IMAGE)), bundle(&sigstore.bundle(signer, IMAGE, SIGN))];
    for form in forms {
        refused(verify(trust(root), &[form]), why);
    }
}

#[track_caller]
fn refused(outcome: Result<(), String>, why: &str) {
    let said = outcome.unwrap_err();
    assert!(said.starts_with("authority `robot`: "), "{said}");
    assert!(said.contains(why), "{said}");
}

#[test]
fn image_that_a_known_identity_has_signed_is_verified_in_both_forms() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let older = statement(sigstore.sign(&signer, IMAGE));
    let newer = bundle(&sigstore.bundle(&signer, IMAGE, SIGN));
    assert_eq!(verify(trust(&root), std::slice::from_ref(&older)), Ok(()));
    assert_eq!(verify(trust(&root), std::slice::from_ref(&newer)), Ok(()));
    let of_another = statement(sigstore.sign(&signer, OTHER_IMAGE));
    assert_eq!(verify(trust(&root), &[of_another, newer]), Ok(()), "one that counts is enough");
}

#[test]
fn identity_can_be_demanded_in_part_and_by_pattern() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let (root, signature) = (sigstore.trusted_root(), statement(sigstore.sign(&signer, IMAGE)));
    let outcome = |issuer, subject| {
        let identities = vec![Identity { issuer, subject }];
        verify(Keyless { identities, ..trust(&root) }, std::slice::from_ref(&signature))
    };
    assert_eq!(outcome(equal(ISSUER), None), Ok(()));
    assert_eq!(outcome(None, equal(SUBJECT)), Ok(()));
    assert_eq!(outcome(pattern("^https://issuer\\."), pattern("/acme/")), Ok(()));
    let unknown = format!("one is of `{SUBJECT}` at issuer `{ISSUER}`, who is none of its identities");
    refused(outcome(pattern("^issuer"), equal(SUBJECT)), &unknown);
    refused(outcome(equal(ISSUER), pattern("/acme$")), &unknown);
    refused(outcome(None, None), "one of its identities demands neither an issuer nor a subject");
    refused(outcome(pattern("("), None), "one of its identities cannot be used: error parsing regexp");
    refused(verify(Keyless { identities: Vec::new(), ..trust(&root) }, &[]), "it names no identity");
    refused(verify(trust(&root), &[]), "the image has no signature");
}

#[test]
fn signature_of_another_issuer_is_refused() {
    let sigstore = Sigstore::new();
    let signer = KeylessSigner { issuer: "https://evil.example.org".to_owned(), ..KeylessSigner::default() };
    let why = format!("one is of `{SUBJECT}` at issuer `https://evil.example.org`, who is none");
    both_refused(&sigstore, &signer, &sigstore.trusted_root(), &why);
}

#[test]
fn signature_of_another_subject_is_refused() {
    let sigstore = Sigstore::new();
    let subject = format!("{SUBJECT}/fork");
    let signer = KeylessSigner { subject, ..KeylessSigner::default() };
    let why = format!("one is of `{SUBJECT}/fork` at issuer `{ISSUER}`, who is none");
    both_refused(&sigstore, &signer, &sigstore.trusted_root(), &why);
}

#[test]
fn signature_that_the_log_took_outside_the_time_of_the_certificate_is_refused() {
    let sigstore = Sigstore::new();
    let signer = KeylessSigner::default();
    for (days, why) in [(1, "CertExpired"), (-1, "CertNotValidYet")] {
        let signer = KeylessSigner { logged_at: signer.logged_at + days * DAY, ..signer.clone() };
        both_refused(&sigstore, &signer, &sigstore.trusted_root(), why);
    }
}

#[test]
fn certificate_of_another_authority_is_refused() {
    let (ours, other) = (Sigstore::new(), Sigstore::new());
    let mut root = other.trusted_root();
    root["certificateAuthorities"] = ours.trusted_root()["certificateAuthorities"].take();
    both_refused(&other, &KeylessSigner::default(), &root, "certificate chain is invalid");
}

#[test]
fn certificate_that_is_not_for_signing_code_is_refused() {
    let sigstore = Sigstore::new();
    let signer = KeylessSigner { may_sign_code: false, ..KeylessSigner::default() };
    both_refused(&sigstore, &signer, &sigstore.trusted_root(), "RequiredEkuNotFound");
}

#[test]
fn certificate_that_no_log_has_signed_is_refused_unless_that_is_ignored() {
    let sigstore = Sigstore::new();
    let root = sigstore.trusted_root();
    let signer = KeylessSigner { has_sct: false, ..KeylessSigner::default() };
    both_refused(&sigstore, &signer, &root, "certificate is missing SCT extension");
    let forms = [statement(sigstore.sign(&signer, IMAGE)), bundle(&sigstore.bundle(&signer, IMAGE, SIGN))];
    for form in forms {
        assert_eq!(verify(Keyless { ignores_sct: true, ..trust(&root) }, &[form]), Ok(()));
    }
}

#[test]
fn certificate_that_another_log_has_signed_is_refused() {
    let (sigstore, other) = (Sigstore::new(), Sigstore::new());
    let mut root = sigstore.trusted_root();
    root["ctlogs"] = other.trusted_root()["ctlogs"].take();
    let why = "invalid signed certificate timestamp: SCT signature verification failed";
    both_refused(&sigstore, &KeylessSigner::default(), &root, why);
}

#[test]
fn entry_of_a_log_that_is_not_trusted_is_refused() {
    let (sigstore, other) = (Sigstore::new(), Sigstore::new());
    let mut root = sigstore.trusted_root();
    root["tlogs"] = other.trusted_root()["tlogs"].take();
    both_refused(&sigstore, &KeylessSigner::default(), &root, "No log key valid at integrated time");
}

#[test]
fn entry_that_the_log_has_not_signed_is_refused() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    // The time is what somebody with an old certificate would like to change.
    let mut forged = sigstore.sign(&signer, IMAGE);
    let mut entry: Value = serde_json::from_str(&forged.log_entry).unwrap();
    entry["Payload"]["integratedTime"] = json!(signer.logged_at + 1);
    forged.log_entry = entry.to_string();
    refused(verify(trust(&root), &[statement(forged)]), "SET verification failed");
    let mut forged = sigstore.bundle(&signer, IMAGE, SIGN);
    let entry = &mut forged["verificationMaterial"]["tlogEntries"][0];
    entry["integratedTime"] = json!((signer.logged_at + 1).to_string());
    refused(verify(trust(&root), &[bundle(&forged)]), "SET verification failed");
}

#[test]
fn entry_of_another_payload_is_refused() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let other = sigstore.sign(&signer, OTHER_IMAGE);
    let borrowed = KeylessStatement { log_entry: other.log_entry, ..sigstore.sign(&signer, IMAGE) };
    refused(verify(trust(&root), &[statement(borrowed)]), "artifact hash mismatch for hashedrekord entry");
    let mut other = sigstore.bundle(&signer, OTHER_IMAGE, SIGN);
    let mut borrowed = sigstore.bundle(&signer, IMAGE, SIGN);
    borrowed["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"].take();
    refused(verify(trust(&root), &[bundle(&borrowed)]), "DSSE payload hash mismatch");
}

#[test]
fn entry_of_another_signature_of_the_same_payload_is_refused() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let other = sigstore.sign(&signer, IMAGE);
    let borrowed = KeylessStatement { log_entry: other.log_entry, ..sigstore.sign(&signer, IMAGE) };
    let why = "certificate in bundle does not match certificate in Rekor entry";
    refused(verify(trust(&root), &[statement(borrowed)]), why);
    let mut other = sigstore.bundle(&signer, IMAGE, SIGN);
    let mut borrowed = sigstore.bundle(&signer, IMAGE, SIGN);
    borrowed["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"].take();
    refused(verify(trust(&root), &[bundle(&borrowed)]), "log entry does not match the bundle");
}

#[test]
fn entry_without_a_proof_that_the_log_has_it_is_refused_in_a_bundle() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let mut without = sigstore.bundle(&signer, IMAGE, SIGN);
    let entry = without["verificationMaterial"]["tlogEntries"][0].as_object_mut().unwrap();
    entry.remove("inclusionProof");
    refused(verify(trust(&root), &[bundle(&without)]), "one is not valid");
    let mut forged = sigstore.bundle(&signer, IMAGE, SIGN);
    let mut other = Sigstore::new().bundle(&signer, IMAGE, SIGN);
    forged["verificationMaterial"]["tlogEntries"][0]["inclusionProof"] =
        other["verificationMaterial"]["tlogEntries"][0]["inclusionProof"].take();
    refused(verify(trust(&root), &[bundle(&forged)]), "one is not valid");
}

#[test]
fn signature_that_the_certificate_has_not_made_is_refused() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let other = sigstore.sign(&signer, IMAGE);
    let borrowed = KeylessStatement { signature: other.signature, ..sigstore.sign(&signer, IMAGE) };
    refused(verify(trust(&root), &[statement(borrowed)]), "invalid signature: signature verification failed");
    let mut other = sigstore.bundle(&signer, IMAGE, SIGN);
    let mut borrowed = sigstore.bundle(&signer, IMAGE, SIGN);
    borrowed["dsseEnvelope"] = other["dsseEnvelope"].take();
    refused(
        verify(trust(&root), &[bundle(&borrowed)]),
        "invalid signature: DSSE signature verification failed",
    );
}

#[test]
fn signature_of_another_image_is_refused() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let forms = [
        statement(sigstore.sign(&signer, OTHER_IMAGE)),
        bundle(&sigstore.bundle(&signer, OTHER_IMAGE, SIGN)),
    ];
    for form in forms {
        refused(verify(trust(&root), &[form]), "one is of another image");
    }
}

#[test]
fn attestation_is_no_signature() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let attestation = bundle(&sigstore.bundle(&signer, IMAGE, "https://slsa.dev/provenance/v1"));
    refused(verify(trust(&sigstore.trusted_root()), &[attestation]), "one is an attestation");
}

#[test]
fn attestation_in_a_bundle_of_a_known_identity_counts_where_it_is_demanded() {
    const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let outcome = |found: ImageSignature| verify_demanding(&[PROVENANCE], trust(&root), &[found]);
    assert_eq!(outcome(bundle(&sigstore.bundle(&signer, IMAGE, PROVENANCE))), Ok(()));
    let of_another = bundle(&sigstore.bundle(&signer, OTHER_IMAGE, PROVENANCE));
    refused(outcome(of_another), "no attestation of the image counts: one is of another image");
    let other_type = bundle(&sigstore.bundle(&signer, IMAGE, SIGN));
    refused(outcome(other_type), &format!("one has the predicate type `{SIGN}`"));
    refused(outcome(statement(sigstore.sign(&signer, IMAGE))), "the image has no attestation");
    let subject = format!("{SUBJECT}/fork");
    let other_signer = KeylessSigner { subject, ..KeylessSigner::default() };
    let by_other = bundle(&sigstore.bundle(&other_signer, IMAGE, PROVENANCE));
    refused(outcome(by_other), "who is none of its identities");
    let mut tampered = sigstore.bundle(&signer, IMAGE, PROVENANCE);
    let mut other = sigstore.bundle(&signer, IMAGE, PROVENANCE);
    tampered["dsseEnvelope"]["signatures"] = other["dsseEnvelope"]["signatures"].take();
    refused(outcome(bundle(&tampered)), "one is not valid");
    let whole = sigstore.bundle(&signer, IMAGE, PROVENANCE);
    let alone = ImageSignature::Envelope(whole["dsseEnvelope"].to_string().into_bytes());
    refused(outcome(alone), "one is an attestation outside of a bundle, which counts with keys alone");
}

#[test]
fn signature_without_certificate_or_log_entry_is_refused() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let root = sigstore.trusted_root();
    let whole = parts(sigstore.sign(&signer, IMAGE));
    let broken = |statement| verify(trust(&root), &[ImageSignature::Statement(statement)]);
    refused(broken(SignedStatement { certificate: None, ..whole.clone() }), "one has no certificate");
    let empty = Some("no PEM".to_owned());
    refused(
        broken(SignedStatement { certificate: empty.clone(), ..whole.clone() }),
        "one has no certificate",
    );
    refused(
        broken(SignedStatement { log_entry: None, ..whole.clone() }),
        "one has no entry of a transparency log",
    );
    refused(broken(SignedStatement { log_entry: empty, ..whole.clone() }), "one cannot be read");
    refused(verify(trust(&root), &[ImageSignature::Bundle(b"{}".to_vec())]), "one cannot be read");
    // Its issuers are in the trusted root, too.
    assert_eq!(broken(SignedStatement { chain: None, ..whole }), Ok(()));
}

#[test]
fn root_that_cannot_be_read_lets_nothing_through_and_the_public_one_knows_nobody_of_a_test() {
    let (sigstore, signer) = (Sigstore::new(), KeylessSigner::default());
    let signature = statement(sigstore.sign(&signer, IMAGE));
    let with = |trusted_root| {
        let keyless = Keyless { trusted_root, ..trust(&Value::Null) };
        verify(keyless, std::slice::from_ref(&signature))
    };
    refused(with(Some(b"{}".to_vec())), "its trusted root cannot be used: failed to parse JSON");
    refused(with(Some(vec![0xff])), "its trusted root cannot be used");
    refused(with(None), "No log key valid at integrated time");
}
