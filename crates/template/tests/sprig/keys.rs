//! Keys and certificates: the same world gives the same ones, and the original can read and use them.

use ferroplane_golang::base64;
use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::time::rfc3339::Moment;
use ferroplane_template::{Budget, Heap, Host, Options, Templates, sprig};
use serde_json::{Value, json};

use crate::oracle::Oracle;
use crate::theirs;

/// Bytes that do not repeat soon, because primes are made of them.
struct Bytes(u64);

impl Host for Bytes {
    fn now(&mut self) -> Option<Moment> {
        Some(Moment { seconds: 1_700_000_000, nanoseconds: 0 })
    }

    fn random(&mut self, buffer: &mut [u8]) -> bool {
        for byte in buffer {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes()[0];
        }
        true
    }
}

fn rendered(template: &str, data: &Value) -> Result<Vec<u8>, String> {
    let templates = Templates::parse("t", template, &Options::default(), &sprig::functions()).unwrap();
    let heap = Heap::new();
    let data = ferroplane_template::Value::from_json(&heap, data, Numbers::AsWritten);
    templates.execute(data, &heap, &mut Bytes(1), Budget::default()).map_err(|error| error.to_string())
}

const CERTIFICATES: &[(&str, &str)] = &[
    ("authority", r#"genCA "an authority" 365"#),
    ("authority with an elliptic key", r#"genCAWithKey "é & co" 3650 (genPrivateKey "ecdsa")"#),
    ("authority with Edwards' key", r#"genCAWithKey "a" 20000 (genPrivateKey "ed25519")"#),
    ("itself", r#"genSelfSignedCert "a" (list "10.0.0.1" "::1") (list "a.example.org" "b") 30"#),
    ("itself, with a key", r#"genSelfSignedCertWithKey "" nil nil 1 (genPrivateKey "ecdsa")"#),
    (
        "signed",
        r#"genSignedCertWithKey "a" nil (list "a.b") 30 (genCAWithKey "ca" 10 (genPrivateKey "ecdsa")) (genPrivateKey "ed25519")"#,
    ),
    (
        "signed by Edwards' key",
        r#"genSignedCertWithKey "a" (list "1.2.3.4") nil 30 (genCAWithKey "ca" 10 (genPrivateKey "ed25519")) (genPrivateKey "ecdsa")"#,
    ),
];

/// A certificate and its key, in base64.
fn certificate(call: &str) -> (String, String) {
    let template = format!("{{{{ $c := {call} }}}}{{{{ $c.Cert }}}}|{{{{ $c.Key }}}}");
    let printed = String::from_utf8(
        rendered(&template, &Value::Null).unwrap_or_else(|error| panic!("{call}: {error}")),
    );
    let printed = printed.unwrap();
    let (cert, key) = printed.split_once('|').unwrap();
    (base64::encode(cert.as_bytes()), base64::encode(key.as_bytes()))
}

#[test]
fn same_world_gives_the_same_certificate() {
    let call = CERTIFICATES[1].1;
    assert_eq!(certificate(call), certificate(call));
    let twice = rendered(r#"{{ eq (genPrivateKey "ecdsa") (genPrivateKey "ecdsa") }}"#, &Value::Null);
    assert_eq!(twice.unwrap(), b"false");
}

#[test]
fn certificates_can_be_read_and_used_by_ourselves() {
    for (what, call) in CERTIFICATES {
        let (cert, key) = certificate(call);
        let data = json!({"cert": cert, "key": key});
        let again = rendered("{{ (buildCustomCert .cert .key).Cert | b64enc }}", &data);
        assert_eq!(again, Ok(cert.into_bytes()), "{what}");
    }
}

/// Go refuses to sign with a key that does not belong to the certificate.
#[test]
fn certificates_can_be_read_and_used_by_the_original() {
    let Some(oracle) = Oracle::start("text-template") else { return };
    let template = r#"{{ $ca := buildCustomCert .cert .key }}{{ $c := genSignedCert "x" nil nil 1 $ca }}{{ gt (len $c.Cert) 100 }}"#;
    let questions: Vec<_> = CERTIFICATES
        .iter()
        .map(|(_, call)| {
            let (cert, key) = certificate(call);
            json!({"template": template, "name": "t", "data": {"cert": cert, "key": key}, "functions": "sprig"})
        })
        .collect();
    for ((what, _), answer) in CERTIFICATES.iter().zip(oracle.ask(&questions)) {
        assert_eq!(theirs(&answer), Ok("true".to_owned()), "{what}");
    }
}

/// It takes some seconds, so that there is one of this size.
#[test]
fn rsa_key_is_one_for_the_original() {
    let key = rendered("{{ genPrivateKey `rsa` }}", &Value::Null).unwrap();
    let key = String::from_utf8(key).unwrap();
    assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
    let Some(oracle) = Oracle::start("text-template") else { return };
    let template = r#"{{ $c := genCAWithKey "x" 1 .key }}{{ eq $c.Key .key }}"#;
    let question = json!({"template": template, "name": "t", "data": {"key": key}, "functions": "sprig"});
    assert_eq!(theirs(&oracle.ask(&[question])[0]), Ok("true".to_owned()));
}
