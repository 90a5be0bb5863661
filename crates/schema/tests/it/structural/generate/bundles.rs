//! Makes bundles of certificates, most of them with something wrong.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::dice::Dice;

const CERTIFICATE: &str = include_str!("../certificate.pem");

/// A definition with a webhook that trusts a bundle.
pub(crate) fn definition(bundle: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org", "resourceVersion": "1"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://example.org/convert", "caBundle": bundle}
            }},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}
            }]
        },
        "status": {
            "storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}],
            "acceptedNames": {"plural": "things", "kind": "Thing"}
        }
    })
}

/// One with nothing wrong.
pub(crate) fn whole() -> String {
    STANDARD.encode(CERTIFICATE)
}

pub(crate) fn bundle(dice: &mut Dice) -> String {
    // Of keys and extensions, we know less: beside others, they are left alone.
    let count = 1 + dice.below(2);
    let blocks: String = (0..count).map(|_| block(dice, count == 1)).collect();
    let mut encoded = STANDARD.encode(blocks);
    if dice.chance(10) {
        let at = dice.below(encoded.len());
        encoded.truncate(at);
        encoded += dice.pick(&["", "=", "==", "!", "\n", "="]);
    }
    encoded
}

fn block(dice: &mut Dice, goes_deep: bool) -> String {
    let mut der = STANDARD
        .decode(CERTIFICATE.lines().filter(|line| !line.starts_with('-')).collect::<String>())
        .unwrap();
    for _ in 0..dice.below(3) {
        // The beginning is what everything else depends on.
        let most = if !goes_deep || dice.chance(70) { der.len().min(130) } else { der.len() };
        let at = dice.below(most);
        match dice.below(4) {
            0 => der.truncate(at),
            1 => der.insert(at, 0),
            _ => der[at] = [0, 1, 2, 3, 0x30, 0x31, 0x80, 0x81, 0xa0, 0xff][dice.below(10)],
        }
        if der.is_empty() {
            der.push(0x30);
        }
    }
    let (begin, end) = match dice.below(12) {
        0 => ("-----BEGIN CERTIFICATE-----", "-----END KEY-----"),
        1 => ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
        2 => ("-----BEGIN CERTIFICATE----", "-----END CERTIFICATE-----"),
        3 => ("-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n", "-----END CERTIFICATE-----"),
        4 => ("-----BEGIN CERTIFICATE-----  ", "-----END CERTIFICATE----- \t"),
        5 => ("-----BEGIN A-----\n-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"),
        6 => ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE----- x"),
        _ => ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"),
    };
    let mut body = STANDARD.encode(der);
    match dice.below(10) {
        0 => body.clear(),
        1 => body.insert(body.len().min(4), ' '),
        2 => body.insert_str(body.len().min(8), "\r\n"),
        3 => body.push('='),
        _ => {}
    }
    let before = dice.pick(&["", "", "", "words\n", "-", "\n\n"]);
    let after = dice.pick(&["\n", "\n", "\n", "", "\r\n", "\nwords"]);
    format!("{before}{begin}\n{body}\n{end}{after}")
}
