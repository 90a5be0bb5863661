//! A Sigstore for one test: an authority for certificates, a log of certificates, and a log of signatures.
//!
//! Follows what Fulcio, Rekor (the first version) and cosign write. Certificates are valid on the first of January 2025, so that no
//! clock has a say.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
    SigningKey as _,
};
use serde_json::{Value, json};
use x509_parser::parse_x509_certificate;

/// Noon of the day on which certificates are valid, in seconds.
const NOON: i64 = 1_735_732_800;
/// The extensions of certificates that say who issued the identity, and that a log has the certificate.
const ISSUER: &[u64] = &[1, 3, 6, 1, 4, 1, 57_264, 1, 8];
const SCT_LIST: &[u64] = &[1, 3, 6, 1, 4, 1, 11_129, 2, 4, 2];
/// The name of the log of signatures.
const LOG: &str = "log.example.org";
const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A Sigstore that nobody trusts yet.
#[derive(Debug)]
pub struct Sigstore {
    authority: CertifiedIssuer<'static, KeyPair>,
    certificate_log: KeyPair,
    log: KeyPair,
}

/// Who signs, and how.
#[derive(Debug, Clone)]
pub struct KeylessSigner {
    pub issuer: String,
    pub subject: String,
    /// When the log takes the signature, in seconds.
    pub logged_at: i64,
    /// Whether the log of certificates has signed the certificate.
    pub has_sct: bool,
    /// Whether the certificate is for signing code, or else for a server.
    pub may_sign_code: bool,
}

/// A statement about an image with what cosign writes beside it.
#[derive(Debug, Clone)]
pub struct KeylessStatement {
    pub payload: Vec<u8>,
    pub signature: String,
    pub certificate: String,
    pub chain: String,
    pub log_entry: String,
}

/// An entry of the log of signatures.
struct Entry {
    body: String,
    log_id: Vec<u8>,
    promise: String,
}

impl Default for KeylessSigner {
    fn default() -> Self {
        Self {
            issuer: "https://issuer.example.org".to_owned(),
            subject: "https://ci.example.org/acme/release".to_owned(),
            logged_at: NOON,
            has_sct: true,
            may_sign_code: true,
        }
    }
}

impl Sigstore {
    pub fn new() -> Self {
        let mut params = no_params();
        params.distinguished_name.push(DnType::CommonName, "test sigstore");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, new_key()).expect("the parameters are valid");
        Self { authority, certificate_log: new_key(), log: new_key() }
    }

    /// What a verifier has to trust.
    pub fn trusted_root(&self) -> Value {
        let since = json!({"start": "2020-01-01T00:00:00Z"});
        let log = |url: &str, key: &KeyPair| {
            let key = key.subject_public_key_info();
            json!([{
                "baseUrl": url, "hashAlgorithm": "SHA2_256", "logId": {"keyId": encode(&sha256(&key))},
                "publicKey": {
                    "rawBytes": encode(&key), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": since,
                },
            }])
        };
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": log("https://log.example.org", &self.log),
            "ctlogs": log("https://certificates.example.org", &self.certificate_log),
            "certificateAuthorities": [{
                "uri": "https://authority.example.org", "validFor": since,
                "certChain": {"certificates": [{"rawBytes": encode(self.authority.der())}]},
            }],
            "timestampAuthorities": [],
        })
    }

    /// A signature of the image with this digest, as a statement.
    pub fn sign(&self, signer: &KeylessSigner, image: &str) -> KeylessStatement {
        let statement = json!({"critical": {
            "identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": image},
            "type": "cosign container image signature",
        }, "optional": null});
        let payload = statement.to_string().into_bytes();
        let key = new_key();
        let certificate = self.issue(&key, signer);
        let (signature, pem) = (encode(&sign(&key, &payload)), encode(certificate.pem().as_bytes()));
        let entry = self.log(
            &json!({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": hex(&sha256(&payload))}},
                "signature": {"content": signature, "publicKey": {"content": pem}},
            }}),
            signer.logged_at,
        );
        let log_entry = json!({"SignedEntryTimestamp": entry.promise, "Payload": {
            "body": entry.body, "integratedTime": signer.logged_at, "logIndex": 0, "logID": hex(&entry.log_id),
        }});
        KeylessStatement {
            payload,
            signature,
            certificate: certificate.pem(),
            chain: self.authority.pem(),
            log_entry: log_entry.to_string(),
        }
    }

    /// A statement with this predicate about the image with this digest, as a bundle.
    pub fn bundle(&self, signer: &KeylessSigner, image: &str, predicate: &str) -> Value {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": {},
            "subject": [{"digest": {"sha256": image.trim_start_matches("sha256:")}}],
        });
        let payload = statement.to_string();
        let key = new_key();
        let certificate = self.issue(&key, signer);
        let message = format!("DSSEv1 {} {IN_TOTO} {} {payload}", IN_TOTO.len(), payload.len());
        let signature = encode(&sign(&key, message.as_bytes()));
        let hash = json!({"algorithm": "sha256", "value": hex(&sha256(payload.as_bytes()))});
        let entry = self.log(
            &json!({"apiVersion": "0.0.1", "kind": "dsse", "spec": {
                "envelopeHash": hash, "payloadHash": hash,
                "signatures": [{"signature": signature, "verifier": encode(certificate.pem().as_bytes())}],
            }}),
            signer.logged_at,
        );
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": encode(certificate.der())},
                "tlogEntries": [{
                    "logIndex": "0", "logId": {"keyId": encode(&entry.log_id)},
                    "kindVersion": {"kind": "dsse", "version": "0.0.1"},
                    "integratedTime": signer.logged_at.to_string(),
                    "inclusionPromise": {"signedEntryTimestamp": entry.promise},
                    "inclusionProof": self.proof(&entry),
                    "canonicalizedBody": entry.body,
                }],
            },
            "dsseEnvelope": {
                "payloadType": IN_TOTO, "payload": encode(payload.as_bytes()),
                "signatures": [{"sig": signature}],
            },
        })
    }

    /// A certificate for who signs. The log of certificates signs all of it but its own signature (RFC 6962, 3.2).
    fn issue(&self, key: &KeyPair, signer: &KeylessSigner) -> Certificate {
        let mut params = no_params();
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2025, 1, 2);
        params.subject_alt_names =
            vec![SanType::URI(signer.subject.as_str().try_into().expect("subjects are ASCII"))];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![if signer.may_sign_code {
            ExtendedKeyUsagePurpose::CodeSigning
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        let issuer = der(0x0c, signer.issuer.as_bytes());
        params.custom_extensions = vec![CustomExtension::from_oid_content(ISSUER, issuer)];
        let issue = |params: &CertificateParams| {
            params.signed_by(key, &self.authority).expect("the authority can sign")
        };
        if signer.has_sct {
            let list = self.sct_list(issue(&params).der(), signer.logged_at);
            params.custom_extensions.push(CustomExtension::from_oid_content(SCT_LIST, list));
        }
        issue(&params)
    }

    /// The extension with the signature of the log of certificates.
    fn sct_list(&self, certificate: &[u8], time: i64) -> Vec<u8> {
        let (_, certificate) = parse_x509_certificate(certificate).expect("it was just made");
        let issuer = sha256(&self.authority.key().subject_public_key_info());
        let milliseconds = (time * 1000).to_be_bytes();
        let entry = length_prefixed(3, certificate.tbs_certificate.as_ref());
        // Version 1, a timestamp of a certificate, when, of a certificate before it had this, without extensions.
        let signed = [&[0_u8, 0][..], &milliseconds, &[0, 1], &issuer, &entry, &[0, 0]].concat();
        let signature = length_prefixed(2, &sign(&self.certificate_log, &signed));
        let log = sha256(&self.certificate_log.subject_public_key_info());
        // Version 1, which log, when, without extensions, SHA-256 and ECDSA.
        let sct = [&[0_u8][..], &log, &milliseconds, &[0, 0, 4, 3], &signature].concat();
        der(0x04, &length_prefixed(2, &length_prefixed(2, &sct)))
    }

    /// Take an entry into the log of signatures, which promises to keep it.
    fn log(&self, body: &Value, time: i64) -> Entry {
        let (body, log_id) =
            (encode(body.to_string().as_bytes()), sha256(&self.log.subject_public_key_info()));
        let promised =
            json!({"body": body, "integratedTime": time, "logID": hex(&log_id), "logIndex": 0}).to_string();
        let promise = encode(&sign(&self.log, promised.as_bytes()));
        Entry { body, log_id, promise }
    }

    /// The proof that an entry is in the log, which has no other.
    fn proof(&self, entry: &Entry) -> Value {
        let body = BASE64_STANDARD.decode(&entry.body).expect("it was just encoded");
        let root = encode(&sha256(&[&[0_u8][..], &body].concat()));
        let checkpoint = format!("{LOG} - 1\n1\n{root}\n");
        let signature = sign(&self.log, checkpoint.as_bytes());
        let signature = encode(&[&entry.log_id[..4], &signature].concat());
        json!({
            "logIndex": "0", "rootHash": root, "treeSize": "1", "hashes": [],
            "checkpoint": {"envelope": format!("{checkpoint}\n\u{2014} {LOG} {signature}\n")},
        })
    }
}

impl Default for Sigstore {
    fn default() -> Self {
        Self::new()
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("there is randomness")
}

/// Parameters of a certificate that names nobody.
fn no_params() -> CertificateParams {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("no name is malformed");
    params.distinguished_name = DistinguishedName::new();
    params
}

fn sign(key: &KeyPair, message: &[u8]) -> Vec<u8> {
    key.sign(message).expect("the key can sign")
}

fn sha256(content: &[u8]) -> Vec<u8> {
    digest(&SHA256, content).as_ref().to_vec()
}

fn encode(content: &[u8]) -> String {
    BASE64_STANDARD.encode(content)
}

fn hex(content: &[u8]) -> String {
    content.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Content after its length, in so many bytes.
fn length_prefixed(bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("test content is short").to_be_bytes();
    [&length[4 - bytes..], content].concat()
}

/// A value of ASN.1 with less than 256 bytes.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("test content is short");
    let head = if length < 128 { vec![tag, length] } else { vec![tag, 0x81, length] };
    [&head[..], content].concat()
}
